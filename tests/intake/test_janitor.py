"""Trimming and forgetting: what every subscription has passed goes, and nothing else, at any moment."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from recapito.clock import ManualClock
from recapito.contracts.ledger import LaneRow, LaneVersions
from recapito.domain import limits
from recapito.domain.capacity import Space
from recapito.domain.instant import SECOND
from recapito.domain.resources.subscription import Subscription
from recapito.errors import SettingsError, StoreFailed
from recapito.intake.maintenance.janitor import Janitor
from recapito.intake.publish.disk_watch import DiskWatch
from recapito.stores.memory import MemoryDisk, MemoryLedger, MemoryLog
from tests.intake.doubles import StillClock
from tests.intake.janitor_bench import Bench
from tests.stores.spoil import MemorySpoiler


def run(test: Callable[[Bench], Awaitable[None]], **options: Any) -> None:
    async def whole() -> None:
        await test(Bench(**options))

    asyncio.run(whole())


def test_the_floor_is_the_slowest_cursor() -> None:
    """A topic is trimmed below the least cursor of its subscriptions, and again as that moves."""

    async def test(bench: Bench) -> None:
        topic = await bench.topic()
        slow, fast = await bench.subscribe(topic, "slow"), await bench.subscribe(topic, "fast")
        end = await bench.publish(topic, 10)
        await bench.janitor.run_once()
        assert await bench.first(topic) == slow.created_position
        await bench.move(fast, end + 1)
        await bench.move(slow, 7)
        assert (await bench.janitor.run_once()).trimmed == 7 - slow.created_position
        assert await bench.first(topic) == 7
        await bench.move(slow, end + 1)
        await bench.janitor.run_once()
        assert await bench.first(topic) == end + 1

    run(test)


def test_a_subscription_without_a_lane_counts_from_its_creation() -> None:
    """Before dispatch has seen a subscription, nothing that it must read is trimmed."""

    async def test(bench: Bench) -> None:
        topic = await bench.topic()
        await bench.publish(topic, 3)
        made = await bench.subscribe(topic, lane=False)
        await bench.publish(topic, 3)
        await bench.janitor.run_once()
        assert await bench.first(topic) == made.created_position

    run(test)


def test_a_cursor_of_another_log_says_nothing() -> None:
    """A lane that belongs to another log, as after a restore, does not let anything be trimmed."""

    async def test(bench: Bench) -> None:
        topic = await bench.topic()
        made = await bench.subscribe(topic, lane=False)
        end = await bench.publish(topic, 3)
        await bench.ledger.open_lane(made.id, topic.id, "another log", end + 1)
        await bench.janitor.run_once()
        assert await bench.first(topic) == made.created_position

    run(test)


def test_a_topic_without_subscriptions_is_trimmed_to_its_end() -> None:
    """Without subscriptions nothing is kept; positions go on from where they were."""

    async def test(bench: Bench) -> None:
        topic, other = await bench.topic(), await bench.topic("other")
        made = await bench.subscribe(other)
        end = await bench.publish(topic, 5)
        await bench.publish(other, 2)
        await bench.janitor.run_once()
        assert (await bench.first(topic), await bench.first(other)) == (end + 1, made.created_position)
        assert await bench.publish(topic, 1) == end + 1
        await bench.janitor.run_once()
        assert await bench.first(topic) == end + 2
        assert (await bench.janitor.run_once()).trimmed == 0

    run(test)


class RacingLog(MemoryLog):
    """A log on which something else happens just before the subscriptions are listed."""

    meanwhile: Callable[[], Awaitable[None]] | None = None

    async def subscriptions(self, topic: int | None, after: int, limit: int) -> list[Subscription]:
        found = await super().subscriptions(topic, after, limit)
        if self.meanwhile is not None:
            happen, self.meanwhile = self.meanwhile, None
            await happen()
        return found


def test_a_subscription_made_while_the_janitor_looks_loses_nothing() -> None:
    """Events published after a PUT answered stay, even if the janitor's list of subscriptions is older than it."""

    async def test(bench: Bench) -> None:
        log = bench.log
        assert isinstance(log, RacingLog)
        topic = await bench.topic()
        await bench.publish(topic, 3)
        made: list[Subscription] = []

        async def subscribe_and_publish() -> None:
            made.append(await bench.subscribe(topic, lane=False))
            await bench.publish(topic, 3)

        log.meanwhile = subscribe_and_publish
        await bench.janitor.run_once()
        assert await bench.first(topic) <= made[0].created_position
        await bench.janitor.run_once()
        assert await bench.first(topic) == made[0].created_position

    run(test, log=RacingLog())


