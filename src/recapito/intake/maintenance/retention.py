"""Which entries that every subscription has passed stay in the log for a while, so that they can be explained.

The law: it only ever says to trim less than may be trimmed. What was passed first goes first, whichever topic it is of,
when all together are larger or older than is kept. While so much is passed that it would stay for a moment only,
nothing stays: entries are removed cheaply while they are still in memory.
"""

from collections import Counter, deque
from collections.abc import Container
from typing import NamedTuple, Protocol

from recapito.domain.instant import DAY

ROUNDS = 8  # what passes in one round must fit so often, or it does not stay at all


class Sizes(Protocol):
    """The part of the Log that is asked."""

    async def size(self, topic: int, first: int, below: int) -> int:
        """How many bytes some entries have."""


class Keeping(NamedTuple):
    """How much stays: so many bytes, no older than this; none by default."""

    size: int = 0
    age_ns: int = DAY


NOTHING = Keeping()


class _Passed(NamedTuple):
    """Entries of a topic below a position that were found to be passed at the same time."""

    topic: int
    below: int
    size: int
    at: int


class Retention:
    """Remembers what was passed, in that order, and says what has to go."""

    def __init__(self, log: Sizes, keeping: Keeping = NOTHING) -> None:
        self._log = log
        self._keeping = keeping
        self._queue: deque[_Passed] = deque()
        self._queued: Counter[int] = Counter()  # how often a topic is in the queue
        self._below: dict[int, int] = {}  # topic -> below which position it is known to be passed
        self._size = 0
        self._news = 0  # what was passed since the last release

    def __repr__(self) -> str:
        return f"<Retention of {self._size} bytes in {len(self._queue)} parts>"

    async def passed(self, topic: int, below: int, now: int) -> None:
        """Every subscription has passed what lies below a position."""
        before = self._below.get(topic, 0)
        if below <= before:
            return
        size = await self._log.size(topic, before, below) if self._keeping.size else 0
        self._below[topic] = below
        self._queue.append(_Passed(topic, below, size, now))
        self._queued[topic] += 1
        self._size += size
        if before:  # what lay there before our time is no news
            self._news += size

    def release(self, now: int, short: bool) -> dict[int, int]:
        """What is to be trimmed: topics, each up to a position. `short`: the disk has no room for what could stay."""
        limit = 0 if short or self._news * ROUNDS > self._keeping.size else self._keeping.size
        self._news = 0
        released: dict[int, int] = {}
        while self._queue and (self._size > limit or not limit or self._queue[0].at <= now - self._keeping.age_ns):
            oldest = self._queue.popleft()
            self._size -= oldest.size
            self._queued[oldest.topic] -= 1
            released[oldest.topic] = oldest.below
        return released

    def forget(self, living: Container[int]) -> None:
        """Know nothing of topics of which nothing stays any more, but for these."""
        self._queued += Counter()  # without those at zero
        self._below = {topic: at for topic, at in self._below.items() if topic in living or topic in self._queued}
