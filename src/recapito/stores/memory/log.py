"""The Log in memory, and with its other half the Registry: plain dicts and lists, the reference model."""

from bisect import bisect_left
from collections.abc import Sequence

from recapito.contracts.log import Entry, EntryKind, News, NewSegment, SearchPage
from recapito.contracts.registry import Document
from recapito.domain import limits
from recapito.stores.memory.disk import TOPIC_ITSELF, MemoryDisk, StoredTopic
from recapito.stores.memory.registry import MemoryRegistry


class MemoryLog(MemoryRegistry):
    """Log and Registry on a MemoryDisk; another one on the same disk sees exactly what was committed."""

    def __init__(self, disk: MemoryDisk | None = None) -> None:
        super().__init__(disk or MemoryDisk())

    def __repr__(self) -> str:
        return f"<MemoryLog {self.id[:8]}, {len(self._disk.topics)} topics, mark {self._disk.mark}>"

    @property
    def id(self) -> str:
        return self._disk.log_id

    async def append(self, segments: Sequence[NewSegment]) -> list[int]:
        topics = [self._living(segment.topic) for segment in segments]
        if segments:
            self._disk.mark += 1
        return [self._append(topic, segment) for topic, segment in zip(topics, segments, strict=True)]

    async def append_marked(self, segments: Sequence[NewSegment], kind: str, marks: Sequence[Document]) -> list[int]:
        positions = await self.append(segments)
        for mark in marks:
            self._disk.documents[kind, mark.key] = mark.content
        return positions

    async def read(self, topic: int, position: int, limit_bytes: int) -> list[Entry]:
        stored = self._disk.topics[topic]
        if not stored.first <= position <= stored.end + 1:
            raise LookupError(f"topic {topic} has positions {stored.first} to {stored.end}, not {position}")
        found: list[Entry] = []
        size = 0
        for index in range(position - stored.first, len(stored.entries)):
            entry = stored.entries[index]
            size += len(entry.columns) + len(entry.body)
            if found and size > limit_bytes:
                break
            found.append(entry)
        return found

    async def news(self, mark: int) -> News:
        disk = self._disk
        if mark > disk.mark:
            raise LookupError(f"mark {mark} is not of this log, which is at {disk.mark}")
        if mark == disk.mark:
            return News(mark, {}, frozenset(), frozenset())
        ends = {id: stored.end for id, stored in disk.topics.items() if stored.grown_in > mark}
        if mark == 0:
            return News(disk.mark, ends, frozenset(disk.topics), frozenset(disk.subscriptions))
        changes = disk.changes[bisect_left(disk.changes, (mark + 1, 0, 0)) :]
        topics = frozenset(topic for _, topic, subscription in changes if subscription == TOPIC_ITSELF)
        return News(disk.mark, ends, topics, frozenset(id for *_, id in changes if id != TOPIC_ITSELF))

    async def end(self, topic: int) -> int:
        stored = self._disk.topics.get(topic)
        return stored.end if stored else 0

    async def first(self, topic: int) -> int:
        stored = self._disk.topics.get(topic)
        return stored.first if stored else 1

    async def search(self, topic: int, text: bytes, below: int, count: int) -> SearchPage:
        stored = self._disk.topics.get(topic)
        entries = [] if stored is None else stored.entries[: max(below - stored.first, 0)][-count:]
        found = [entry.position for entry in reversed(entries) if text in entry.columns]
        return SearchPage(found, entries[0].position if len(entries) == count else None)

    async def size(self, topic: int, first: int, below: int) -> int:
        stored = self._disk.topics.get(topic)
        if stored is None:
            return 0
        entries = stored.entries[max(first - stored.first, 0) : max(below - stored.first, 0)]
        return sum(len(entry.columns) + len(entry.body) for entry in entries)

    async def trim(self, topic: int, below: int) -> int:
        stored = self._disk.topics.get(topic)
        if stored is None:
            return 0
        count = min(max(below - stored.first, 0), len(stored.entries), limits.TRIM_SLICE)
        del stored.entries[:count]
        stored.first += count
        return count

    def free_bytes(self) -> int:
        """What a simulation says is left."""
        return self._disk.free

    def _append(self, stored: StoredTopic, segment: NewSegment) -> int:
        stored.entries.append(Entry(stored.end + 1, EntryKind.SEGMENT, *segment[2:], segment.events))
        stored.grown_in = self._disk.mark
        return stored.end
