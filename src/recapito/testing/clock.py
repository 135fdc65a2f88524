"""The clock of the server under test: it stands still until a test moves it."""

from datetime import datetime, timedelta
from typing import Any, NamedTuple

from recapito.testing.answer import Duration, seconds_of
from recapito.testing.client import LocalClient

_ADVANCE_TIMEOUT_S = 600.0


class ClockMove(NamedTuple):
    """The results of a move of the clock, in events; `attempts` are requests."""

    attempts: int
    delivered: int
    dead_lettered: int
    dropped: int
    pending: int
    idle: bool


class ServerClock:
    """Reads the server's time, and moves it from due time to due time."""

    def __init__(self, client: LocalClient) -> None:
        self._client = client

    def __repr__(self) -> str:
        return f"<Clock at {self.now:%Y-%m-%d %H:%M:%S}>"

    @property
    def now(self) -> datetime:
        """The server's time."""
        return datetime.fromisoformat(self._client.call("GET", "/clock")["now"])

    def advance(
        self, duration: Duration = 0.0, *, days: float = 0, hours: float = 0, minutes: float = 0, seconds: float = 0
    ) -> ClockMove:
        """Let time pass: `advance("6m40s")`, `advance(minutes=5)`. Everything due on the way happens first."""
        parts = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
        return self._move({"seconds": seconds_of(duration) + parts.total_seconds()})

    def until_idle(self) -> ClockMove:
        """Let time pass until nothing is left to deliver, retry or dead-letter, 30 days at most."""
        return self._move({"until": "idle"})

    def settle(self) -> ClockMove:
        """Do everything that is due now; no time passes."""
        return self._move({"seconds": 0})

    def sleep(self, seconds: float) -> None:
        """Return when another thread has moved the clock this far."""
        self._client.call("POST", "/clock/sleep", {"seconds": seconds}, timeout_s=_ADVANCE_TIMEOUT_S)

    def _move(self, body: dict[str, Any]) -> ClockMove:
        happened = self._client.call("POST", "/clock/advance", body, timeout_s=_ADVANCE_TIMEOUT_S)
        names = ("attempts", "delivered", "deadLettered", "dropped", "pending", "idle")
        return ClockMove(*(happened[name] for name in names))
