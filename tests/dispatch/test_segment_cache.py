"""The cache in front of the log: one read for all who ask, and what is wanted is evicted last."""

import asyncio

from recapito.contracts.log import Entry, EntryKind, NewSegment
from recapito.dispatch.feed.segment_cache import CachedEntry, SegmentCache
from recapito.dispatch.feed.tail_index import TailIndex
from recapito.dispatch.feed.topic_feed import TopicFeed
from recapito.domain.events.segment import Publish, StampedEvent, pack
from recapito.domain.filters.filter import TAKE_ALL, Condition, Filter, Operator
from recapito.errors import StoreFailed
from recapito.stores.memory import MemoryLog
from tests.kit.resources import a_topic


class SlowLog(MemoryLog):
    """Counts its reads, which take a moment; fails as often as told."""

    reads = 0
    failures = 0

    async def read(self, topic: int, position: int, limit_bytes: int) -> list[Entry]:
        self.reads += 1
        await asyncio.sleep(0)
        if self.failures:
            self.failures -= 1
            raise StoreFailed("the file is being opened again")
        return await super().read(topic, position, limit_bytes)


async def filled(count: int) -> tuple[SlowLog, int]:
    """A log with N segments, and the position of the first."""
    log = SlowLog()
    topic = await log.put_topic(a_topic())
    columns, body = pack([Publish(0, [StampedEvent(b"{}", "A", "", "")])])
    positions = await log.append([NewSegment(topic.id, 1, columns, body)] * count)
    return log, positions[0]


def test_one_read_serves_all_who_ask_meanwhile() -> None:
    """Ten lanes that want the same segment cost one read."""

    async def main() -> int:
        log, first = await filled(3)
        feed = TopicFeed(1, SegmentCache(log))
        await asyncio.gather(*(feed.load(first) for _ in range(10)))
        assert feed.get(first) is not None
        return log.reads

    assert asyncio.run(main()) == 1


def test_what_is_wanted_is_evicted_last() -> None:
    """However small the cache is, the wanted entry is there when the load returns."""

    async def main() -> None:
        log, first = await filled(20)
        feed = TopicFeed(1, SegmentCache(log, capacity=1))
        await feed.load(first + 2)
        assert feed.get(first + 2) is not None

    asyncio.run(main())


def test_a_failed_read_fails_for_all_who_asked() -> None:
    """Each caller gets the error, and may ask again."""

    async def main() -> None:
        log, first = await filled(1)
        log.failures = 1
        feed = TopicFeed(1, SegmentCache(log))
        failures = await asyncio.gather(*(feed.load(first) for _ in range(2)), return_exceptions=True)
        assert [type(failure) for failure in failures] == [StoreFailed] * 2
        await feed.load(first)
        assert feed.get(first) is not None

    asyncio.run(main())


def numbered(count: int) -> CachedEntry:
    """A segment whose events hold the numbers from 0 on, in data.n."""
    events = [StampedEvent(b'{"id":"1","data":{"n":%d}}' % n, "A", "", "") for n in range(count)]
    return CachedEntry(Entry(1, EntryKind.SEGMENT, *pack([Publish(0, events)])))


def under(key: str, number: int) -> Filter:
    """A filter for events with a smaller number under a key."""
    return Filter(conditions=(Condition(Operator.NUMBER_LESS_THAN, key, (number,)),))


def test_one_look_serves_all_filters() -> None:
    """Filters whose keys are shared look at each event once; one that looks elsewhere does so by itself."""
    segments, entry, shared = SegmentCache(MemoryLog()), numbered(3), frozenset({"data.n", "data.m"})
    assert segments.select(entry, under("data.n", 2), shared) == [0, 1]
    view = entry.view
    assert not segments.select(entry, under("data.m", 2), shared)
    assert not segments.select(entry, under("data.o", 2), shared)
    assert segments.select(entry, under("data.n", 9), shared) == range(3)
    assert entry.view is view


def test_keys_that_come_later_are_seen() -> None:
    """When a new filter brings new keys, what was seen before is looked at once more."""
    segments, entry = SegmentCache(MemoryLog()), numbered(3)
    assert not segments.select(entry, under("data.m", 2), frozenset({"data.m"}))
    assert segments.select(entry, under("data.n", 2), frozenset({"data.n", "data.m"})) == [0, 1]


def test_conditions_look_at_nothing_that_cannot_pass() -> None:
    """Events whose type or subject is wrong are not looked at, nor are any if no condition asks."""
    segments, entry = SegmentCache(MemoryLog()), numbered(3)
    assert segments.select(entry, TAKE_ALL) == range(3)
    other_type = Filter(event_types=("B",), conditions=under("data.n", 2).conditions)
    assert not segments.select(entry, other_type)
    assert entry.view is None


def test_what_is_remembered_counts() -> None:
    """Selections and looks make an entry larger, so that they are bounded as well."""

    async def main() -> None:
        log, first = await filled(3)
        segments = SegmentCache(log)
        await TopicFeed(1, segments).load(first)
        entries = [segments.get(1, first + n) for n in range(3)]
        before = segments.size
        for n in range(100):
            for entry in entries:
                assert entry is not None
                segments.select(entry, under(f"data.k{n}", n), frozenset({"data.k1"}))
        assert segments.size > before + 3 * 100 * 100
        assert segments.size == sum(entry.size for entry in entries if entry is not None)

    asyncio.run(main())


def test_what_is_judged_before_it_is_kept_counts_once() -> None:
    """Filters that a tail watches are judged while a segment is read; the books of the cache stay right."""

    async def main() -> None:
        log, first = await filled(20)
        segments = SegmentCache(log, capacity=2000)
        feed = TopicFeed(1, segments)
        tail = feed.tail = TailIndex()
        tail.restart(first)
        tail.watch(under("data.n", 2))
        for position in (first, first + 5, first, first + 19):
            await feed.load(position)
        kept = [entry for n in range(20) if (entry := segments.get(1, first + n)) is not None]
        assert segments.size == sum(entry.size for entry in kept) <= 2000
        assert tail.end == first + 19

    asyncio.run(main())
