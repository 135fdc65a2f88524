"""Subscriptions end at their expiration time: in time, in order, after a restart, and not when they changed."""

import asyncio
from collections.abc import Awaitable, Callable

from recapito.clock import ManualClock
from recapito.domain.instant import HOUR, SECOND
from recapito.domain.resources.destination import WebHook
from recapito.domain.resources.topic import Topic
from recapito.errors import StoreFailed
from recapito.intake.resources.drafts import SubscriptionDraft, TopicDraft
from recapito.intake.resources.expiry import Expiry
from recapito.stores.memory import MemoryLog
from tests.intake.doubles import make_resources

START = 1_700_000_000 * SECOND


class Bench:
    """Topics whose subscriptions expire on a manual clock."""

    def __init__(self, log: MemoryLog) -> None:
        self.log = log
        self.clock = ManualClock(START)
        self.told: list[str] = []
        self.expiry = Expiry(self.log, self.clock, lambda event, **_: self.told.append(event))
        self.topics, self.subscriptions = make_resources(self.log, self.clock, on_expiry=self.expiry.watch)

    async def topic(self) -> Topic:
        return await self.topics.put(TopicDraft.of(name="orders", azure_subscription="sub", resource_group="group"))

    async def put(self, topic: Topic, name: str, expires_at: int | None) -> None:
        draft = SubscriptionDraft.of(name=name, destination=WebHook(url="https://example.com/"), expires_at=expires_at)
        await self.subscriptions.put(topic, draft)

    async def settle(self) -> None:
        for _ in range(50):
            await asyncio.sleep(0)

    async def move_to(self, when: int) -> None:
        self.clock.move_to(when)
        await self.settle()

    async def living(self) -> list[str]:
        stored = await self.log.subscriptions(None, 0, 100)
        return [one.name for one in stored if one.deleted_position is None]


def run(test: Callable[[Bench], Awaitable[None]], log: MemoryLog | None = None) -> None:
    async def whole() -> None:
        bench = Bench(log or MemoryLog())
        running = asyncio.create_task(bench.expiry.run(bench.subscriptions.expire))
        try:
            await bench.settle()
            await test(bench)
        finally:
            running.cancel()

    asyncio.run(whole())


def test_each_ends_at_its_time() -> None:
    """The clock is told of the next time, also when a nearer one comes later; each is deleted when it comes."""

    async def test(bench: Bench) -> None:
        topic = await bench.topic()
        await bench.put(topic, "late", START + 2 * HOUR)
        await bench.settle()
        assert bench.clock.next_instant() == START + 2 * HOUR
        await bench.put(topic, "soon", START + HOUR)
        await bench.put(topic, "never", None)
        await bench.settle()
        assert bench.clock.next_instant() == START + HOUR
        await bench.move_to(START + HOUR - 1)
        assert await bench.living() == ["late", "soon", "never"]
        bench.clock.move_to(START + HOUR)
        assert not bench.expiry.quiet()
        await bench.settle()
        assert (await bench.living(), bench.expiry.quiet()) == (["late", "never"], True)
        await bench.move_to(START + 3 * HOUR)
        assert await bench.living() == ["never"]
        assert bench.clock.next_instant() is None

    run(test)


def test_a_time_that_was_put_off_counts_no_more() -> None:
    """A subscription whose expiration time was moved or taken away lives on."""

    async def test(bench: Bench) -> None:
        topic = await bench.topic()
        await bench.put(topic, "moved", START + HOUR)
        await bench.put(topic, "freed", START + HOUR)
        await bench.put(topic, "moved", START + 2 * HOUR)
        await bench.put(topic, "freed", None)
        await bench.move_to(START + HOUR)
        assert await bench.living() == ["moved", "freed"]
        await bench.move_to(START + 2 * HOUR)
        assert await bench.living() == ["freed"]

    run(test)


def test_after_a_restart() -> None:
    """Subscriptions that expired while no server ran are deleted at the start, and the rest at their time."""
    log = MemoryLog()

    async def before(bench: Bench) -> None:
        topic = await bench.topic()
        await bench.put(topic, "soon", START + 1)
        await bench.put(topic, "late", START + HOUR)
        bench.clock.move_to(START)

    async def after(bench: Bench) -> None:
        await bench.settle()
        assert bench.clock.next_instant() == START + 1
        await bench.move_to(START + HOUR)
        assert await bench.living() == []

    run(before, log)
    run(after, log)


class FailingOnce(MemoryLog):
    """A registry whose first delete fails."""

    failed = False

    async def delete_subscription(self, id: int) -> None:
        if not self.failed:
            self.failed = True
            raise StoreFailed("disk I/O error")
        await super().delete_subscription(id)


def test_a_delete_that_fails_is_journalled_and_not_forgotten() -> None:
    """While it is to be tried again, the clock is not let on."""

    async def test(bench: Bench) -> None:
        topic = await bench.topic()
        await bench.put(topic, "soon", START + 1)
        await bench.move_to(START + 1)
        assert (bench.told, bench.expiry.quiet(), await bench.living()) == (["expiry.failed"], False, ["soon"])

    run(test, FailingOnce())


def test_an_id_that_is_forgotten_expires_without_effect() -> None:
    """A subscription may be deleted and forgotten before its time: then there is nothing to delete."""

    async def test(bench: Bench) -> None:
        topic = await bench.topic()
        await bench.put(topic, "other", None)
        await bench.subscriptions.expire(12345)
        assert await bench.living() == ["other"]

    run(test)


def test_without_expiration_times_it_is_quiet() -> None:
    """Where no subscription expires, none is due."""
    assert Expiry(MemoryLog(), ManualClock(START)).quiet()
