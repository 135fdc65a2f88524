"""Entries that every subscription has passed stay for a while: the newest, bounded in bytes and in time."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from recapito.domain.capacity import Space
from recapito.domain.events.segment import Publish, pack
from recapito.domain.instant import DAY, HOUR
from recapito.domain.resources.topic import Topic
from recapito.intake.maintenance.janitor import Janitor
from recapito.intake.maintenance.retention import RetentionBounds
from recapito.intake.publish.disk_watch import DiskWatch
from recapito.observability.journal import silent
from recapito.stores.memory import MemoryLog
from tests.intake.doubles import StillClock, events
from tests.intake.janitor_bench import Bench

ONE = sum(map(len, pack([Publish(1, events(b"{}"))])))  # the size of an entry that Bench publishes


class KeepingBench(Bench):
    """A janitor that keeps N entries, with a clock that can be set."""

    def __init__(self, entries: int, disk: DiskWatch | None = None) -> None:
        super().__init__()
        self.wall = StillClock()
        self.restart(entries, disk)

    def restart(self, entries: int, disk: DiskWatch | None = None) -> None:
        keeping = RetentionBounds(entries * ONE, DAY)
        self.janitor = Janitor(self.log, self.log, self.ledger, self.wall, disk=disk, keeping=keeping)

    async def pass_five(self) -> tuple[Topic, int]:
        """A topic whose only subscription has passed all of its five entries, and the janitor came by; their end."""
        topic = await self.topic()
        mine = await self.subscribe(topic)
        end = await self.publish(topic, 5)
        await self.move(mine, end + 1)
        await self.janitor.run_once()
        return topic, end


def run(test: Callable[[KeepingBench], Awaitable[None]], entries: int, **options: Any) -> None:
    async def whole() -> None:
        await test(KeepingBench(entries, **options))

    asyncio.run(whole())


def test_the_newest_that_was_passed_stays() -> None:
    """As many bytes as may stay do, whatever round found them passed; what is unread stays anyway."""

    async def test(bench: KeepingBench) -> None:
        topic = await bench.topic()  # at position 1
        mine = await bench.subscribe(topic)  # at 2
        await bench.publish(topic, 60)  # 3 to 62
        for position in range(4, 61, 2):
            await bench.move(mine, position)
            await bench.janitor.run_once()
            kept = await bench.log.size(topic.id, 0, position) // ONE
            assert kept == position - 3 or 16 <= kept <= 17
        assert await bench.first(topic) == 44  # eight rounds of two entries

    run(test, 17)


def test_nothing_stays_if_nothing_is_to() -> None:
    """With no bytes to keep the log is trimmed at once."""

    async def test(bench: KeepingBench) -> None:
        topic, end = await bench.pass_five()
        assert await bench.first(topic) == end + 1

    run(test, 0)


def test_it_goes_when_it_is_old() -> None:
    """Entries that were passed a day ago go, though there is room for them."""

    async def test(bench: KeepingBench) -> None:
        topic, end = await bench.pass_five()
        bench.wall.instant += DAY - HOUR
        await bench.janitor.run_once()
        assert await bench.first(topic) == 1
        bench.wall.instant += HOUR
        await bench.janitor.run_once()
        assert await bench.first(topic) == end + 1

    run(test, 1000)


def test_topics_share_what_may_stay() -> None:
    """Entries that were passed first go first, whichever topic they are of."""

    async def test(bench: KeepingBench) -> None:
        topics = [await bench.topic(name) for name in ("first", "second")]
        for topic in topics:
            mine = await bench.subscribe(topic)
            for _ in range(12):
                end = await bench.publish(topic, 1)
                await bench.move(mine, end + 1)
                await bench.janitor.run_once()
        assert [await bench.first(topic) for topic in topics] == [11, 2]

    run(test, 16)


def test_a_topic_without_subscriptions() -> None:
    """Entries without a subscription stay as long."""

    async def test(bench: KeepingBench) -> None:
        topic = await bench.topic()
        for _ in range(20):
            await bench.publish(topic, 1)
            await bench.janitor.run_once()
        assert await bench.first(topic) == 14

    run(test, 8)


def test_a_flood_is_not_kept() -> None:
    """While more passes in a round than could stay for some rounds, nothing does; afterwards the newest stays again."""

    async def test(bench: KeepingBench) -> None:
        topic = await bench.topic()
        mine = await bench.subscribe(topic)
        for count, kept in ((1, 1), (1, 2), (9, 0), (9, 0), (1, 1)):
            end = await bench.publish(topic, count)
            await bench.move(mine, end + 1)
            await bench.janitor.run_once()
            assert await bench.log.size(topic.id, 0, end + 1) == kept * ONE

    run(test, 64)


def test_a_restart_counts_what_is_there() -> None:
    """A new janitor finds what stayed, and keeps no more than may."""

    async def test(bench: KeepingBench) -> None:
        topic, end = await bench.pass_five()
        bench.restart(10)
        await bench.janitor.run_once()
        assert await bench.first(topic) == 1
        bench.restart(4)
        await bench.janitor.run_once()
        assert await bench.first(topic) == end + 1

    run(test, 10)


def test_a_full_disk_keeps_nothing() -> None:
    """When the disk runs short everything that was passed goes."""
    free = [1 << 40]
    disk = DiskWatch(lambda: Space(free[0], 1 << 40), 0.05, 1 << 20, silent)

    async def test(bench: KeepingBench) -> None:
        topic, end = await bench.pass_five()
        assert await bench.first(topic) == 1
        free[0] = 0
        await bench.janitor.run_once()
        assert await bench.first(topic) == end + 1

    run(test, 1000, disk=disk)


class CountingLog(MemoryLog):
    """A log that counts how often it is asked for sizes."""

    asked = 0

    async def size(self, topic: int, first: int, below: int) -> int:
        self.asked += 1
        return await super().size(topic, first, below)


@pytest.mark.parametrize(("entries", "asked"), [(1 << 20, 3), (0, 0)])
def test_a_round_without_news_asks_nothing(entries: int, asked: int) -> None:
    """Sizes are asked once for each topic that was passed further, and never if nothing stays."""

    async def test() -> None:
        log = CountingLog()
        bench = Bench(log, keeping=RetentionBounds(entries, DAY))
        topic = await bench.topic()
        mine = await bench.subscribe(topic)
        end = await bench.publish(topic, 5)
        for position in (3, 4, end + 1):
            await bench.move(mine, position)
            for _ in range(3):
                await bench.janitor.run_once()
        assert log.asked == asked

    asyncio.run(test())


def test_what_a_lane_that_began_again_reads_is_not_trimmed() -> None:
    """It was passed, and kept for a while; then the lane's row was damaged, and it begins where the log begins."""

    async def test(bench: KeepingBench) -> None:
        topic = await bench.topic()
        subscription = await bench.subscribe(topic)
        await bench.publish(topic, 20)
        await bench.move(subscription, 22)
        await bench.janitor.run_once()
        first = await bench.log.first(topic.id)
        assert first < 10
        await bench.ledger.renew_lane(subscription.id, topic.id, bench.log.id, first)
        await bench.publish(topic, 100)
        bench.wall.instant += 2 * DAY  # now it is too old to be kept
        await bench.janitor.run_once()
        assert await bench.log.first(topic.id) == first
        await bench.move(subscription, 120)
        await bench.janitor.run_once()
        assert await bench.log.first(topic.id) > 22

    run(test, entries=30)
