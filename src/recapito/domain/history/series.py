"""Attempts counted by time, for charts: one bucket for each stretch of `width` nanoseconds in which something was sent.

A bucket counts as the lanes' books do: a request is one attempt for each of its events.
"""

from collections import Counter
from collections.abc import Iterable

import msgspec

from recapito.domain.delivery.outcome import Result
from recapito.domain.delivery.vocabulary import DispositionKind, NonRequestOutcome
from recapito.domain.history.attempt import Attempt, EventDisposition

EXPIRED = "TimeToLiveExceeded"
_SUCCESS = str(Result.SUCCESS)
_ENDINGS = frozenset(map(str, NonRequestOutcome))


class Bucket(msgspec.Struct):
    """The counts of one stretch of time. `answers` counts requests, `took` is their time together in nanoseconds."""

    delivered: int = 0
    failed: int = 0
    expired: int = 0
    dropped: int = 0
    dead_lettered: int = 0
    answers: int = 0
    took: int = 0

    def add(self, outcome: str, attempts: int, events: int, took: int) -> None:
        """Count attempts of one outcome; their dropped events are counted by `add_drops`."""
        if outcome == NonRequestOutcome.DEAD_LETTERED:
            self.dead_lettered += events
        elif outcome not in _ENDINGS:
            self.answers += attempts
            self.took += took
            if outcome == _SUCCESS:
                self.delivered += events
            else:
                self.failed += events

    def add_drops(self, dispositions: Iterable[EventDisposition]) -> None:
        """Count the events that were given up without a dead letter."""
        reasons = Counter(each.reason == EXPIRED for each in dispositions if each.kind is DispositionKind.DROP)
        self.expired += reasons[True]
        self.dropped += reasons[False]

    def merge(self, other: "Bucket") -> None:
        """Add the counts of another bucket."""
        for name in self.__struct_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


class Series:
    """Buckets by their number: the instant of sending divided by the width."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.buckets: dict[int, Bucket] = {}

    def __repr__(self) -> str:
        return f"<Series of {len(self.buckets)} buckets>"

    def bucket(self, number: int) -> Bucket:
        return self.buckets.setdefault(number, Bucket())

    def add(self, attempt: Attempt) -> None:
        bucket = self.bucket(attempt.at // self.width)
        bucket.add(attempt.outcome, 1, len(attempt.ids), attempt.took)
        bucket.add_drops(attempt.dispositions)

    def merge(self, other: "Series") -> None:
        """Add the counts of another series of the same width."""
        for number, bucket in other.buckets.items():
            self.bucket(number).merge(bucket)
