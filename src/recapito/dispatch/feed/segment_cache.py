"""Decoded segments, shared by all lanes near them: read once, matched once for each filter, bounded in bytes."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence

from recapito.contracts.log import Entry, EntryKind, Log
from recapito.domain import limits
from recapito.domain.events.conversion import Convert
from recapito.domain.events.segment import Segment
from recapito.domain.filters.filter import Filter
from recapito.domain.filters.matcher import SegmentView, select
from recapito.errors import StoreFailed

READ_BYTES = 1 * limits.MB
SELECTION_BYTES = 150  # the approximate cost of one remembered selection, besides its offsets
NO_KEYS: frozenset[str] = frozenset()


class CachedEntry:
    """One entry of a log: a decoded segment, or the mark of a change, which has none. `kept`: it is in the cache.

    `damaged` is the number of events that are lost with a damaged entry.
    """

    __slots__ = ("converted", "damaged", "evaluated", "kept", "segment", "selections", "size", "view")

    def __init__(self, entry: Entry) -> None:
        self.segment = Segment(entry.columns, entry.body) if entry.kind is EntryKind.SEGMENT else None
        self.damaged = entry.events if entry.kind is EntryKind.DAMAGED else None
        self.size = 200 if self.segment is None else len(entry.columns) * 4 + len(entry.body) + 200
        self.converted: dict[Convert, Segment] = {}
        self.selections: dict[Filter, Sequence[int]] = {}
        self.evaluated: dict[Filter, Sequence[int]] = {}  # of filters with conditions: the events they looked at
        self.view: SegmentView | None = None
        self.kept = False


class SegmentCache:
    """The cache in front of the log, for all topics; the least recently used entries are evicted.

    A lane takes the entries that `get` returns; its feed loads the others.
    """

    def __init__(self, log: Log, capacity: int = limits.SEGMENT_CACHE_BYTES) -> None:
        self._log = log
        self._capacity = capacity
        self._entries: OrderedDict[tuple[int, int], CachedEntry] = OrderedDict()
        self._readers = asyncio.Semaphore(limits.COLD_READERS)
        self._reading: dict[tuple[int, int], asyncio.Future[Exception | None]] = {}
        self.size = 0

    def get(self, topic: int, position: int) -> CachedEntry | None:
        key = (topic, position)
        entry = self._entries.get(key)
        if entry is not None:
            self._entries.move_to_end(key)
        return entry

    def converted(self, entry: CachedEntry, convert: Convert) -> Segment:
        """The segment of a cached entry in another schema, converted once for all lanes that send it so."""
        converted = entry.converted.get(convert)
        if converted is None:
            assert entry.segment is not None
            converted = entry.converted[convert] = entry.segment.converted(convert)
            self._grow(entry, len(converted.body) + 8 * len(converted))
        return converted

    def select(self, entry: CachedEntry, filter: Filter, shared_keys: frozenset[str] = NO_KEYS) -> Sequence[int]:
        """The offsets of the events of an entry that pass the filter.

        The values of `shared_keys` are decoded once for all filters that look at some of them.
        """
        selected = entry.selections.get(filter)
        if selected is None:
            segment = entry.segment
            if segment is None:
                return ()

            def view(keys: frozenset[str]) -> SegmentView:
                if not keys <= shared_keys:
                    return SegmentView(segment, keys)
                if entry.view is None or not entry.view.has(keys):
                    entry.view = SegmentView(segment, shared_keys)
                    self._grow(entry, len(segment.body))
                return entry.view

            selected, evaluated = select(filter, segment, view)
            entry.selections[filter] = selected
            self._grow(entry, SELECTION_BYTES + _size(selected))
            if evaluated:
                entry.evaluated[filter] = evaluated
                self._grow(entry, 0 if evaluated is selected else _size(evaluated))
        return selected

    async def load(self, topic: int, position: int, take_in: Callable[[list[Entry]], Awaitable[None]]) -> None:
        """Read entries from a position on, and hand them to `take_in` (which keeps them).

        One read serves all callers that ask for the same position meanwhile; each gets the error if it fails.
        """
        key = (topic, position)
        reading = self._reading.get(key)
        if reading is not None:
            failure = await asyncio.shield(reading)  # a caller that is cancelled takes nothing from the others
        else:
            failure = await self._read(key, take_in)
        if failure is not None:
            raise failure

    async def _read(self, key: tuple[int, int], take_in: Callable[[list[Entry]], Awaitable[None]]) -> Exception | None:
        self._reading[key] = asyncio.get_running_loop().create_future()
        failure: Exception | None = StoreFailed("the read was cancelled")
        try:
            async with self._readers:
                await take_in(await self._log.read(*key, READ_BYTES))
            failure = None
        except Exception as error:  # handed to every caller, whose lanes stop or ask again
            failure = error
        finally:
            self._reading.pop(key).set_result(failure)
        return failure

    def decode(self, topic: int, entry: Entry) -> CachedEntry:
        """The cached entry of a stored one; a new one is not kept yet."""
        return self._entries.get((topic, entry.position)) or CachedEntry(entry)

    def keep(self, topic: int, position: int, entry: CachedEntry) -> None:
        """Put an entry into the cache, which may evict others."""
        if entry.kept:
            return
        entry.kept = True
        self._entries[topic, position] = entry
        self.size += entry.size
        while self.size > self._capacity and len(self._entries) > 1:
            _, evicted = self._entries.popitem(last=False)
            evicted.kept = False
            self.size -= evicted.size

    def _grow(self, entry: CachedEntry, size: int) -> None:
        entry.size += size
        if entry.kept:
            self.size += size


def _size(offsets: Sequence[int]) -> int:
    return 0 if isinstance(offsets, range) else 8 * len(offsets)
