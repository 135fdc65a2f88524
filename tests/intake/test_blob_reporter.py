"""Blob changes become events once, whichever step a crash or a failed commit left out."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import pytest

from recapito.clock import ManualClock
from recapito.connections.encryption import SecretBox
from recapito.connections.keyring import Keyring
from recapito.domain import limits
from recapito.domain.connections.parse_storage import AZURITE_ACCOUNT, azurite
from recapito.domain.instant import SECOND
from recapito.domain.resources.topic import Source, Topic, TopicKind
from recapito.domain.storage.blob_event import BlobFacts
from recapito.errors import AppendFailed, Busy, StoreFailed
from recapito.intake.storage.change_notes import ChangeNote, FileNotes
from recapito.intake.storage.reported_accounts import ReportedAccounts
from recapito.stores.memory import MemoryLog
from tests.intake.blob_bench import ACCOUNT, NOW, THERE, Bench, change, run
from tests.stores.values import new_subscription, new_topic


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
    """A topic, a subscription and a connection hold for the next change; a connection names the account of a source."""

    async def test(bench: Bench) -> None:
        reporter = bench.reporter()

        async def reported(account: str) -> bool:
            note = await reporter.begin(change(account=account), "http")
            return note is not None

        assert not await reported("orders1")
        topic = await bench.topic("blobs")
        assert await reported("Orders1") and not await reported(AZURITE_ACCOUNT)
        await bench.keyring.set(azurite(f"{ACCOUNT}orders1"), NOW)
        assert await reported("orders1") and await reported(AZURITE_ACCOUNT)
        await bench.keyring.remove(f"{ACCOUNT}orders1")
        assert not await reported(AZURITE_ACCOUNT)
        [subscription] = await bench.log.subscriptions(topic.id, 0, 10)
        await bench.log.delete_subscription(subscription.id)
        assert not await reported("orders1")

    run(test)


class CountedLog(MemoryLog):
    """Counts the reads of topics. During one, it runs `meanwhile` first."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = 0
        self.meanwhile: Callable[[], Awaitable[object]] | None = None

    async def topics(self, after: str, limit: int) -> list[Topic]:
        self.reads += 1
        found = await super().topics(after, limit)
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            await meanwhile()
        return found


def test_accounts_are_read_when_something_changed() -> None:
    """Requests without a change between them read nothing; a change during a read is not missed."""

    async def test() -> None:
        log = CountedLog()
        accounts = ReportedAccounts(log, Keyring(log, SecretBox.in_memory()).find)
        source = Source(f"{ACCOUNT}orders1", "Microsoft.Storage.StorageAccounts")

        async def subscribe() -> None:
            topic = await log.put_topic(new_topic("blobs", kind=TopicKind.SYSTEM, source=source))
            await log.put_subscription(new_subscription(topic.id, "watch"))

        log.meanwhile = subscribe
        assert await accounts.topics("orders1") == []
        assert len(await accounts.topics("orders1")) == 1
        reads = log.reads
        assert len(await accounts.topics("orders1")) == 1 and await accounts.key("orders1") is None
        assert log.reads == reads

    asyncio.run(test())


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


def test_the_next_change_of_a_blob_waits_for_one_in_doubt() -> None:
    """A blob that is deleted before a restart has looked for it was there: both events, in this order."""

    async def test(bench: Bench) -> None:
        topic = await bench.topic("blobs")
        assert await bench.reporter().begin(change(), "http") is not None
        bench.blob, reporter = THERE, bench.reporter()
        bench.unreachable = True
        with pytest.raises(OSError, match="nothing listens"):
            await reporter.begin(change("DELETE"), "http")
        bench.unreachable = False
        note = await reporter.begin(change("DELETE"), "http")
        assert note is not None and bench.notes.left() == [note]
        bench.blob = None
        await reporter.made(note, {})
        created, deleted = await bench.events(topic)
        assert [event["data"]["api"] for event in (created, deleted)] == ["PutBlob", "DeleteBlob"]
        assert created["data"]["sequencer"] < deleted["data"]["sequencer"]

    run(test)


def test_a_change_in_doubt_is_settled_once() -> None:
    """The loop and a client's next change look at it together; it has one event."""

    async def test(bench: Bench) -> None:
        topic, reporter = await bench.topic("blobs"), bench.reporter()
        note = await reporter.begin(change(), "http")
        assert note is not None
        reporter.doubtful(note)
        bench.blob = THERE
        bench.answers.clear()
        running = [asyncio.create_task(reporter.run()), asyncio.create_task(reporter.begin(change(), "http"))]
        await asyncio.sleep(0)
        bench.answers.set()
        assert await running[1] is not None
        running[0].cancel()
        assert len(await bench.events(topic)) == 1

    run(test)


