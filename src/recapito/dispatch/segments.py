"""Decoded segments, shared by all lanes near them: read once, matched once per distinct filter, bounded in bytes."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence

from recapito.domain import limits
from recapito.domain.conversion import Convert
from recapito.domain.filter import Filter, select
from recapito.domain.segment import Segment
from recapito.store import Entry, EntryKind, Log

READ_BYTES = 1 * limits.MB


class CachedEntry:
    """One entry of a log: a decoded segment, or the mark of a change, which has none."""

    __slots__ = ("_selections", "converted", "segment", "size")

    def __init__(self, entry: Entry) -> None:
        self.segment = Segment(entry.columns, entry.body) if entry.kind is EntryKind.SEGMENT else None
        self.size = len(entry.columns) * 4 + len(entry.body) + 200
        self._selections: dict[Filter, Sequence[int]] = {}
        self.converted: dict[Convert, Segment] = {}

    def selection(self, filter: Filter) -> Sequence[int]:
        """The offsets of the events that pass the filter."""
        if self.segment is None:
            return ()
        selected = self._selections.get(filter)
        if selected is None:
            selected = self._selections[filter] = select(filter, self.segment)
        return selected


class Segments:
    """The cache in front of the log. `get` is what a lane sees; what it does not see it asks to be loaded."""

    def __init__(self, log: Log, capacity: int = limits.SEGMENT_CACHE_BYTES) -> None:
        self._log = log
        self._capacity = capacity
        self._entries: OrderedDict[tuple[int, int], CachedEntry] = OrderedDict()
        self._readers = asyncio.Semaphore(limits.COLD_READERS)
        self._loading: dict[tuple[int, int], list[Callable[[Exception | None], None]]] = {}
        self.size = 0
        self.ends: dict[int, int] = {}

    @property
    def loading(self) -> bool:
        """True while a read is under way."""
        return bool(self._loading)

    def get(self, topic: int, position: int) -> CachedEntry | None:
        """The entry, if it is here."""
        entry = self._entries.get((topic, position))
        if entry is not None:
            self._entries.move_to_end((topic, position))
        return entry

    def converted(self, entry: CachedEntry, convert: Convert) -> Segment:
        """The segment of an entry, which is here, in another schema: converted once for all lanes that want it."""
        converted = entry.converted.get(convert)
        if converted is None:
            assert entry.segment is not None
            converted = entry.converted[convert] = entry.segment.converted(convert)
            self._grow(entry, len(converted.body) + 8 * len(converted))
        return converted

    def _grow(self, entry: CachedEntry, size: int) -> None:
        entry.size += size
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
                for entry in reversed(await self._log.read(topic, position, READ_BYTES)):
                    self._keep((topic, entry.position), CachedEntry(entry))  # what is wanted last, to be evicted last
        except Exception as error:  # handed to the lanes that asked, each of which stops loudly
            failure = error
        finally:
            waiters = self._loading.pop(key)
        for waiter in waiters:
            waiter(failure)

    def _keep(self, key: tuple[int, int], entry: CachedEntry) -> None:
        if key in self._entries:
            return
        self._entries[key] = entry
        self.size += entry.size
        while self.size > self._capacity and len(self._entries) > 1:
            _, evicted = self._entries.popitem(last=False)
            self.size -= evicted.size
