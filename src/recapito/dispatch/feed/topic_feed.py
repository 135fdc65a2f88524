"""The feed of one topic: its log as lanes read it, and the lanes that read it.

When the log grows, the feed wakes the lanes that may match the new entries; the others sleep on and lag behind. A sweep
wakes them to pass, in one go, the entries that they slept through: so often that each cursor is saved as soon as if its
lane had read everything, and that the tail index still knows those entries.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from recapito.contracts.log import Entry, EntryKind
from recapito.dispatch.feed.segment_cache import NO_KEYS, CachedEntry, SegmentCache
from recapito.dispatch.feed.tail_index import ANY, TailIndex
from recapito.domain import limits
from recapito.domain.events.conversion import Convert
from recapito.domain.events.segment import Segment
from recapito.domain.filters.filter import Filter
from recapito.domain.filters.matcher import WakeKey, compile_filter, wake_keys_of

if TYPE_CHECKING:
    from recapito.dispatch.lane.lane import Lane

LOADS_AHEAD = 4


async def _keep_no_copy(topic: int, entry: Entry) -> None:
    """The `set_aside` of a feed without a ledger."""


class TopicFeed:
    """One topic's log, tail and lanes.

    Lanes are listed by the keys that wake them; a lane that takes every event is listed under ANY. The others need a
    tail index, which the feed keeps while it has such lanes.

    - `end`: the last position of the log that the dispatcher knows.
    - `unmatched`: events that no lane took and that no status has reported yet.
    - `resource_id`: the topic's, for diagnostic records.
    - `set_aside`: keeps a damaged entry for a person, before a lane can pass it.
    """

    def __init__(
        self,
        topic: int,
        cache: SegmentCache,
        tail_entries: int = limits.TAIL_ENTRIES,
        set_aside: Callable[[int, Entry], Awaitable[None]] = _keep_no_copy,
    ) -> None:
        self.topic = topic
        self.end = 0
        self.unmatched = 0
        self.resource_id = ""
        self.lanes: dict[int, Lane] = {}
        self.tail: TailIndex | None = None
        self.shared_keys = NO_KEYS  # the keys that the conditions of all lanes look at, as far as they are few
        self._cache = cache
        self._tail_entries = tail_entries
        self._set_aside = set_aside
        self._wake_keys: dict[int, Iterable[WakeKey]] = {}
        self._by_wake_key: dict[WakeKey, dict[int, Lane]] = {}
        self._filters: dict[WakeKey, list[Filter]] = {}  # the distinct filters of the lanes under a key
        self._sleeping_since: int | None = None
        self._swept = 0

    def __repr__(self) -> str:
        return f"<TopicFeed {self.topic} to {self.end}, {len(self.lanes)} lanes>"

    # The log.

    def get(self, position: int) -> CachedEntry | None:
        """The entry, if it is cached."""
        return self._cache.get(self.topic, position)

    def select(self, entry: CachedEntry, filter: Filter) -> Sequence[int]:
        """The offsets of the events of an entry that pass the filter."""
        return self._cache.select(entry, filter, self.shared_keys)

    def converted(self, entry: CachedEntry, convert: Convert) -> Segment:
        """The segment of an entry in another schema."""
        return self._cache.converted(entry, convert)

    async def load(self, position: int) -> None:
        """Read entries from a position on into the cache; what the log raises is raised here."""
        await self._cache.load(self.topic, position, self._take_in)

    async def fetch(self, position: int) -> CachedEntry:
        """The entry, read if it is not cached."""
        while (entry := self.get(position)) is None:
            await self.load(position)
        return entry

    async def _take_in(self, read: list[Entry]) -> None:
        """Keep entries, and add them to the tail index."""
        for stored in read:
            if stored.kind is EntryKind.DAMAGED:
                await self._set_aside(self.topic, stored)
        entries = [(stored.position, self._cache.decode(self.topic, stored)) for stored in read]
        for position, entry in entries:
            tail = self.tail
            if tail is not None and position == tail.end + 1:
                events = 0 if entry.segment is None else len(entry.segment)
                tail.add(self._wake_keys_of(entry, tail.watched), events)
        for position, entry in reversed(entries):  # so that the first, which is wanted, is evicted last
            self._cache.keep(self.topic, position, entry)

    def _wake_keys_of(self, entry: CachedEntry, filters: Iterable[Filter]) -> list[WakeKey]:
        """The keys that lanes know an entry by. A change, or an entry that cannot be matched, may concern every lane.

        A redriven entry concerns one lane, whatever its filter: each lane looks whether it is meant.
        """
        if entry.segment is None or entry.segment.only:
            return [ANY]
        try:
            return wake_keys_of(entry.segment) + [filter for filter in filters if self.select(entry, filter)]
        except Exception:  # each lane that matches the entry meets the error itself, and stops loudly
            return [ANY]

    # The lanes.

    def put(self, lane: "Lane") -> None:
        """List a lane by the filter that it has now."""
        self.remove(lane.id)
        self._filters.clear()
        self.lanes[lane.id] = lane
        wake_keys = compile_filter(lane.subscription.filter).wake_keys
        self._wake_keys[lane.id] = (ANY,) if wake_keys is None else wake_keys
        for wake_key in self._wake_keys[lane.id]:
            self._by_wake_key.setdefault(wake_key, {})[lane.id] = lane
        self._share_keys()
        if wake_keys is not None:
            self.tail = self.tail or TailIndex(self._tail_entries)
            for wake_key in wake_keys:
                if isinstance(wake_key, Filter):
                    self.tail.watch(wake_key)

    def remove(self, id: int) -> None:
        """Forget a lane, if it is here."""
        self._filters.clear()
        self.lanes.pop(id, None)
        for wake_key in self._wake_keys.pop(id, ()):
            del self._by_wake_key[wake_key][id]
            if not self._by_wake_key[wake_key]:
                del self._by_wake_key[wake_key]
                if isinstance(wake_key, Filter) and self.tail is not None:
                    self.tail.unwatch(wake_key)
        if len(self._by_wake_key.get(ANY, ())) == len(self.lanes):
            self.tail = None
        self._share_keys()

    def _share_keys(self) -> None:
        """Let the conditions of all lanes share one decoding of an event, as far as they look at few keys together."""
        shared = NO_KEYS
        for lane in self.lanes.values():
            keys = shared | compile_filter(lane.subscription.filter).keys
            shared = keys if len(keys) <= limits.FIELD_READER_KEYS else shared
        self.shared_keys = shared

    async def grow(self, end: int, now: int) -> int | None:
        """The log has grown to `end`: load the new entries, and wake lanes.

        Returns the instant since which other lanes sleep, or None when none does.
        """
        before, self.end = self.end, max(self.end, end)
        await self._load_ahead(before)
        self._count_unmatched(before + 1)
        concerned = self._concerned(before + 1)
        for lane in concerned:
            lane.wake()
        if len(concerned) == len(self.lanes):
            return None
        if self._sleeping_since is None:
            self._sleeping_since = now
        if self.end - self._swept > self._tail_entries // 2:
            self.sweep()
        return self._sleeping_since

    def sweep(self) -> None:
        """Wake all lanes that sleep."""
        since, self._sleeping_since = self._sleeping_since, None
        if since is None:
            return
        for lane in self.lanes.values():
            lane.catch_up(since)
        if self.tail is not None:
            self.tail.forget(self._swept)  # the sweep before this one woke all lanes to pass these
            self._swept = min(self.tail.end, self.end) + 1

    async def _load_ahead(self, before: int) -> None:
        """Load the new entries if a lane wants them at once; the tail index learns them, unless they are many."""
        wanted = any(lane.at_tail(before) for lane in self.lanes.values())
        if self.tail is None:
            if wanted:
                await self._try_to_load(before + 1)
            return
        tail = self.tail
        if tail.end < before:
            tail.restart(before + 1)
        for _ in range(LOADS_AHEAD if wanted else 0):
            if tail.end < self.end:
                await self._try_to_load(tail.end + 1)
        if tail.end < self.end:
            tail.restart(self.end + 1)  # each lane reads these entries by itself

    async def _try_to_load(self, position: int) -> None:
        try:
            await self.load(position)
        except Exception:  # the lane that misses the entry asks for it again, and meets the error
            return

    def _count_unmatched(self, first: int) -> None:
        """Count the events that no lane takes, as far as the tail index knows; a lane that takes all leaves none.

        The selections made here are those that the woken lanes are about to make, and are remembered for them.
        """
        tail = self.tail
        if tail is None or ANY in self._by_wake_key or not tail.knows(first, self.end):
            return
        for position in range(first, self.end + 1):
            entry = self.get(position)
            if entry is None or entry.segment is None or entry.segment.only:
                continue
            events = len(entry.segment)
            taken: set[int] = set()
            for filter in self._candidates(tail.wake_keys(position, position)):
                taken.update(self.select(entry, filter))
                if len(taken) == events:
                    break
            self.unmatched += events - len(taken)

    def _candidates(self, wake_keys: Iterable[WakeKey]) -> Iterator[Filter]:
        """The filters of the lanes that know an entry by one of these keys; by ANY, all filters."""
        for wake_key in self._by_wake_key if ANY in wake_keys else wake_keys:
            filters = self._filters.get(wake_key)
            if filters is None:
                filters = list({lane.subscription.filter for lane in self._by_wake_key.get(wake_key, {}).values()})
                self._filters[wake_key] = filters
            yield from filters

    def _concerned(self, first: int) -> list["Lane"]:
        tail = self.tail
        if tail is not None and tail.knows(first, self.end):
            wake_keys = tail.wake_keys(first, self.end)
            if ANY not in wake_keys:
                lanes = [
                    lane for wake_key in (ANY, *wake_keys) for lane in self._by_wake_key.get(wake_key, {}).values()
                ]
                return list(dict.fromkeys(lanes))
        return list(self.lanes.values())