def test_sequencers_are_in_the_order_of_the_answers() -> None:
    """A change whose length must be asked for is stored after a later one, and has the lower sequencer."""

    async def test(bench: Bench) -> None:
        topic, reporter = await bench.topic("blobs"), bench.reporter()
        listed = await reporter.begin(change(query="?comp=blocklist"), "http")
        put = await reporter.begin(change(), "http")
        assert listed is not None and put is not None
        bench.answers.clear()
        asking = asyncio.create_task(reporter.made(listed, {}))
        await asyncio.sleep(0)
        await reporter.made(put, {})
        bench.answers.set()
        await asking
        events = sorted(await bench.events(topic), key=lambda event: event["data"]["sequencer"])
        assert [event["data"]["api"] for event in events] == ["PutBlockList", "PutBlob"]

    run(test)


def test_sequencers_grow_though_the_wall_clock_is_set_back() -> None:
    """After a restart the service's clock is not behind what it wrote, whatever the wall clock says."""

    async def test(bench: Bench) -> None:
        topic = await bench.topic("blobs")
        for _ in range(2):
            reporter = bench.reporter()
            note = await reporter.begin(change(), "http")
            assert note is not None
            await reporter.made(note, {})
            bench.clock.move_to(bench.clock.now() + 1)
            bench.wall = ManualClock(NOW - 60 * SECOND)
        first, second = await bench.events(topic)
        assert first["data"]["sequencer"] < second["data"]["sequencer"]

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


def test_a_note_whose_event_no_one_wants_any_more() -> None:
    """It is forgotten without a question, which might never be answered."""

    async def test(bench: Bench) -> None:
        topic = await bench.topic("blobs")
        assert await bench.reporter().begin(change(), "http") is not None
        [subscription] = await bench.log.subscriptions(topic.id, 0, 10)
        await bench.log.delete_subscription(subscription.id)
        bench.unreachable = True
        await bench.restart()
        assert bench.notes.left() == [] and bench.journal == []

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


def noted(n: int) -> ChangeNote:
    """A note of the n-th change."""
    return ChangeNote(f"id-{n}", change(), "http", NOW + n)


def test_notes_in_a_file(tmp_path: Path) -> None:
    """Notes survive the process, removed ones do not; one that cannot be read is reported and stays where it is."""
    journal: list[str] = []
    file = tmp_path / "notes"
    notes = FileNotes(file, lambda event, **_: None)
    assert notes.left() == [] and not file.exists()
    for n in range(4):
        notes.put(noted(n))
    for n in (1, 2):
        notes.remove(f"id-{n}")
    notes.remove("never")
    notes.put(noted(5))
    size = file.stat().st_size
    with file.open("r+b") as damaged:
        damaged.write(b"{?")
    again = FileNotes(file, lambda event, **_: journal.append(event))
    assert again.left() == [noted(3), noted(5)] and journal == ["blob.note_unreadable"]
    again.put(noted(6))
    assert file.stat().st_size == size and file.read_bytes().startswith(b"{?")
    again.put(noted(7))
    assert FileNotes(file, lambda event, **_: None).left() == [noted(n) for n in (3, 5, 6, 7)]


def test_a_note_that_cannot_be_written(tmp_path: Path) -> None:
    """A name that is too long, and a file that cannot be made, are errors; nothing is noted."""
    notes = FileNotes(tmp_path / "notes", lambda event, **_: None)
    long = msgspec.structs.replace(change(), blob="\x01" * limits.FRONT_NOTE_BYTES)
    with pytest.raises(OSError, match="too long"):
        notes.put(ChangeNote("long", long, "http", NOW))
    with pytest.raises(FileNotFoundError):
        FileNotes(tmp_path / "missing" / "notes", lambda event, **_: None).put(noted(1))
    assert notes.left() == []


def test_a_full_disk_leaves_no_half_note() -> None:
    """A note for which there is no room is refused, and its slot is empty."""
    notes = FileNotes(Path("/dev/full"), lambda event, **_: None)
    with pytest.raises(OSError, match="No space"):
        notes.put(noted(1))
    assert notes.left() == []
