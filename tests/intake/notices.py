"""A partition in memory whose dead letters are blobs, step by step on stores that may break."""

import json
from typing import Any

from recapito.clock import ManualClock
from recapito.contracts.log import EntryKind
from recapito.dispatch.dead_letter_writer import DeadLetterWriter, Owner
from recapito.dispatch.lane.attempt_recorder import AttemptRecorder
from recapito.dispatch.signals import Signal
from recapito.domain.cluster.partition import WHOLE, Partition
from recapito.domain.events.segment import Segment
from recapito.domain.history.attempt import LaneLabel
from recapito.domain.instant import MINUTE
from recapito.domain.profiles.profile import load
from recapito.domain.resources.resource_id import container_id
from recapito.domain.resources.topic import Source, Topic, TopicKind
from recapito.intake.maintenance.blob_notifier import BlobNotifier
from recapito.intake.maintenance.notice_publisher import NoticePublisher
from recapito.observability.journal import silent
from recapito.stores.memory import MemoryDisk, MemoryLedger, MemoryLog
from recapito.vaults.memory import MemoryVault
from tests.intake.breaking import Breaking, Steps
from tests.stores.values import burial, new_subscription, new_topic, settlement

ACCOUNT = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Storage/storageAccounts/orders1"
BOX = container_id(ACCOUNT, "dead").lower()
NOW = 1_900_000_000 * 1_000_000_000
LARGE = 1 << 20


class NoticeStage:
    """A topic with a subscription whose letters are blobs, and a system topic over their account."""

    def __init__(self, partition: Partition = WHOLE) -> None:
        self.partition = partition
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
            silent,
            on_notice=self._ring,
            alone=self.partition.alone,
        )

    def notifier(self, steps: Steps | None = None, ledger: MemoryLedger | None = None) -> BlobNotifier:
        """Who takes notices over, on stores that may break."""
        log = Breaking(MemoryLog(self.disk), steps or Steps())
        breaking = Breaking(ledger or MemoryLedger(self.disk), steps or Steps())
        return BlobNotifier(self.publisher(log), log, breaking, ManualClock(0), silent)

    def publisher(self, log: Any) -> NoticePublisher:
        """Who makes events of notices, on a log that may break."""
        return NoticePublisher(log, log, ManualClock(NOW + MINUTE), lambda: self.closed, self._ring, silent)

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
