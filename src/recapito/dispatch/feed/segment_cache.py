"""Decoded segments, shared by all lanes near them: read once, matched once per distinct filter, bounded in bytes.

What conditions look at is decoded once for all filters of a topic whose keys are shared.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Sequence

from recapito.contracts.log import Entry, EntryKind, Log
from recapito.dispatch.feed.tail_index import ANY, TailIndex
from recapito.domain import limits
from recapito.domain.events.conversion import Convert
from recapito.domain.events.segment import Segment
from recapito.domain.filters.filter import Filter
from recapito.domain.filters.matcher import SegmentView, WakeKey, select, wake_keys_of

READ_BYTES = 1 * limits.MB
SELECTION_BYTES = 150  # about what remembering one costs, besides its offsets
NO_KEYS: frozenset[str] = frozenset()


class CachedEntry:
    """One entry of a log: a decoded segment, or the mark of a change, which has none. `kept`: the cache has it.

    `damaged` is the number of events that are lost with a damaged entry.
    """

    __slots__ = ("converted", "damaged", "evaluated", "kept", "segment", "selections", "size", "view")

    def __init__(self, entry: Entry) -> None:
        self.segment = Segment(entry.columns, entry.body) if entry.kind is EntryKind.SEGMENT else None
        self.damaged = entry.events if entry.kind is EntryKind.DAMAGED else None
        self.size = 200 if self.segment is None else len(entry.columns) * 4 + len(entry.body) + 200
        self.converted: dict[Convert, Segment] = {}
        self.selections: dict[Filter, Sequence[int]] = {}
        self.evaluated: dict[Filter, Sequence[int]] = {}  # of filters with conditions: what those looked at
        self.view: SegmentView | None = None
        self.kept = False


async def _keep_nothing(topic: int, entry: Entry) -> None:
    """Nobody keeps damaged entries."""


class SegmentCache:
    """The cache in front of the log. `get` is what a lane sees; what it does not see it asks to be loaded.

    A damaged entry is handed to `set_aside` before a lane can pass it.
    """

    def __init__(
        self, log: Log, capacity: int = limits.SEGMENT_CACHE_BYTES, tail_entries: int = limits.TAIL_ENTRIES
    ) -> None:
        self.tail_entries = tail_entries
        self._log = log
        self._capacity = capacity
        self._entries: OrderedDict[tuple[int, int], CachedEntry] = OrderedDict()
        self._readers = asyncio.Semaphore(limits.COLD_READERS)
        self._loading: dict[tuple[int, int], list[Callable[[Exception | None], None]]] = {}
        self.size = 0
        self.ends: dict[int, int] = {}
        self.shared_keys: dict[int, frozenset[str]] = {}  # topic -> what the filters of its lanes look at
        self.unmatched: dict[int, int] = {}  # topic -> events that no lane takes, not reported yet
        self.tails: dict[int, TailIndex] = {}  # of the topics that have lanes which can sleep
        self.set_aside: Callable[[int, Entry], Awaitable[None]] = _keep_nothing

    def get(self, topic: int, position: int) -> CachedEntry | None:
        """The entry, if it is here."""
        key = (topic, position)
        entry = self._entries.get(key)
        if entry is not None:
            self._entries.move_to_end(key)
        return entry

    def converted(self, entry: CachedEntry, convert: Convert) -> Segment:
        """The segment of an entry, which is here, in another schema: converted once for all lanes that want it."""
        converted = entry.converted.get(convert)
        if converted is None:
            assert entry.segment is not None
            converted = entry.converted[convert] = entry.segment.converted(convert)
            self._grow(entry, len(converted.body) + 8 * len(converted))
        return converted

    def select(self, topic: int, entry: CachedEntry, filter: Filter) -> Sequence[int]:
        """The offsets of the events of an entry, which is here, that pass the filter."""
        selected = entry.selections.get(filter)
        if selected is None:
            segment = entry.segment
            if segment is None:
                return ()

            def view(keys: frozenset[str]) -> SegmentView:
                shared = self.shared_keys.get(topic, NO_KEYS)
                if not keys <= shared:
                    return SegmentView(segment, keys)
                if entry.view is None or not entry.view.has(keys):
                    entry.view = SegmentView(segment, shared)
                    self._grow(entry, len(segment.body))
                return entry.view

            selected, evaluated = select(filter, segment, view)
            entry.selections[filter] = selected
            self._grow(entry, SELECTION_BYTES + _size(selected))
            if evaluated:
                entry.evaluated[filter] = evaluated
                self._grow(entry, 0 if evaluated is selected else _size(evaluated))
        return selected

    def _grow(self, entry: CachedEntry, size: int) -> None:
        entry.size += size
        if entry.kept:
            self.size += size

    async def load(self, topic: int, position: int, done: Callable[[Exception | None], None]) -> None:
        """Read from a position on; `done` is told when it is here or why not. One read serves all who ask meanwhile."""
        key = (topic, position)
        waiters = self._loading.setdefault(key, [])
        waiters.append(done)
        if len(waiters) > 1:
            return
        failure: Exception | None = None
        try:
            async with self._readers:
                entries = await self._log.read(topic, position, READ_BYTES)
                for entry in entries:
                    if entry.kind is EntryKind.DAMAGED:
                        await self.set_aside(topic, entry)
                self._take_in(topic, entries)
        except Exception as error:  # handed to the lanes that asked, each of which stops loudly
            failure = error
        finally:
            waiters = self._loading.pop(key)
        for waiter in waiters:
            waiter(failure)

    async def fetch(self, topic: int, position: int) -> CachedEntry:
        """The entry, read if need be."""
        entry = self.get(topic, position)
        while entry is None:
            loaded: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
            await self.load(topic, position, loaded.set_result)
            failure = await loaded
            if failure is not None:
                raise failure
            entry = self.get(topic, position)
        return entry

    def _take_in(self, topic: int, read: list[Entry]) -> None:
        """Keep entries, and let the tail know them."""
        tail = self.tails.get(topic)
        entries = [(each.position, self._entries.get((topic, each.position)) or CachedEntry(each)) for each in read]
        for position, entry in entries:
            if tail is not None and position == tail.end + 1:
                tail.add(
                    self._wake_keys(topic, entry, tail.watched), 0 if entry.segment is None else len(entry.segment)
                )
        for position, entry in reversed(entries):  # what is wanted last, to be evicted last
            self._keep((topic, position), entry)

    def _wake_keys(self, topic: int, entry: CachedEntry, filters: Iterable[Filter]) -> list[WakeKey]:
        """What lanes know an entry by. The mark of a change may concern everybody, and so may what can not be read.

        What was redriven concerns one lane, whatever its filter: each looks whether it is meant.
        """
        if entry.segment is None or entry.segment.only:
            return [ANY]
        try:
            return wake_keys_of(entry.segment) + [filter for filter in filters if self.select(topic, entry, filter)]
        except Exception:  # each lane that needs to know meets it by itself, and stops loudly
            return [ANY]

    def _keep(self, key: tuple[int, int], entry: CachedEntry) -> None:
        if entry.kept:
            return
        entry.kept = True
        self._entries[key] = entry
        self.size += entry.size
        while self.size > self._capacity and len(self._entries) > 1:
            _, evicted = self._entries.popitem(last=False)
            evicted.kept = False
            self.size -= evicted.size


def _size(offsets: Sequence[int]) -> int:
    return 0 if isinstance(offsets, range) else 8 * len(offsets)
