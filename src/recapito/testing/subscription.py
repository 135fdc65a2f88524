"""Event subscriptions of a test, and the dead letters that they left."""

from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

from recapito.testing.answer import EventId
from recapito.testing.client import LocalClient
from recapito.testing.clock import ServerClock

_PAGE = 1000


@dataclass(frozen=True)
class FoundDeadLetter:
    """A dead letter: its reason, attempts and last outcome; `record` is the stored JSON."""

    event_id: str
    reason: str
    attempts: int
    last_outcome: str | None
    record: dict[str, Any]

    @property
    def data(self) -> Any:
        """The data of the event."""
        return self.record.get("data")

    def __str__(self) -> str:
        tried = f"{self.attempts} attempt{'' if self.attempts == 1 else 's'}"
        return f"event '{self.event_id}': {self.reason} after {tried}, the last with {self.last_outcome}"


class Subscription:
    """A subscription of a topic."""

    def __init__(
        self, client: LocalClient, clock: ServerClock, topic: str, name: str, id: str, dead_letter: bool
    ) -> None:
        self.topic = topic
        self.name = name
        self.id = id
        self._client = client
        self._clock = clock
        self._dead_letter = dead_letter

    def __repr__(self) -> str:
        return f"<Subscription {self.topic}/{self.name}>"

    def delete(self) -> None:
        """Delete it, before the test ends."""
        self._client.arm("DELETE", self.id)

    def dead_letters(self) -> list[FoundDeadLetter]:
        """The dead letters up to now; each is written five minutes after the last attempt."""
        self._clock.settle()
        found: list[FoundDeadLetter] = []
        query: dict[str, Any] = {"topic": self.topic, "subscription": self.name, "limit": _PAGE}
        while True:
            page = self._client.call("GET", f"/deadletters?{urlencode(query)}")
            found += [self._read(shown["name"]) for shown in page["value"]]
            if page["next"] is None:
                return found
            query["after"] = page["next"]

    def assert_dead_lettered(
        self, event_id: EventId, *, reason: str | None = None, attempts: int | None = None
    ) -> FoundDeadLetter:
        """Assert that an event became a dead letter, for this reason, after this many attempts. The letter."""
        __tracebackhide__ = True
        letters = self.dead_letters()
        letter = next((letter for letter in letters if letter.event_id == str(event_id)), None)
        if letter is None:
            raise AssertionError(self._tell(event_id, letters))
        if reason is not None and letter.reason != reason:
            raise AssertionError(f"The reason is not {reason}: {letter}.")
        if attempts is not None and letter.attempts != attempts:
            raise AssertionError(f"The attempts are not {attempts}: {letter}.")
        return letter

    def _read(self, name: str) -> FoundDeadLetter:
        shown = self._client.call("GET", f"/deadletters/{quote(name)}")
        return FoundDeadLetter(
            shown["eventId"],
            shown["reason"],
            shown["deliveryAttempts"],
            shown["lastDeliveryOutcome"],
            shown["record"],
        )

    def _tell(self, event_id: EventId, letters: list[FoundDeadLetter]) -> str:
        lines = [f"Event '{event_id}' is not among the dead letters of {self.topic}/{self.name}:"]
        lines += [f"  {letter}" for letter in letters] or ["  there are none"]
        if self._dead_letter:
            lines.append("Letters are written five minutes after the last attempt; recapito.clock.until_idle() waits.")
        else:
            lines.append("It keeps none: subscribe(…, dead_letter=True) does.")
        return "\n".join(lines)
