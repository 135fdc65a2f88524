"""Blob changes become events once, whichever step a crash or a failed commit left out."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from recapito.clock import ManualClock
from recapito.contracts.log import EntryKind
from recapito.domain.connections.connection import Connection
from recapito.domain.connections.parse_storage import AZURITE_ACCOUNT, azurite
from recapito.domain.events.segment import Segment
from recapito.domain.instant import SECOND
from recapito.domain.resources.topic import Source, Topic, TopicKind
from recapito.domain.storage.blob_change import BlobChange, read_change
from recapito.domain.storage.blob_event import BlobFacts
from recapito.errors import AppendFailed, Busy, StoreFailed
from recapito.intake.publish.publisher import Publisher
from recapito.intake.storage.blob_reporter import BlobReporter
from recapito.intake.storage.change_notes import DirectoryNotes, MemoryNotes
from tests.intake.doubles import ScriptedLog
from tests.stores.values import new_subscription, new_topic

NOW = 1_900_000_000 * SECOND
ACCOUNT = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Storage/storageAccounts/"
THERE = BlobFacts("text/plain", 5, "BlockBlob", '"0x1"', NOW // SECOND)


def change(method: str = "PUT", account: str = "orders1") -> BlobChange:
    headers = {"host": "h", "x-ms-blob-type": "BlockBlob", "content-length": "5"}
    found = read_change(method, f"/{account}/box/a.txt", headers if method == "PUT" else {"host": "h"})
    assert found is not None
    return found


class Bench:
    """A log with system topics, a storage service whose one blob a test sets, and a publisher that runs."""

    def __init__(self, script: tuple[Exception | None, ...] = ()) -> None:
        self.closed: str | None = None
        self.log = ScriptedLog(script)
        self.notes = MemoryNotes()
        self.clock = ManualClock(NOW)
        self.blob: BlobFacts | None = None
        self.unreachable = self.unknown_key = False
        self.connections: dict[str, Connection] = {}
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
        if self.unreachable:
            raise OSError("nothing listens there")
        return self.blob

    def reporter(self) -> BlobReporter:
        async def find(resource_id: str) -> Connection | None:
            return self.connections.get(resource_id)

        return BlobReporter(
            self.log,
            self.log,
            self.publisher,
            self.clock,
            self.clock,
            find,
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


def test_a_change_that_is_made() -> None:
    """Its event is stored and its note is gone; sequencers grow."""

    async def test(bench: Bench) -> None:
        topic, reporter = await bench.topic("blobs"), bench.reporter()
        for _ in range(2):
            note = await reporter.begin(change(), "http")
            assert note is not None and bench.notes.left() == [note]
            await reporter.made(note, {"etag": "0x1"})
        first, second = await bench.events(topic)
        assert first["data"]["sequencer"] < second["data"]["sequencer"] and first["id"] != second["id"]
        assert bench.notes.left() == []

    run(test)


def test_accounts() -> None:
    """An account without a subscribed system topic has no events; a connection makes another account its source."""

    async def test(bench: Bench) -> None:
        await bench.topic("blobs")
        reporter = bench.reporter()
        assert await reporter.begin(change(account=AZURITE_ACCOUNT), "http") is None
        bench.connections[f"{ACCOUNT}orders1"] = azurite(f"{ACCOUNT}orders1")
        assert await reporter.begin(change(account=AZURITE_ACCOUNT), "http") is not None

    run(test)


def test_a_refused_change_leaves_nothing() -> None:
    """A change that the service refused has no event, after a restart either."""

    async def test(bench: Bench) -> None:
        topic, reporter = await bench.topic("blobs"), bench.reporter()
        note = await reporter.begin(change(), "http")
        assert note is not None
        reporter.not_made(note)
        await bench.restart()
        assert bench.notes.left() == [] and await bench.events(topic) == []

    run(test)


@pytest.mark.parametrize(
    ("method", "before", "after", "events"),
    [
        ("PUT", None, THERE, 1),
        ("PUT", None, None, 0),
        ("PUT", THERE, BlobFacts("", 0, "", "", NOW // SECOND - 5), 0),
        ("DELETE", THERE, None, 1),
        ("DELETE", THERE, THERE, 0),
        ("DELETE", None, None, 0),
    ],
)
def test_a_crash_after_the_request(method: str, before: BlobFacts | None, after: BlobFacts | None, events: int) -> None:
    """The blob tells whether the change was made; its event is then stored once, however often the server restarts."""

    async def test(bench: Bench) -> None:
        topic = await bench.topic("blobs")
        bench.blob = before
        assert await bench.reporter().begin(change(method), "http") is not None
        bench.blob = after
        await bench.restart()
        await bench.restart()
        assert len(await bench.events(topic)) == events
        assert bench.notes.left() == []

    run(test)


def test_a_crash_after_the_event() -> None:
    """An event that is in the log is not stored again; a topic that lacks it gets it."""

    async def test(bench: Bench) -> None:
        topic = await bench.topic("blobs")
        reporter = bench.reporter()
        note = await reporter.begin(change(), "http")
        assert note is not None
        await reporter.made(note, {})
        bench.notes.put(note)  # the crash came before it was removed
        late, bench.blob = await bench.topic("late"), THERE
        await bench.restart()
        assert len(await bench.events(topic)) == len(await bench.events(late)) == 1

    run(test)


def test_a_service_that_cannot_be_asked() -> None:
    """The note stays until the storage service answers; the journal has one line for each reason."""

    async def test(bench: Bench) -> None:
        topic = await bench.topic("blobs")
        assert await bench.reporter().begin(change(), "http") is not None
        bench.blob, bench.unreachable = THERE, True
        await bench.restart()
        assert len(bench.notes.left()) == 1 and bench.journal == ["blob.not_settled"]
        bench.unreachable = False
        await bench.restart()
        assert len(await bench.events(topic)) == 1

    run(test)


def test_a_failed_commit_leaves_the_note() -> None:
    """The event may be stored or not; the note stays, and a search of the log decides."""

    async def test(bench: Bench) -> None:
        topic, reporter = await bench.topic("blobs"), bench.reporter()
        note = await reporter.begin(change(), "http")
        assert note is not None
        with pytest.raises(AppendFailed):
            await reporter.made(note, {})
        assert bench.notes.left() == [note]
        bench.blob = THERE
        await bench.restart()
        assert len(await bench.events(topic)) == 1 and bench.notes.left() == []

    run(test, StoreFailed("the disk"))


def test_a_closed_intake_refuses_before_the_change() -> None:
    """A change whose event could not be stored is not asked for, and leaves no note."""

    async def test(bench: Bench) -> None:
        await bench.topic("blobs")
        bench.closed = "The disk is full."
        with pytest.raises(Busy):
            await bench.reporter().begin(change(), "http")
        assert bench.notes.left() == []

    run(test)


def test_an_account_whose_blobs_cannot_be_asked_about() -> None:
    """The change is refused before it is made: its event might wait for that answer for good."""

    async def test(bench: Bench) -> None:
        await bench.topic("blobs")
        bench.unknown_key = True
        with pytest.raises(OSError, match="key"):
            await bench.reporter().begin(change(), "http")
        assert bench.notes.left() == []

    run(test)


def test_a_topic_that_is_deleted_meanwhile() -> None:
    """Its event is wanted by no one any more, and nothing is left to settle."""

    async def test(bench: Bench) -> None:
        topic, reporter = await bench.topic("blobs"), bench.reporter()
        note = await reporter.begin(change(), "http")
        assert note is not None
        [subscription] = await bench.log.subscriptions(topic.id, 0, 10)
        await bench.log.delete_topic(topic.id)
        await bench.log.forget(subscription.id)
        await reporter.made(note, {})
        assert bench.notes.left() == []

    run(test)


def test_notes_in_files(tmp_path: Path) -> None:
    """Notes survive the process; one that cannot be read is set aside for a person."""
    journal: list[str] = []
    notes = DirectoryNotes(tmp_path / "notes", lambda event, **_: journal.append(event))
    assert notes.left() == []

    async def test(bench: Bench) -> None:
        await bench.topic("blobs")
        bench.notes = notes  # type: ignore[assignment]
        assert await bench.reporter().begin(change(), "http") is not None

    run(test)
    [note] = DirectoryNotes(tmp_path / "notes", lambda event, **_: None).left()
    (tmp_path / "notes" / "x.json").write_bytes(b"{")
    assert notes.left() == [note] and journal == ["blob.note_unreadable"]
    assert (tmp_path / "notes" / "x.unreadable").exists()
    notes.remove(note.id)
    assert notes.left() == []
