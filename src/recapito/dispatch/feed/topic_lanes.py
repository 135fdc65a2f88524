"""The lanes of one topic. When its log grows, those are woken whom the news may concern; the others sleep on.

A lane that sleeps lags behind. A sweep wakes it to pass, in one go, what it slept through: so often that its cursor is
saved as soon as if it had read everything, and that the tail still knows what it slept through.
"""

from collections.abc import Iterable, Iterator

from recapito.dispatch.feed.segment_cache import SegmentCache
from recapito.dispatch.feed.tail_index import ANY, TailIndex
from recapito.dispatch.lane.lane import Lane
from recapito.domain import limits
from recapito.domain.filters.filter import Filter
from recapito.domain.filters.matcher import WakeKey, compile_filter

LOADS_AHEAD = 4


def _ignore(failure: Exception | None) -> None:
    """What could not be loaded ahead is asked for again by the lane that misses it."""


class TopicLanes:
    """Lanes by the words that wake them; those that take everything are listed under ANY. Others need a tail."""

    def __init__(self, topic: int, segments: SegmentCache) -> None:
        self.lanes: dict[int, Lane] = {}
        self._topic = topic
        self._segments = segments
        self._wake_keys: dict[int, Iterable[WakeKey]] = {}
        self._by_wake_key: dict[WakeKey, dict[int, Lane]] = {}
        self._filters: dict[WakeKey, list[Filter]] = {}  # the distinct ones of the lanes under a word, when asked for
        self._sleeping_since: int | None = None
        self._swept = 0

    @property
    def _tail(self) -> TailIndex | None:
        return self._segments.tails.get(self._topic)

    def put(self, lane: Lane) -> None:
        """List a lane, by the filter that it has now."""
        self.remove(lane.id)
        self._filters.clear()
        self.lanes[lane.id] = lane
        wake_keys = compile_filter(lane.subscription.filter).wake_keys
        self._wake_keys[lane.id] = (ANY,) if wake_keys is None else wake_keys
        for wake_key in self._wake_keys[lane.id]:
            self._by_wake_key.setdefault(wake_key, {})[lane.id] = lane
        self._share_keys()
        if wake_keys is not None:
            tail = self._segments.tails.setdefault(self._topic, TailIndex(self._segments.tail_entries))
            for wake_key in wake_keys:
                if isinstance(wake_key, Filter):
                    tail.watch(wake_key)

    def remove(self, id: int) -> None:
        """Forget a lane, if it is here."""
        self._filters.clear()
        self.lanes.pop(id, None)
        for wake_key in self._wake_keys.pop(id, ()):
            del self._by_wake_key[wake_key][id]
            if not self._by_wake_key[wake_key]:
                del self._by_wake_key[wake_key]
                if isinstance(wake_key, Filter) and self._tail is not None:
                    self._tail.unwatch(wake_key)
        if len(self._by_wake_key.get(ANY, ())) == len(self.lanes):
            self._segments.tails.pop(self._topic, None)
        self._share_keys()

    def _share_keys(self) -> None:
        """Let the conditions of all lanes share one look at an event, as far as they look at few things together."""
        shared: frozenset[str] = frozenset()
        for lane in self.lanes.values():
            keys = shared | compile_filter(lane.subscription.filter).keys
            shared = keys if len(keys) <= limits.FIELD_READER_KEYS else shared
        if shared:
            self._segments.shared_keys[self._topic] = shared
        else:
            self._segments.shared_keys.pop(self._topic, None)

    async def grow(self, before: int, end: int, now: int) -> int | None:
        """The log has grown: load what a lane wants at once, and wake lanes. Since when others sleep, if any do."""
        await self._load_ahead(before, end)
        self._count_unmatched(before + 1, end)
        concerned = self._concerned(before + 1, end)
        for lane in concerned:
            lane.wake()
        if len(concerned) == len(self.lanes):
            return None
        if self._sleeping_since is None:
            self._sleeping_since = now
        if end - self._swept > self._segments.tail_entries // 2:
            self.sweep()
        return self._sleeping_since

    def sweep(self) -> None:
        """Wake all lanes that sleep."""
        since, self._sleeping_since = self._sleeping_since, None
        if since is None:
            return
        for lane in self.lanes.values():
            lane.catch_up(since)
        if self._tail is not None:
            self._tail.forget(self._swept)  # all were woken to pass these by the sweep before
            self._swept = min(self._tail.end, self._segments.ends[self._topic]) + 1

    async def _load_ahead(self, before: int, end: int) -> None:
        """Load the next entries, if a lane is there; a tail learns all of them, unless they are too many."""
        wanted = any(lane.at_tail(before) for lane in self.lanes.values())
        tail = self._tail
        if tail is None:
            if wanted:
                await self._segments.load(self._topic, before + 1, _ignore)
            return
        if tail.end < before:
            tail.restart(before + 1)
        for _ in range(LOADS_AHEAD if wanted else 0):
            if tail.end < end:
                await self._segments.load(self._topic, tail.end + 1, _ignore)
        if tail.end < end:
            tail.restart(end + 1)  # all lanes read it by themselves

    def _count_unmatched(self, first: int, last: int) -> None:
        """Count the events that no lane takes, as far as the tail knows; a lane that takes all leaves none.

        What it asks of the filters is what the lanes that are woken are about to ask, and is remembered for them.
        """
        tail = self._tail
        if tail is None or ANY in self._by_wake_key or not tail.knows(first, last):
            return
        for position in range(first, last + 1):
            entry = self._segments.get(self._topic, position)
            if entry is None or entry.segment is None or entry.segment.only:
                continue
            events = len(entry.segment)
            taken: set[int] = set()
            for filter in self._candidates(tail.wake_keys(position, position)):
                selected = self._segments.select(self._topic, entry, filter)
                taken.update(selected)
                if len(taken) == events:
                    break
            if events > len(taken):
                counts = self._segments.unmatched
                counts[self._topic] = counts.get(self._topic, 0) + events - len(taken)

    def _candidates(self, wake_keys: Iterable[WakeKey]) -> Iterator[Filter]:
        """The filters of the lanes that know an entry by one of these words; by ANY, all filters."""
        for wake_key in self._by_wake_key if ANY in wake_keys else wake_keys:
            filters = self._filters.get(wake_key)
            if filters is None:
                filters = list({lane.subscription.filter for lane in self._by_wake_key.get(wake_key, {}).values()})
                self._filters[wake_key] = filters
            yield from filters

    def _concerned(self, first: int, last: int) -> list[Lane]:
        tail = self._tail
        if tail is not None and tail.knows(first, last):
            wake_keys = tail.wake_keys(first, last)
            if ANY not in wake_keys:
                lanes = [
                    lane for wake_key in (ANY, *wake_keys) for lane in self._by_wake_key.get(wake_key, {}).values()
                ]
                return list(dict.fromkeys(lanes))
        return list(self.lanes.values())
