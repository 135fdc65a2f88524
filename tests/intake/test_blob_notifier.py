"""Notices of dead-letter blobs: crashed at every step of writing, keeping and taking over, each blob is told once."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from recapito.clock import ManualClock
from recapito.contracts.ledger import Notice, SkippedDeadLetters
from recapito.contracts.log import EntryKind
from recapito.dispatch.dead_letter_writer import DeadLetterWriter, Owner
from recapito.dispatch.lane.attempt_recorder import AttemptRecorder
from recapito.dispatch.signals import Signal
from recapito.domain.events.segment import Segment
from recapito.domain.history.attempt import LaneLabel
from recapito.domain.instant import MINUTE
from recapito.domain.profiles.profile import load
from recapito.domain.resources.resource_id import container_id
from recapito.domain.resources.topic import Source, Topic, TopicKind
from recapito.errors import StoreFailed
from recapito.intake.maintenance.blob_notifier import BlobNotifier
from recapito.stores.memory import MemoryDisk, MemoryLedger, MemoryLog
from recapito.vaults.memory import MemoryVault
from tests.intake.breaking import Breaking, Crash, Steps
from tests.stores.spoil import MemorySpoiler
from tests.stores.values import burial, new_subscription, new_topic, settlement

ACCOUNT = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Storage/storageAccounts/orders1"
BOX = container_id(ACCOUNT, "dead").lower()
NOW = 1_900_000_000 * 1_000_000_000
LARGE = 1 << 20


class Stage:
    """A topic with a subscription whose letters are blobs, and a system topic over their account."""

    def __init__(self) -> None:
        self.disk, self.vault = MemoryDisk(), MemoryVault()
        self.log, self.ledger = MemoryLog(self.disk), MemoryLedger(self.disk)
        self.rung = 0
        self.closed: str | None = None
        self._guids = iter(range(1, 1000))

    def _ring(self) -> None:
        self.rung += 1

    async def listen(self, name: str = "storage") -> Topic:
        """Subscribe an endpoint to the account."""
        source = Source(ACCOUNT, "Microsoft.Storage.StorageAccounts")
        topic = await self.log.put_topic(new_topic(name, kind=TopicKind.SYSTEM, source=source))
        await self.log.put_subscription(new_subscription(topic.id, "watch"))
        return topic

    async def bury(self, kind: TopicKind = TopicKind.CUSTOM, name: str = "orders", letters: int = 1) -> int:
        """Have letters wait, of a subscription on a topic of this kind: its lane."""
        topic = await self.log.topic(name, kind) or await self.log.put_topic(new_topic(name, kind=kind))
        subscription = await self.log.subscription(topic.id, "sub")
        if subscription is None:
            subscription = await self.log.put_subscription(new_subscription(topic.id, "sub"))
        lane = await self.ledger.open_lane(subscription.id, topic.id, self.log.id, 1)
        position = lane.counts.matched + 1
        burials = [burial(position + n, 0, NOW, BOX) for n in range(letters)]
        await self.ledger.settle([settlement(lane, matched=letters, bury=burials)])
        return lane.id

    def writer(self, steps: Steps | None = None) -> DeadLetterWriter:
        """Who writes what waits, on a ledger and a vault that may break."""
        rules = load("2021-03").dead_letter
        return DeadLetterWriter(
            Breaking(MemoryLedger(self.disk), steps or Steps()),
            Breaking(MemoryLog(self.disk), steps or Steps()),
            Breaking(self.vault, steps or Steps()),
            ManualClock(NOW + MINUTE),
            lambda lane: Owner("sub", rules, AttemptRecorder(None, LaneLabel(lane, 1, "orders", "sub"))),
            Signal(),
            ManualClock(NOW + MINUTE),
            lambda: f"guid-{next(self._guids)}",
            lambda *_, **__: None,
            on_notice=self._ring,
        )

    def notifier(self, steps: Steps | None = None, ledger: MemoryLedger | None = None) -> BlobNotifier:
        """Who takes notices over, on stores that may break."""
        log = Breaking(MemoryLog(self.disk), steps or Steps())
        return BlobNotifier(
            log,
            log,
            Breaking(ledger or MemoryLedger(self.disk), steps or Steps()),
            ManualClock(NOW + MINUTE),
            ManualClock(0),
            lambda: self.closed,
            self._ring,
            lambda *_, **__: None,
        )

    async def write(self, steps: Steps | None = None) -> None:
        """Write all that waits, one group after the other."""
        writer = self.writer(steps)
        while (group := await writer.next_group()) is not None:
            await writer.write(group)

    async def take(self, steps: Steps | None = None) -> None:
        """Take over all notices."""
        notifier = self.notifier(steps)
        while await notifier.run_once():
            continue

    async def told(self, topic: Topic) -> list[dict[str, Any]]:
        """The events of the system topic."""
        entries = await self.log.read(topic.id, 1, LARGE)
        segments = [Segment(entry.columns, entry.body) for entry in entries if entry.kind is EntryKind.SEGMENT]
        return [json.loads(segment.event(n)) for segment in segments for n in range(len(segment))]


def act(story: Callable[[Stage], Awaitable[None]]) -> Stage:
    """Tell a story on a new stage."""
    stage = Stage()
    asyncio.run(asyncio.wait_for(story(stage), 20))
    return stage


def test_a_blob_is_told_of() -> None:
    """The system topic has one event, about the very blob; dispatch was woken."""

    async def story(stage: Stage) -> None:
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

    async def crash(stage: Stage, role: Callable[[Steps], Awaitable[None]], count: int) -> bool:
        try:
            await role(Steps(count, done))
            return False
        except Crash:
            return True

    async def story(stage: Stage, count: int, dispatch: bool) -> bool:
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
        while asyncio.run(story(Stage(), count, dispatch)):
            count += 1
        assert count > (10 if dispatch else 4)


def test_nobody_listens() -> None:
    """Without a system topic, or without a subscription to it, nothing is kept."""

    async def story(stage: Stage) -> None:
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

    async def story(stage: Stage) -> None:
        topic = await stage.listen()
        await stage.bury(TopicKind.SYSTEM, "storage")
        await stage.write()
        await stage.take()
        assert len(stage.vault.files) == 1 and await stage.told(topic) == []

    act(story)


def test_a_system_topic_that_went_meanwhile() -> None:
    """Its notices are let go, and do not hold up those of others."""

    async def story(stage: Stage) -> None:
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

    async def story(stage: Stage) -> None:
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

    async def story(stage: Stage) -> None:
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

    async def story(stage: Stage) -> None:
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

    async def story(stage: Stage) -> None:
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

    async def story(stage: Stage) -> None:
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