def test_a_deleted_subscription_is_forgotten_when_its_lane_has_ended() -> None:
    """Until its lane has ended a deleted subscription stays and pins the log; then it goes, and the log with it."""

    async def test(bench: Bench) -> None:
        topic = await bench.topic()
        made = await bench.subscribe(topic)
        await bench.publish(topic, 5)
        await bench.log.delete_subscription(made.id)
        assert (await bench.janitor.run_once()).forgotten == []
        assert await bench.first(topic) == made.created_position
        await bench.move(made, made.created_position, ended=True)
        assert (await bench.janitor.run_once()).forgotten == [made.id]
        assert await bench.log.subscription_by_id(made.id) is None
        await bench.janitor.run_once()
        assert await bench.first(topic) == await bench.log.end(topic.id) + 1

    run(test)


def test_a_deleted_topic_goes_with_its_last_subscription() -> None:
    """When the lanes of a deleted topic have ended, it is forgotten whole, and the next rounds do not trip over it."""

    async def test(bench: Bench) -> None:
        topic = await bench.topic()
        one, two = await bench.subscribe(topic, "one"), await bench.subscribe(topic, "two")
        await bench.publish(topic, 5)
        await bench.log.delete_topic(topic.id)
        await bench.move(one, 1_000, ended=True)
        assert (await bench.janitor.run_once()).forgotten == [one.id]
        await bench.move(two, 1_000, ended=True)
        assert (await bench.janitor.run_once()).forgotten == [two.id]
        assert await bench.log.end(topic.id) == 0
        assert (await bench.janitor.run_once()).trimmed == 0

    run(test)


def test_an_ended_lane_of_a_living_subscription_is_not_forgotten() -> None:
    """Only what was deleted is forgotten."""

    async def test(bench: Bench) -> None:
        made = await bench.subscribe(await bench.topic())
        await bench.move(made, made.created_position, ended=True)
        assert (await bench.janitor.run_once()).forgotten == []

    run(test)


def test_each_round_reports_the_topics_that_have_subscriptions() -> None:
    """A topic without subscriptions is not among them."""

    surveys: list[set[int]] = []

    async def test(bench: Bench) -> None:
        topic = await bench.topic()
        await bench.janitor.run_once()
        await bench.subscribe(topic)
        await bench.janitor.run_once()
        assert surveys == [set(), {topic.id}]

    run(test, on_survey=lambda topics: surveys.append(set(topics)))


def test_long_logs_are_cut_in_slices() -> None:
    """Publishes come in between the slices of a long trim."""

    async def test(bench: Bench) -> None:
        topic = await bench.topic()
        end = await bench.publish(topic, limits.TRIM_SLICE * 3)
        turns = 0

        async def others() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        busy = asyncio.create_task(others())
        assert (await bench.janitor.run_once()).trimmed == end
        busy.cancel()
        assert turns >= 3

    run(test)


def test_nothing_is_cut_while_a_backup_runs() -> None:
    """While trimming is off nothing is cut; what waited is cut afterwards."""
    allowed = False

    @contextmanager
    def trimming() -> Iterator[bool]:
        yield allowed

    async def test(bench: Bench) -> None:
        nonlocal allowed
        topic = await bench.topic()
        end = await bench.publish(topic, 3)
        assert (await bench.janitor.run_once()).trimmed == 0
        assert await bench.first(topic) == 1
        allowed = True
        assert (await bench.janitor.run_once()).trimmed == end

    run(test, trimming=trimming)


def test_the_disk_is_looked_at_in_every_round() -> None:
    """A round measures the free space, so that intake closes in time."""
    disk = DiskWatch(lambda: Space(1, 1000))

    async def test(bench: Bench) -> None:
        await bench.janitor.run_once()
        assert disk.reason() is not None

    run(test, disk=disk)


