"""The cache in front of the log: one read for all who ask, and what is wanted is evicted last."""

import asyncio

from recapito.contracts.log import Entry, EntryKind, NewSegment
from recapito.dispatch.feed.segment_cache import CachedEntry, SegmentCache
from recapito.dispatch.feed.tail_index import TailIndex
from recapito.domain.events.segment import Publish, StampedEvent, pack
from recapito.domain.filters.filter import TAKE_ALL, Condition, Filter, Operator
from recapito.domain.resources.topic import Topic
from recapito.errors import StoreFailed
from recapito.stores.memory import MemoryLog


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
    """A log with so many segments, and the position of the first."""
    log = SlowLog()
    topic = await log.put_topic(
        Topic(
            name="orders",
            azure_subscription="s",
            resource_group="g",
            location="l",
            key1="1",
            key2="2",
            created_at=0,
            modified_at=0,
        )
    )
    columns, body = pack([Publish(0, [StampedEvent(b"{}", "A", "", "")])])
    positions = await log.append([NewSegment(topic.id, 1, columns, body)] * count)
    return log, positions[0]


def test_one_read_serves_all_who_ask_meanwhile() -> None:
    """Ten lanes that want the same segment cost one read."""

    async def main() -> int:
        log, first = await filled(3)
        segments = SegmentCache(log)
        told: list[Exception | None] = []
        await asyncio.gather(*(segments.load(1, first, told.append) for _ in range(10)))
        assert told == [None] * 10
        assert segments.get(1, first) is not None
        return log.reads

    assert asyncio.run(main()) == 1


def test_what_is_wanted_is_evicted_last() -> None:
    """However small the cache is, what was asked for is there when its lane is told so."""

    async def main() -> None:
        log, first = await filled(20)
        segments = SegmentCache(log, capacity=1)
        here: list[bool] = []
        await segments.load(1, first + 2, lambda failure: here.append(segments.get(1, first + 2) is not None))
        assert here == [True]

    asyncio.run(main())


def test_a_failed_read_is_told_to_all() -> None:
    """Everybody who asked learns why nothing came, and may ask again."""

    async def main() -> None:
        log, first = await filled(1)
        log.failures = 1
        segments = SegmentCache(log)
        told: list[Exception | None] = []
        await asyncio.gather(*(segments.load(1, first, told.append) for _ in range(2)))
        assert [type(failure) for failure in told] == [StoreFailed] * 2
        await segments.load(1, first, told.append)
        assert told[-1] is None

    asyncio.run(main())


def numbered(count: int) -> CachedEntry:
    """A segment whose events hold the numbers from 0 on, in data.n."""
    events = [StampedEvent(b'{"id":"1","data":{"n":%d}}' % n, "A", "", "") for n in range(count)]
    return CachedEntry(Entry(1, EntryKind.SEGMENT, *pack([Publish(0, events)])))


def under(key: str, number: int) -> Filter:
    """What has a smaller number under a key."""
    return Filter(conditions=(Condition(Operator.NUMBER_LESS_THAN, key, (number,)),))


def test_one_look_serves_all_filters() -> None:
    """Filters whose keys are shared look at each event once; one that looks elsewhere does so by itself."""
    segments, entry = SegmentCache(MemoryLog()), numbered(3)
    segments.shared_keys[1] = frozenset({"data.n", "data.m"})
    assert segments.select(1, entry, under("data.n", 2)) == [0, 1]
    view = entry.view
    assert not segments.select(1, entry, under("data.m", 2))
    assert not segments.select(1, entry, under("data.o", 2))
    assert segments.select(1, entry, under("data.n", 9)) == range(3)
    assert entry.view is view


def test_keys_that_come_later_are_seen() -> None:
    """When a new filter brings new keys, what was seen before is looked at once more."""
    segments, entry = SegmentCache(MemoryLog()), numbered(3)
    segments.shared_keys[1] = frozenset({"data.m"})
    assert not segments.select(1, entry, under("data.m", 2))
    segments.shared_keys[1] = frozenset({"data.n", "data.m"})
    assert segments.select(1, entry, under("data.n", 2)) == [0, 1]


def test_conditions_look_at_nothing_that_cannot_pass() -> None:
    """Events whose type or subject is wrong are not looked at, nor are any if no condition asks."""
    segments, entry = SegmentCache(MemoryLog()), numbered(3)
    assert segments.select(1, entry, TAKE_ALL) == range(3)
    other_type = Filter(event_types=("B",), conditions=under("data.n", 2).conditions)
    assert not segments.select(1, entry, other_type)
    assert entry.view is None


def test_what_is_remembered_counts() -> None:
    """Selections and looks make an entry larger, so that they are bounded as well."""

    async def main() -> None:
        log, first = await filled(3)
        segments = SegmentCache(log)
        segments.shared_keys[1] = frozenset({"data.k1"})
        await segments.load(1, first, lambda failure: None)
        entries = [segments.get(1, first + n) for n in range(3)]
        before = segments.size
        for n in range(100):
            for entry in entries:
                assert entry is not None
                segments.select(1, entry, under(f"data.k{n}", n))
        assert segments.size > before + 3 * 100 * 100
        assert segments.size == sum(entry.size for entry in entries if entry is not None)

    asyncio.run(main())


def test_what_is_judged_before_it_is_kept_counts_once() -> None:
    """Filters that a tail watches are judged while a segment is read; the books of the cache stay right."""

    async def main() -> None:
        log, first = await filled(20)
        segments = SegmentCache(log, capacity=2000)
        tail = segments.tails[1] = TailIndex()
        tail.restart(first)
        tail.watch(under("data.n", 2))
        for position in (first, first + 5, first, first + 19):
            await segments.load(1, position, lambda failure: None)
        kept = [entry for n in range(20) if (entry := segments.get(1, first + n)) is not None]
        assert segments.size == sum(entry.size for entry in kept) <= 2000
        assert tail.end == first + 19

    asyncio.run(main())
