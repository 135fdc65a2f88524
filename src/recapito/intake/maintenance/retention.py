"""Retention of log entries that every subscription has passed, so that they can still be explained for a while.

The law: retention only ever trims less than may be trimmed. When the kept entries of all topics are too large or too
old, the entries passed first go first. While entries pass so fast that they would stay only for a moment, none stay:
entries are removed cheaply while they are still in memory.
"""

from collections import Counter, deque
from collections.abc import Container
from typing import NamedTuple, Protocol

from recapito.domain.instant import DAY

ROUNDS = 8  # the entries passed in one round must fit this often, or none stay


class Sizes(Protocol):
    """The part of the Log that is read here."""

    async def size(self, topic: int, first: int, below: int) -> int:
        """The total bytes of the entries from `first` up to, not including, `below`."""


class RetentionBounds(NamedTuple):
    """How much stays: N bytes, no older than `age_ns`; none by default."""

    size: int = 0
    age_ns: int = DAY


NOTHING = RetentionBounds()


class _Passed(NamedTuple):
    """Entries of a topic below a position, found to be passed in the same round."""

    topic: int
    below: int
    size: int
    at: int


class Retention:
    """A queue of passed entries, oldest first, with their total size."""

    def __init__(self, log: Sizes, keeping: RetentionBounds = NOTHING) -> None:
        self._log = log
        self._keeping = keeping
        self._queue: deque[_Passed] = deque()
        self._queued: Counter[int] = Counter()  # how many times a topic is in the queue
        self._below: dict[int, int] = {}  # topic -> the position below which it is known to be passed
        self._size = 0
        self._news = 0  # bytes passed since the last release

    def __repr__(self) -> str:
        return f"<Retention of {self._size} bytes in {len(self._queue)} parts>"

    async def passed(self, topic: int, below: int, now: int) -> None:
        """Take note that every subscription has passed the entries below a position."""
        before = self._below.get(topic, 0)
        if below <= before:
            return
        size = await self._log.size(topic, before, below) if self._keeping.size else 0
        self._below[topic] = below
        self._queue.append(_Passed(topic, below, size, now))
        self._queued[topic] += 1
        self._size += size
        if before:  # entries from before the start are no news
            self._news += size

    def release(self, now: int, short: bool) -> dict[int, int]:
        """The topics to trim, each with the position below which. `short`: the disk has no room for kept entries."""
        limit = 0 if short or self._news * ROUNDS > self._keeping.size else self._keeping.size
        self._news = 0
        released: dict[int, int] = {}
        while self._queue and (self._size > limit or not limit or self._queue[0].at <= now - self._keeping.age_ns):
            oldest = self._queue.popleft()
            self._size -= oldest.size
            self._queued[oldest.topic] -= 1
            released[oldest.topic] = oldest.below
        return released

    def forget(self, subscribed: Container[int]) -> None:
        """Drop the positions of topics that have neither subscriptions nor queued entries."""
        self._queued += Counter()  # drops the counts that are zero
        self._below = {topic: at for topic, at in self._below.items() if topic in subscribed or topic in self._queued}
