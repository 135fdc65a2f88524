"""Notices of dead-letter blobs: crashed at every step of writing, keeping and taking over, each blob is told once."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from recapito.contracts.ledger import Notice, SkippedDeadLetters
from recapito.domain.resources.topic import TopicKind
from recapito.errors import StoreFailed
from recapito.stores.memory import MemoryDisk, MemoryLedger
from tests.intake.breaking import Crash, Steps
from tests.intake.notices import ACCOUNT, BOX, LARGE, NOW, NoticeStage
from tests.stores.spoil import MemorySpoiler


def act(story: Callable[[NoticeStage], Awaitable[None]]) -> NoticeStage:
    """Tell a story on a new stage."""
    stage = NoticeStage()
    asyncio.run(asyncio.wait_for(story(stage), 20))
    return stage


def test_a_blob_is_told_of() -> None:
    """The system topic has one event, about the very blob; dispatch was woken."""

    async def story(stage: NoticeStage) -> None:
        topic = await stage.listen()
        await stage.bury(letters=3)
        await stage.write()
        await stage.take()
        (event,) = await stage.told(topic)
        ((container, path), content), *none = stage.vault.files.items()
        assert (container, none) == (BOX, [])
        assert event["subject"] == f"/blobServices/default/containers/dead/blobs/{path}"
        assert (event["topic"], event["data"]["contentLength"]) == (ACCOUNT, len(content))
        assert stage.rung == 2

    act(story)


@pytest.mark.parametrize("done", [False, True])
def test_each_blob_is_told_of_once_wherever_it_crashes(done: bool) -> None:
    """Whichever call of either role is the last before a crash, done or not, three blobs are three events."""

    async def crash(stage: NoticeStage, role: Callable[[Steps], Awaitable[None]], count: int) -> bool:
        try:
            await role(Steps(count, done))
            return False
        except Crash:
            return True

    async def story(stage: NoticeStage, count: int, dispatch: bool) -> bool:
        topic = await stage.listen()
        for name in ("one", "two", "three"):
            await stage.bury(name=name)
        crashed = False
        if dispatch:
            crashed = await crash(stage, stage.write, count)
        await stage.write()
        if not dispatch:
            crashed = await crash(stage, stage.take, count)
        await stage.take()
        subjects = [event["subject"] for event in await stage.told(topic)]
        blobs = [f"/blobServices/default/containers/dead/blobs/{path}" for _, path in stage.vault.files]
        assert sorted(subjects) == sorted(blobs) and len(blobs) == 3, (count, subjects)
        await stage.bury(name="four")
        await stage.write()
        assert len(await stage.ledger.notices(0, 99)) == 1  # what was taken is forgotten with the next
        return crashed

    for dispatch in (True, False):
        count = 1
        while asyncio.run(story(NoticeStage(), count, dispatch)):
            count += 1
        assert count > (10 if dispatch else 4)


def test_nobody_listens() -> None:
    """Without a system topic, or without a subscription to it, nothing is kept."""

    async def story(stage: NoticeStage) -> None:
        await stage.bury()
        await stage.write()
        topic = await stage.listen()
        watch = await stage.log.subscription(topic.id, "watch")
        assert watch is not None
        await stage.log.delete_subscription(watch.id)
        await stage.bury()
        await stage.write()
        assert len(stage.vault.files) == 2 and await stage.ledger.notices(0, 9) == [] and stage.rung == 0

    act(story)


def test_tidings_beget_no_tidings() -> None:
    """Letters of a system topic's subscription become a blob without an event: so it ends there."""

    async def story(stage: NoticeStage) -> None:
        topic = await stage.listen()
        await stage.bury(TopicKind.SYSTEM, "storage")
        await stage.write()
        await stage.take()
        assert len(stage.vault.files) == 1 and await stage.told(topic) == []

    act(story)


def test_a_system_topic_that_went_meanwhile() -> None:
    """Its notices are let go, and do not hold up those of others."""

    async def story(stage: NoticeStage) -> None:
        topic = await stage.listen()
        await stage.bury()
        await stage.write()
        await stage.log.delete_topic(topic.id)
        await stage.take()
        again = await stage.listen("again")
        await stage.bury()
        await stage.write()
        await stage.take()
        assert len(await stage.told(again)) == 1

    act(story)


def test_a_notice_that_can_not_be_read() -> None:
    """It is passed over; the next one is told of."""

    async def story(stage: NoticeStage) -> None:
        topic = await stage.listen()
        lane = await stage.bury(letters=1)
        group = await stage.ledger.burials_due(NOW, 9, LARGE, SkippedDeadLetters())
        assert group is not None
        await stage.ledger.name_group(group, "path", NOW)
        await stage.ledger.written(lane, "path", b"damaged", 0)
        await stage.bury()
        await stage.write()
        await stage.take()
        assert len(await stage.told(topic)) == 1

    act(story)


def test_a_damaged_notice_that_can_still_be_read() -> None:
    """Its content is not believed: it is passed over and kept, and the next notice is published."""

    async def story(stage: NoticeStage) -> None:
        topic = await stage.listen()
        for name in ("one", "two"):
            await stage.bury(name=name)
        await stage.write()
        assert MemorySpoiler(stage.disk).notice(1)
        await stage.take()
        (event,) = await stage.told(topic)
        assert event["subject"].endswith(list(stage.vault.files)[1][1])
        stage.ledger = MemoryLedger(stage.disk)  # dispatch starts
        assert [damage[:4] for damage in await stage.ledger.damaged(0, 9)] == [("notice", 0, 0, 1)]

    act(story)


def test_a_full_disk() -> None:
    """While nothing may be stored nothing is taken over; afterwards it is."""

    async def story(stage: NoticeStage) -> None:
        topic = await stage.listen()
        await stage.bury()
        await stage.write()
        stage.closed = "The disk is nearly full."
        with pytest.raises(StoreFailed):
            await stage.take()
        stage.closed = None
        await stage.take()
        assert len(await stage.told(topic)) == 1

    act(story)


def test_the_loop_is_quiet_when_there_is_nothing() -> None:
    """It looks at the start and at every ring, and is quiet in between."""

    async def story(stage: NoticeStage) -> None:
        topic = await stage.listen()
        notifier = stage.notifier()
        running = asyncio.create_task(notifier.run())
        for count in (1, 2):
            await stage.bury()
            await stage.write()
            notifier.ring()
            assert not notifier.quiet()
            while not notifier.quiet():
                await asyncio.sleep(0)
            assert len(await stage.told(topic)) == count
        running.cancel()

    act(story)


class SlowLedger(MemoryLedger):
    """A ledger whose notices are read only after the gate opens."""

    def __init__(self, disk: MemoryDisk) -> None:
        super().__init__(disk)
        self.asked, self.gate = asyncio.Event(), asyncio.Event()

    async def notices(self, after: int, limit: int) -> list[Notice]:
        self.asked.set()
        await self.gate.wait()
        return await super().notices(after, limit)


def test_the_loop_is_not_quiet_while_it_reads() -> None:
    """A ring that was heard is not done with until its notices are published."""

    async def story(stage: NoticeStage) -> None:
        ledger = SlowLedger(stage.disk)
        notifier = stage.notifier(ledger=ledger)
        running = asyncio.create_task(notifier.run())
        await ledger.asked.wait()
        assert not notifier.quiet()
        ledger.gate.set()
        while not notifier.quiet():
            await asyncio.sleep(0)
        running.cancel()

    act(story)
