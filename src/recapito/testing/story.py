"""The attempts of an event at a receiver, as the text of a failed assertion."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from recapito.domain.instant import show_duration
from recapito.testing.answer import Request

_SLACK_S = 0.5


class StoryAttempt(NamedTuple):
    """One attempt to deliver an event: its number, its time after publishing, and its request."""

    number: int
    after_s: float
    request: Request

    def __str__(self) -> str:
        answered = f"answered {self.request.status}" if self.request.status else "not answered"
        raised = f" ({self.request.raised})" if self.request.raised else ""
        return f"attempt {self.number} at +{show_duration(self.after_s)}: {answered}{raised}"


class FilterLine(NamedTuple):
    """A line about one subscription's part in an event, and whether its filter took the event."""

    text: str
    matched: bool = False


class Story(NamedTuple):
    """All attempts to deliver one event to one receiver. `jitter` is the part by which they may be late."""

    event_id: str
    receiver: str
    attempts: list[StoryAttempt]
    jitter: float
    now_s: float

    @property
    def delivery(self) -> StoryAttempt | None:
        """The attempt that delivered it."""
        return next((attempt for attempt in self.attempts if attempt.request.delivered), None)

    def is_at(self, attempt: StoryAttempt, expected_s: float) -> bool:
        """True if an attempt came at its due time, within the jitter of the schedule."""
        return -_SLACK_S <= attempt.after_s - expected_s <= expected_s * self.jitter + _SLACK_S

    def tell(self, trouble: str, other_ids: Sequence[str], verdicts: Sequence[FilterLine] = ()) -> str:
        """The failure, and the attempts of the event; without any, the verdict of each subscription's filter."""
        lines = [f"Event '{self.event_id}' {trouble}.", f"What {self.receiver} saw of it:"]
        lines += [f"  {attempt}" for attempt in self.attempts] or ["  nothing"]
        if not self.attempts:
            others = ", ".join(other_ids[:5]) + (", …" if len(other_ids) > 5 else "")
            lines.append(f"Other events that arrived: {others or 'none'}.")
            lines += [verdict.text for verdict in verdicts]
        lines.append(f"The clock stands at +{show_duration(self.now_s)}.")
        if self.delivery is None and (self.attempts or any(verdict.matched for verdict in verdicts)):
            lines.append("recapito.clock.advance(…) lets the next attempt come, until_idle() all that are left.")
        return "\n".join(lines)


def tell_story(
    event_id: str,
    receiver: str,
    requests: Sequence[Request],
    published_at: datetime | None,
    now: datetime,
    jitter: float,
) -> Story:
    """The story of an event. If it was published outside the fixture, time counts from the first attempt."""
    seen = [request for request in requests if event_id in request.ids]
    began = published_at or (seen[0].at if seen else now)
    counts: dict[str, int] = {}
    attempts = []
    for request in seen:
        number = counts[request.subscription] = counts.get(request.subscription, 0) + 1
        attempts.append(StoryAttempt(number, (request.at - began).total_seconds(), request))
    return Story(event_id, receiver, attempts, jitter, (now - began).total_seconds())
