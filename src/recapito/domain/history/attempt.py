"""An attempt, as history keeps it: one request, its outcome, and the disposition of each event in it.

Deliveries that end without a request, because they expired or their subscription was deleted, and dead letters that
were written or given up are kept in the same form, with an outcome of their own.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from recapito.domain.delivery.delivery import DeliveryId
from recapito.domain.delivery.kept_headers import ID_PLACE, HeaderText, RawHeaders, text_of
from recapito.domain.delivery.outcome import Result
from recapito.domain.delivery.vocabulary import DispositionKind, NonRequestOutcome, Rule

FAILED = "Failed"  # a query's word for every outcome but these
NOT_FAILED = frozenset({str(Result.SUCCESS), str(NonRequestOutcome.DEAD_LETTERED)})


class LaneLabel(NamedTuple):
    """The lane of an attempt, with the names at that time, which outlive the subscription."""

    lane: int
    topic: int
    topic_name: str
    subscription: str


class EventDisposition(NamedTuple):
    """The disposition of one event: its next due time and the rule for it, or the reason and the dead-letter path."""

    kind: DispositionKind
    due_at: int | None = None
    rule: Rule | None = None
    reason: str | None = None
    where: str | None = None


class AttemptedEvent(NamedTuple):
    id: str
    identity: DeliveryId
    number: int
    disposition: EventDisposition


DELIVERED = EventDisposition(DispositionKind.DELIVERED)


class Attempt(msgspec.Struct, frozen=True, gc=False):
    """One request of a lane: sent `at`, ended `took` later. `late` is a success after the attempt had timed out.

    Its events are in columns: their ids and offsets, and the positions of their segments in runs of (number of events,
    position). No `numbers` means the first attempt of each; no `dispositions`, that each was delivered.
    `headers` is None where no request was sent, or its sender keeps none; a stored attempt has their text.
    """

    label: LaneLabel
    at: int
    took: int
    outcome: str
    status: int | None
    detail: str
    probe: bool
    late: bool
    ids: Sequence[str]
    positions: Sequence[tuple[int, int]]
    offsets: Sequence[int]
    numbers: Sequence[int] = ()
    dispositions: Sequence[EventDisposition] = ()
    headers: RawHeaders | HeaderText | None = None

    def header_text(self) -> HeaderText | None:
        """The headers of the request and of its answer, without secrets."""
        text = text_of(self.headers)
        return text and text._replace(request=text.request.replace(ID_PLACE, self.ids[0] if self.ids else ""))

    def events(self) -> Iterator[AttemptedEvent]:
        positions = [position for count, position in self.positions for _ in range(count)]
        for n, (id, position, offset) in enumerate(zip(self.ids, positions, self.offsets, strict=True)):
            number = self.numbers[n] if self.numbers else 1
            yield AttemptedEvent(
                id, DeliveryId(position, offset), number, self.dispositions[n] if self.dispositions else DELIVERED
            )


class AttemptQuery(NamedTuple):
    """Selects attempts; None is any. Names compare without case; `search` is a part of an event's id.

    `outcome` is one of an attempt, or FAILED; `since` and `until` are instants of sending, both included.
    """

    event: str | None = None
    search: str | None = None
    lane: int | None = None
    topic: str | None = None
    subscription: str | None = None
    outcome: str | None = None
    since: int | None = None
    until: int | None = None

    def takes(self, attempt: Attempt) -> bool:
        return (
            self.takes_label(attempt.label)
            and self.takes_outcome(attempt.outcome)
            and self.takes_time(attempt.at)
            and (self.event is None or self.event in attempt.ids)
            and (self.search is None or any(self.search in id for id in attempt.ids))
        )

    def takes_label(self, label: LaneLabel) -> bool:
        """Whether attempts of this lane may be selected."""
        return (
            (self.lane is None or self.lane == label.lane)
            and (self.topic is None or self.topic.lower() == label.topic_name.lower())
            and (self.subscription is None or self.subscription.lower() == label.subscription.lower())
        )

    def takes_outcome(self, outcome: str) -> bool:
        """Whether attempts of this outcome may be selected."""
        if self.outcome == FAILED:
            return outcome not in NOT_FAILED
        return self.outcome is None or self.outcome == outcome

    def takes_time(self, at: int) -> bool:
        """Whether attempts of this instant may be selected."""
        return (self.since is None or at >= self.since) and (self.until is None or at <= self.until)