class BrokenLedger:
    """A ledger that cannot be read the first time."""

    def __init__(self) -> None:
        self.asked = 0

    async def lanes(self) -> list[LaneRow]:
        self.asked += 1
        if self.asked == 1:
            raise StoreFailed("dispatch.db is being made")
        return []

    async def lane_versions(self) -> LaneVersions:
        return LaneVersions(0, self.asked, 0)

    async def damaged_counts(self, after: int) -> dict[str, int]:
        return {}


class TickingClock(StillClock):
    """A clock on which every sleep ends at once, N times."""

    naps = 0

    async def sleep_until(self, when: int) -> None:
        self.naps += 1
        self.instant = when
        if self.naps == 3:
            raise asyncio.CancelledError


def test_a_round_that_fails_is_told_and_repeated() -> None:
    """The loop goes on after a failed round, every second, and the journal has it."""
    told: list[str] = []
    ledger, clock = BrokenLedger(), TickingClock(0)

    async def test() -> None:
        log = MemoryLog()
        janitor = Janitor(log, log, ledger, clock, journal=lambda event, **_: told.append(event))
        with pytest.raises(asyncio.CancelledError):
            await janitor.run()

    asyncio.run(test())
    assert (told, ledger.asked, clock.instant) == (["janitor.failed"], 3, 3_000_000_000)


def test_a_lock_out_of_reach_is_told_and_tried_again() -> None:
    """That the lock around trimming cannot be opened is told once, and ends no round for good: the log is trimmed."""
    told: list[str] = []
    tries = iter((False, False))

    @contextmanager
    def trimming() -> Iterator[bool]:
        if not next(tries, True):
            raise SettingsError("The lock trim.lock cannot be opened: Permission denied.")
        yield True

    async def test() -> None:
        bench = Bench()
        topic = await bench.topic()
        end = await bench.publish(topic, 3)
        log, journal = bench.log, lambda event, **_: told.append(event)
        janitor = Janitor(log, log, bench.ledger, TickingClock(0), trimming=trimming, journal=journal)
        with pytest.raises(asyncio.CancelledError):
            await janitor.run()
        assert await bench.first(topic) == end + 1

    asyncio.run(test())
    assert told == ["janitor.failed"]


class SlowLedger:
    """A ledger whose lanes take a while to read. It knows when it was read."""

    def __init__(self, clock: ManualClock, slow_ns: int) -> None:
        self._clock = clock
        self._slow_ns = slow_ns
        self.read_at: list[int] = []

    async def lanes(self) -> list[LaneRow]:
        self.read_at.append(self._clock.now())
        self._clock.move_to(self._clock.now() + self._slow_ns)
        return []

    async def lane_versions(self) -> LaneVersions:
        return LaneVersions(0, len(self.read_at), 0)

    async def damaged_counts(self, after: int) -> dict[str, int]:
        return {}


class CountingLedger(MemoryLedger):
    """Counts how often all lanes are read."""

    surveys = 0

    async def lanes(self) -> list[LaneRow]:
        self.surveys += 1
        return await super().lanes()


def test_an_idle_janitor_reads_no_lanes() -> None:
    """All lanes are read again only after one of them, a subscription or a topic has changed; then it trims."""

    async def test() -> None:
        bench = Bench()
        ledger = CountingLedger(MemoryDisk())
        bench.ledger, bench.janitor = ledger, Janitor(bench.log, bench.log, ledger, StillClock())
        topic = await bench.topic()
        subscription = await bench.subscribe(topic)
        for _ in range(3):
            await bench.janitor.run_once()
        assert ledger.surveys == 1
        end = await bench.publish(topic, 2)
        await bench.janitor.run_once()
        await bench.move(subscription, end + 1)
        for _ in range(3):
            await bench.janitor.run_once()
        assert ledger.surveys == 3
        assert await bench.first(topic) == end + 1

    asyncio.run(test())


class ForgettingFails(MemoryLog):
    """Fails once where it should forget a subscription."""

    failed = False

    async def forget(self, id: int) -> None:
        if not self.failed:
            self.failed = True
            raise StoreFailed("log.db is busy")
        await super().forget(id)


