"""The lanes of one topic. When its log grows, those are woken whom the news may concern; the others sleep on.

A lane that sleeps lags behind. A sweep wakes it to pass, in one go, what it slept through: so often that its cursor is
saved as soon as if it had read everything, and that the tail still knows what it slept through.
"""

from collections.abc import Iterable

from recapito.dispatch.lane import Lane
from recapito.dispatch.segments import Segments
from recapito.dispatch.tail import ANY, Tail
from recapito.domain import limits
from recapito.domain.match import compile_filter

LOADS_AHEAD = 4


def _ignore(failure: Exception | None) -> None:
    """What could not be loaded ahead is asked for again by the lane that misses it."""


class Roster:
    """Lanes by the words that wake them; those without words, for whom anything may be, are listed under ANY."""

    def __init__(self, topic: int, segments: Segments) -> None:
        self.lanes: dict[int, Lane] = {}
        self._topic = topic
        self._segments = segments
        self._words: dict[int, Iterable[str]] = {}
        self._by_word: dict[str, dict[int, Lane]] = {}
        self._sleeping_since: int | None = None
        self._swept = 0

    def put(self, lane: Lane) -> None:
        """List a lane, by the filter that it has now."""
        self.remove(lane.id)
        words = compile_filter(lane.subscription.filter).words
        self.lanes[lane.id] = lane
        self._words[lane.id] = (ANY,) if words is None else words
        for word in self._words[lane.id]:
            self._by_word.setdefault(word, {})[lane.id] = lane
        self._keep_tail()

    def remove(self, id: int) -> None:
        """Forget a lane, if it is here."""
        self.lanes.pop(id, None)
        for word in self._words.pop(id, ()):
            del self._by_word[word][id]
            if not self._by_word[word]:
                del self._by_word[word]
        self._keep_tail()

    async def grow(self, before: int, end: int, now: int) -> int | None:
        """The log has grown: load what a lane wants at once, and wake lanes. When a sweep is due, if any sleep."""
        tail = self._segments.tails.get(self._topic)
        if tail is not None and tail.end < before:
            tail.restart(before + 1)
        if any(lane.at_tail(before) for lane in self.lanes.values()):
            await self._load_ahead(tail, before + 1, end)
        waking = list(self._concerned(tail, before + 1, end))
        for lane in waking:
            lane.wake()
        if tail is None or len(waking) == len(self.lanes):
            return None
        if self._sleeping_since is None:
            self._sleeping_since = now
        if end - self._swept > limits.TAIL_ENTRIES // 4:
            self.sweep()
            return None
        return self._sleeping_since

    def sweep(self) -> None:
        """Wake all lanes that sleep."""
        since, self._sleeping_since = self._sleeping_since, None
        if since is None:
            return
        for lane in self.lanes.values():
            lane.catch_up(since)
        tail = self._segments.tails.get(self._topic)
        if tail is not None:
            tail.forget(self._swept)  # all have passed these since the sweep before
            self._swept = min(tail.end, self._segments.ends[self._topic]) + 1

    async def _load_ahead(self, tail: Tail | None, position: int, end: int) -> None:
        """Load the next entries; with a tail to fill, all that are new, within reason."""
        for _ in range(1 if tail is None else LOADS_AHEAD):
            if tail is not None:
                position = tail.end + 1
            if position <= end:
                await self._segments.load(self._topic, position, _ignore)

    def _concerned(self, tail: Tail | None, first: int, last: int) -> Iterable[Lane]:
        if tail is None or not tail.knows(first, last):
            return self.lanes.values()
        words = tail.words(first, last)
        if ANY in words:
            return self.lanes.values()
        return {id: lane for word in (ANY, *words) for id, lane in self._by_word.get(word, {}).items()}.values()

    def _keep_tail(self) -> None:
        """A topic has a tail as long as one of its lanes can sleep."""
        if len(self._by_word.get(ANY, ())) == len(self.lanes):
            self._segments.tails.pop(self._topic, None)
        else:
            self._segments.tails.setdefault(self._topic, Tail())
