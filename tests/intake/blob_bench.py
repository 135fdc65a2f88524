"""Shared by the tests of blob events: a reporter at a log in memory, and a storage service with one blob."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from recapito.clock import ManualClock
from recapito.connections.encryption import SecretBox
from recapito.connections.keyring import Keyring
from recapito.contracts.log import EntryKind
from recapito.domain.events.segment import Segment
from recapito.domain.instant import SECOND
from recapito.domain.resources.topic import Source, Topic, TopicKind
from recapito.domain.storage.blob_change import BlobChange, read_change
from recapito.domain.storage.blob_event import BlobFacts
from recapito.intake.publish.publisher import Publisher
from recapito.intake.storage.blob_reporter import BlobReporter
from recapito.intake.storage.change_notes import MemoryNotes
from recapito.intake.storage.reported_accounts import ReportedAccounts
from tests.intake.doubles import ScriptedLog
from tests.stores.values import new_subscription, new_topic

NOW = 1_900_000_000 * SECOND
ACCOUNT = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Storage/storageAccounts/"
THERE = BlobFacts("text/plain", 5, "BlockBlob", '"0x1"', NOW // SECOND)


def change(method: str = "PUT", account: str = "orders1", query: str = "") -> BlobChange:
    headers = {"host": "h", "x-ms-blob-type": "BlockBlob", "content-length": "5"}
    found = read_change(method, f"/{account}/box/a.txt{query}", headers if method == "PUT" else {"host": "h"})
    assert found is not None
    return found


class Bench:
    """A log with system topics, a storage service whose one blob a test sets, and a publisher that runs."""

    def __init__(self, script: tuple[Exception | None, ...] = ()) -> None:
        self.closed: str | None = None
        self.log = ScriptedLog(script)
        self.notes = MemoryNotes()
        self.clock = self.wall = ManualClock(NOW)
        self.blob: BlobFacts | None = None
        self.unreachable = self.unknown_key = False
        self.answers = asyncio.Event()  # cleared: the storage service keeps a question waiting
        self.answers.set()
        self.keyring = Keyring(self.log, SecretBox.in_memory())
        self.journal: list[str] = []
        self.publisher = Publisher(self.log, self.clock, lambda: None, lambda: self.closed, wall=self.clock)

    async def topic(self, name: str, account: str = "orders1") -> Topic:
        source = Source(ACCOUNT + account, "Microsoft.Storage.StorageAccounts")
        topic = await self.log.put_topic(new_topic(name, kind=TopicKind.SYSTEM, source=source))
        await self.log.put_subscription(new_subscription(topic.id, "watch"))
        return topic

    async def check(self, account: str) -> None:
        if self.unknown_key:
            raise OSError("no connection has the key")

    async def look(self, change: BlobChange) -> BlobFacts | None:
        await self.answers.wait()
        if self.unreachable:
            raise OSError("nothing listens there")
        return self.blob

    def reporter(self) -> BlobReporter:
        return BlobReporter(
            self.log,
            ReportedAccounts(self.log, self.keyring.find),
            self.publisher,
            self.clock,
            self.wall,
            self,
            self.notes,
            lambda event, **_: self.journal.append(event),
        )

    async def restart(self) -> None:
        """One turn of a new reporter over the notes that are left."""
        running = asyncio.create_task(self.reporter().run())
        for _ in range(50):
            await asyncio.sleep(0)
        running.cancel()

    async def events(self, topic: Topic) -> list[dict[str, Any]]:
        entries = await self.log.read(topic.id, 1, 1 << 20)
        segments = [Segment(entry.columns, entry.body) for entry in entries if entry.kind is EntryKind.SEGMENT]
        return [json.loads(segment.event(i)) for segment in segments for i in range(len(segment.ids))]


def run(test: Callable[[Bench], Awaitable[None]], *script: Exception | None) -> None:
    async def whole() -> None:
        bench = Bench(script)
        publishing = asyncio.create_task(bench.publisher.run())
        await asyncio.sleep(0)
        await test(bench)
        publishing.cancel()

    asyncio.run(whole())
