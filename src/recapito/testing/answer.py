"""The requests to a receiver of a test, and the script of its answers."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from recapito.domain.instant import read_duration

Duration = str | float | timedelta
EventId = str | UUID  # Microsoft's client makes UUIDs
DELIVERED = (200, 201, 202, 203, 204)
_LISTENED_TO_S = 180.0  # the server listens this long for a late answer


@dataclass(frozen=True)
class Answer:
    """One answer. Status 0 is none: the connection is closed instead. `delay_s` passes on the server's clock first."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    delay_s: float = 0.0


@dataclass
class Request:
    """One request with events: its time by the server's clock, and the status of its answer (0 is none)."""

    subscription: str
    at: datetime
    headers: dict[str, str]
    body: bytes
    status: int = 0
    raised: str = ""

    @property
    def events(self) -> list[dict[str, Any]]:
        """The events; a single CloudEvent comes as an object."""
        content = json.loads(self.body)
        return content if isinstance(content, list) else [content]

    @property
    def ids(self) -> list[str]:
        """The ids of those events that have one."""
        return [str(event["id"]) for event in self.events if isinstance(event, dict) and "id" in event]

    @property
    def delivered(self) -> bool:
        """True if the answer accepted the events."""
        return self.status in DELIVERED


Step = int | Answer | Callable[[Request], "int | Answer | None"]


def answer(
    status: int = 200,
    body: bytes | str | Mapping[str, Any] = b"",
    headers: Mapping[str, str] | None = None,
    retry_after: int | None = None,
    delay: Duration = 0.0,
) -> Answer:
    """An answer with more to it than a status: headers, a body, `Retry-After` in seconds, a delay on the clock."""
    more = {} if retry_after is None else {"Retry-After": str(retry_after)}
    if isinstance(body, Mapping):
        body = json.dumps(body)
    content = body.encode() if isinstance(body, str) else body
    return Answer(status, content, {**(headers or {}), **more}, seconds_of(delay))


def hang() -> Answer:
    """Never answer: the attempt fails after 30 seconds of the server's clock, and costs the test none."""
    return Answer(0, delay_s=_LISTENED_TO_S)


def drop() -> Answer:
    """Close the connection without an answer."""
    return Answer(0)


def seconds_of(duration: Duration) -> float:
    """A duration in seconds, from `90`, `"6m40s"`, `"6 min 40 s"` or a timedelta."""
    if isinstance(duration, timedelta):
        return duration.total_seconds()
    return read_duration(duration) if isinstance(duration, str) else float(duration)


class Script:
    """The answers of a receiver, one for each request; the last is repeated for all that follow."""

    def __init__(self, steps: tuple[Step, ...]) -> None:
        self._steps = list(steps) or [200]

    def next(self) -> Step:
        """The step for the next request."""
        return self._steps.pop(0) if len(self._steps) > 1 else self._steps[0]


def perform(step: Step, request: Request) -> Answer:
    """The answer to a request. An exception of a function is a 500, as in a web framework."""
    if callable(step):
        try:
            given = step(request)
        except Exception as error:
            request.raised = f"{type(error).__name__}: {error}"
            return Answer(500)
        return given if isinstance(given, Answer) else Answer(200 if given is None else given)
    return step if isinstance(step, Answer) else Answer(step)