def test_a_subscription_that_could_not_be_forgotten_is_forgotten_later() -> None:
    """The next round tries again, though no lane has changed."""

    async def test(bench: Bench) -> None:
        made = await bench.subscribe(await bench.topic())
        await bench.log.delete_subscription(made.id)
        await bench.move(made, made.created_position, ended=True)
        with pytest.raises(StoreFailed):
            await bench.janitor.run_once()
        assert (await bench.janitor.run_once()).forgotten == [made.id]

    run(test, log=ForgettingFails())


@pytest.mark.parametrize(("slow_ns", "pause_s"), [(0, 1), (SECOND // 10, 3), (5 * SECOND, 5)])
def test_long_rounds_are_seldom(slow_ns: int, pause_s: int) -> None:
    """Rounds over thousands of subscriptions do not keep a processor busy, and come every five seconds at least."""

    async def test() -> None:
        clock, log = ManualClock(0), MemoryLog(MemoryDisk())
        ledger = SlowLedger(clock, slow_ns)
        running = asyncio.create_task(Janitor(log, log, ledger, clock).run())
        while len(ledger.read_at) < 3 and not running.done():
            await asyncio.sleep(0)
            clock.move_to(clock.next_instant() or clock.now())
        running.cancel()
        assert ledger.read_at[2] - ledger.read_at[1] == slow_ns + pause_s * SECOND

    asyncio.run(test())


def test_a_full_disk_is_not_left_alone_between_long_rounds() -> None:
    """While the disk has no room, the next round comes after a second, however long the last one took."""

    async def test() -> None:
        clock, log = ManualClock(0), MemoryLog(MemoryDisk())
        ledger, disk = SlowLedger(clock, SECOND), DiskWatch(lambda: Space(1, 1000))
        running = asyncio.create_task(Janitor(log, log, ledger, clock, disk=disk).run())
        while len(ledger.read_at) < 3 and not running.done():
            await asyncio.sleep(0)
            clock.move_to(clock.next_instant() or clock.now())
        running.cancel()
        assert ledger.read_at[2] - ledger.read_at[1] == 2 * SECOND

    asyncio.run(test())


class RenewingLedger(MemoryLedger):
    """Renews a lane at a position just after its cursor was read."""

    renew: tuple[int, int, str, int] | None = None

    async def lanes(self) -> list[LaneRow]:
        rows = await super().lanes()
        if self.renew is not None:
            await self.renew_lane(*self.renew)
            self.renew = None
        return rows


def test_a_lane_that_begins_again_while_the_janitor_looks_loses_nothing() -> None:
    """The round trims nothing, though the cursor that it read was further on; the next one goes by the new cursor."""

    async def test() -> None:
        bench = Bench()
        ledger = RenewingLedger(MemoryDisk())
        bench.ledger, bench.janitor = ledger, Janitor(bench.log, bench.log, ledger, StillClock())
        topic = await bench.topic()
        subscription = await bench.subscribe(topic)
        end = await bench.publish(topic, 5)
        await bench.move(subscription, end)
        first = await bench.first(topic)
        ledger.renew = (subscription.id, topic.id, bench.log.id, end - 3)
        assert (await bench.janitor.run_once()).trimmed == 0
        assert await bench.first(topic) == first
        await bench.janitor.run_once()
        assert await bench.first(topic) == end - 3

    asyncio.run(test())


def test_nothing_is_trimmed_that_a_damaged_subscription_may_need() -> None:
    """Its progress is unknown, be its own record damaged or the row of its lane; others are trimmed."""

    async def test(bench: Bench) -> None:
        sick, ill, well = [await bench.topic(name) for name in ("sick", "ill", "well")]
        for topic in (sick, ill, well):
            subscription = await bench.subscribe(topic)
            last = await bench.publish(topic, 5)
            await bench.move(subscription, last)
        MemorySpoiler(bench.log._disk).subscription(1)
        MemorySpoiler(bench.ledger._disk).lane(2)
        await bench.janitor.run_once()
        assert [await bench.log.first(topic.id) for topic in (sick, ill, well)] == [1, 2, last]

    run(test)
