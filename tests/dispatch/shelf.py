"""A log reader over segments that the test makes."""

from recapito.contracts.log import Entry, EntryKind
from recapito.dispatch.feed.segment_cache import CachedEntry, SegmentCache
from recapito.dispatch.feed.topic_feed import TopicFeed
from recapito.domain.events.segment import Publish, StampedEvent, pack
from recapito.stores.memory import MemoryLog

TOPIC = 1


def entry(position: int, sizes: list[int], types: list[str] | None = None, published_at: int = 0) -> Entry:
    """A segment with events of these sizes."""
    kinds = types or ["A"] * len(sizes)
    events = [StampedEvent(b"x" * size, kind, "", "") for size, kind in zip(sizes, kinds, strict=True)]
    columns, body = pack([Publish(published_at, events)])
    return Entry(position, EntryKind.SEGMENT, columns, body)


class Shelf(TopicFeed):
    """A feed that has these entries and reads no others."""

    def __init__(self, entries: list[Entry]) -> None:
        super().__init__(TOPIC, SegmentCache(MemoryLog()))
        self._shelf = {entry.position: CachedEntry(entry) for entry in entries}

    def get(self, position: int) -> CachedEntry | None:
        return self._shelf.get(position)
