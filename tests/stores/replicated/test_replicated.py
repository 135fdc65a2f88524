"""The replicated store where it differs from the embedded one: fences, doubts, markers, compaction, spoilt copies."""

import asyncio
import contextlib
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from recapito.clock import ManualClock
from recapito.errors import SettingsError, StoreDamaged, StoreFailed, StoreLost
from recapito.intake.publish.disk_watch import DiskWatch
from recapito.stores.replicated.backend import ReplicatedBackend
from recapito.stores.replicated.compaction import Fill
from recapito.stores.replicated.database import ReplicatedDatabase, spoilt_file
from recapito.stores.replicated.message import pack_rows, plain_size, unpack_rows
from recapito.stores.sqlite import SqliteLedger, SqliteLog
from recapito.stores.sqlite.backend import SqliteBackend, SqliteOptions
from recapito.stores.sqlite.files.connection import LOG
from tests.kit.fake_stream import FakeServer, FakeStream, FakeStreams, sound
from tests.kit.replicated import COPY, CompactingDatabase
from tests.stores.values import new_topic, segment

MB = 1 << 20
CLOCK = ManualClock(1)
STORED = bytes.fromhex("28b52ffd200a5100009192019207a474657874")


class Log:
    """A log of one node, which a test opens, fences and breaks."""

    def __init__(self, directory: Path, server: FakeServer) -> None:
        self.server = server
        self.lost = 0
        self._directory = directory
        self._opened: list[ReplicatedDatabase] = []

    def open(
        self,
        node: str,
        *,
        threaded: bool = False,
        founding: bool = False,
        make: type[ReplicatedDatabase] = ReplicatedDatabase,
    ) -> ReplicatedDatabase:
        (self._directory / node).mkdir(exist_ok=True)
        path, stream = self._directory / node / LOG.file, FakeStream(self.server)
        database = make(path, LOG, stream, node, COPY, threaded=threaded, founding=founding, lost=self._on_loss)
        self._opened.append(database)
        if founding:
            database.found()
        return database

    def close(self) -> None:
        for database in self._opened:
            database.close()

    def _on_loss(self) -> None:
        self.lost += 1


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    """A stream in memory, and the nodes of a test."""
    log = Log(tmp_path, FakeServer("LOG", max_body=4096))
    yield log
    log.close()


def faults(database: ReplicatedDatabase, **by_verb: str) -> None:
    """From now on these verbs of the stream fail in these ways; without any, nothing fails."""
    database.stream.fault = lambda verb: by_verb.get(verb, "")  # type: ignore[attr-defined]


def put(database: ReplicatedDatabase, key: str, size: int = 1) -> None:
    database.write(_put, key, size)


def _put(connection: apsw.Connection, key: str, size: int) -> None:
    content = random.Random(key).randbytes(size)  # which a stream cannot make smaller
    connection.execute("INSERT OR REPLACE INTO document VALUES ('k', ?, ?, 0)", (key, content))


def keys(database: ReplicatedDatabase) -> list[str]:
    return database.read(lambda connection: [key for (key,) in connection.execute("SELECT key FROM document")])


def test_a_former_owner_is_fenced(log: Log) -> None:
    """Its next commit fails, it learns once that it has lost the store, and its commit is nowhere."""
    former = log.open("a", founding=True)
    put(former, "mine")
    owner = log.open("b")
    assert owner.claim() == 2
    for _ in range(2):
        with pytest.raises(StoreFailed):
            put(former, "late")
    with pytest.raises(StoreLost, match="node b owns stream LOG now"):
        keys(former)
    assert log.lost == 1
    put(owner, "theirs")
    assert keys(owner) == ["mine", "theirs"]


@pytest.mark.parametrize(
    ("fault", "stored"),
    [("lost answer", True), ("refused but stored", True), ("lost request", False), ("late", False)],
)
def test_a_doubt_ends_with_the_truth(log: Log, fault: str, stored: bool) -> None:
    """A commit without an answer is unknown; when the doubt ends it is there or not, and nothing is stored later."""
    owner = log.open("a", founding=True)
    faults(owner, publish=fault)
    with pytest.raises(StoreFailed):
        put(owner, "unknown")
    assert owner.in_doubt
    faults(owner)
    assert keys(owner) == ["unknown"] * stored
    log.server.apply_late()
    put(owner, "next")
    assert keys(owner) == ["next"] + ["unknown"] * stored


def test_verbs_fail_at_once_in_doubt(log: Log) -> None:
    """With threads nothing waits for the end of a doubt, which comes by itself when the stream answers again."""
    owner = log.open("a", founding=True, threaded=True)
    faults(owner, publish="lost request", state="unreachable")
    with pytest.raises(StoreFailed):
        put(owner, "one")
    before = log.server.published
    for verb in (lambda: put(owner, "two"), lambda: keys(owner)):
        with pytest.raises(StoreFailed):
            verb()
    assert log.server.published == before
    faults(owner)
    owner.await_certainty()
    put(owner, "three")
    assert keys(owner) == ["three"]


def test_a_doubt_ends_though_the_file_was_closed(log: Log) -> None:
    """SQLite may fail as well, when it undoes the commit: the copy is opened again and brought up to date."""
    owner = log.open("a", founding=True)
    faults(owner, publish="lost answer")
    with pytest.raises(StoreFailed):
        put(owner, "one")
    owner._disconnect()
    faults(owner)
    assert keys(owner) == ["one"]


def test_an_unexpected_sequence_stops_the_owner(log: Log) -> None:
    """An acknowledgement elsewhere means that the stream is not what it was."""
    owner = log.open("a", founding=True)
    faults(owner, publish="wrong sequence")
    with pytest.raises(StoreLost, match="acknowledged sequence"):
        put(owner, "one")
    faults(owner)
    with pytest.raises(StoreLost):
        keys(owner)


def test_a_restarted_process_resumes_its_claim(log: Log) -> None:
    """A commit that was acknowledged after the process died is in its file then."""
    owner = log.open("a", founding=True)
    faults(owner, publish="lost answer")
    with pytest.raises(StoreFailed):
        put(owner, "one")
    owner.close()
    again = log.open("a")
    again.resume()
    assert keys(again) == ["one"]


def test_a_process_cannot_resume_what_another_claimed(log: Log) -> None:
    """A directory without a claim is refused too."""
    log.open("a", founding=True).close()
    log.open("b").claim()
    again = log.open("a")
    with pytest.raises(StoreLost, match="node b owns"):
        again.resume()
    with pytest.raises(StoreLost, match="no node has claimed"):
        log.open("c").resume()


def test_a_large_commit_is_whole_or_absent(log: Log) -> None:
    """It is several messages; if the last one is missing, none of it is there, here or on another node."""
    owner = log.open("a", founding=True)
    put(owner, "large", 20_000)
    assert log.server.published > 5
    answers = iter(["", "", "lost request"])
    owner.stream.fault = lambda verb: next(answers, "") if verb == "publish" else ""  # type: ignore[attr-defined]
    with pytest.raises(StoreFailed):
        put(owner, "cut", 20_000)
    assert keys(owner) == ["large"]
    put(owner, "next")
    other = log.open("b")
    other.claim()
    assert keys(other) == ["large", "next"]


def test_a_compaction_bounds_the_stream(log: Log) -> None:
    """A stream in which rows are replaced does not grow, and a new node loads everything from its rest."""
    owner = log.open("a", founding=True, make=CompactingDatabase)
    for n in range(300):
        put(owner, f"key{n % 7}", 500)
        owner.checkpoint()
    assert log.server.size < 40_000
    assert min(log.server.messages) > 250
    other = log.open("b")
    other.claim()
    assert keys(other) == [f"key{n}" for n in range(7)]


@pytest.mark.parametrize(
    ("fill", "wanted"),
    [
        (Fill(40 * MB, 1000 * MB, 1 * MB), True),
        (Fill(30 * MB, 1000 * MB, 1 * MB), False),
        (Fill(100 * MB, 1000 * MB, 50 * MB), False),
        (Fill(600 * MB, 1000 * MB, 300 * MB), True),
        (Fill(600 * MB, 1000 * MB, 500 * MB), False),
        (Fill(600 * MB, 1000 * MB, 500 * MB, share=0.5), True),
        (Fill(), False),
    ],
)
def test_when_a_compaction_is_worth_it(fill: Fill, wanted: bool) -> None:
    """When most of a stream is old, or it is half full and a third of it is old."""
    assert fill.wants_compaction is wanted


def test_the_share_of_compressed_commits() -> None:
    """It follows the commits by their weight, never exceeds the size of their rows, and ignores empty commits."""
    fill = Fill().after(0, 0)
    assert fill.share == 1.0
    for _ in range(1000):
        fill = fill.after(MB // 4, MB)
    assert 0.25 <= fill.share < 0.26
    assert fill.after(10, 1).share > fill.share
    assert fill.after(10**9, 10**8).share == 1.0


def test_rows_of_large_commits_are_compressed() -> None:
    """Small ones stay as they are; both are read, whatever version of zstd wrote them."""
    small, large = [[1, [7, b"x"]]], [[1, [n, b"x" * 100]] for n in range(100)]
    assert pack_rows(small)[0] == 0x91
    packed = pack_rows(large)
    assert len(packed) < 1000 < plain_size(packed)
    assert plain_size(pack_rows(small)) == len(pack_rows(small))
    assert unpack_rows(packed) == large
    assert unpack_rows(pack_rows(small)) == small
    assert unpack_rows(STORED) == [[1, [7, "text"]]]


def test_an_idle_owner_compacts_a_stream_that_fills_up(log: Log) -> None:
    """It needs no commits of the roles for that: its own checkpoints put the rows again."""
    owner = log.open("a", founding=True)
    for n in range(300):
        put(owner, f"key{n % 7}", 2000)
    log.server.max_bytes = 3 * log.server.size // 2
    owner.resume()
    before = log.server.size
    for _ in range(5):
        owner.checkpoint()
    assert log.server.size < before // 2
    other = log.open("b")
    other.claim()
    assert keys(other) == [f"key{n}" for n in range(7)]


def test_a_copy_of_another_boot_is_loaded_again(log: Log) -> None:
    """It was not synced when the machine stopped."""
    owner = log.open("a", founding=True)
    put(owner, "one")
    owner.close()
    with contextlib.closing(apsw.Connection(str(owner.path))) as file:
        file.execute("UPDATE replica SET boot = 'before'; UPDATE document SET key = 'torn'")
    again = log.open("a")
    assert again.note.sequence == 0
    again.claim()
    assert keys(again) == ["one"]


def test_a_copy_that_differs_is_loaded_again(log: Log) -> None:
    """A claim reads the copy whole, and believes the stream."""
    owner = log.open("a", founding=True)
    put(owner, "one")
    owner.close()
    with contextlib.closing(apsw.Connection(str(owner.path))) as file:
        file.execute("UPDATE document SET key = 'other'")
    again = log.open("a")
    again.claim()
    assert keys(again) == ["one"]


def indexes(path: Path) -> list[str]:
    with contextlib.closing(apsw.Connection(str(path))) as file:
        return [name for (name,) in file.execute("SELECT name FROM sqlite_schema WHERE type = 'index' ORDER BY name")]


def test_a_load_ends_with_all_indexes(log: Log) -> None:
    """They are made after the rows. A load that the stream breaks off keeps its rows, and the next one goes on."""
    owner = log.open("a", founding=True)
    put(owner, "one")
    node, reads = log.open("b"), iter(["", "unreachable"])
    node.stream.fault = lambda verb: next(reads, "") if verb == "read" else ""  # type: ignore[attr-defined]
    with pytest.raises(StoreFailed, match="cannot be read"):
        node.catch_up()
    assert keys(node) == ["one"]
    assert indexes(node.path) == indexes(owner.path) and not spoilt_file(node.path).exists()
    put(owner, "two")
    node.claim()
    assert keys(node) == ["one", "two"]


def test_a_load_that_was_killed_begins_anew(tmp_path: Path) -> None:
    """Its file may lack indexes: it is thrown away, whatever it has."""
    both = streams()
    founder, node = backend(tmp_path, both, "a"), backend(tmp_path, both, "b")

    def kill(verb: str) -> str:
        if verb == "read" and spoilt_file(tmp_path / "b" / LOG.file).exists():
            shutil.copytree(tmp_path / "b", tmp_path / "killed", dirs_exist_ok=True)
        return ""

    async def story() -> None:
        await founder.found()
        both.log.fault = kill  # type: ignore[attr-defined]
        await node.prepare()
        both.log.fault = sound  # type: ignore[attr-defined]
        assert indexes(tmp_path / "killed" / LOG.file) != indexes(tmp_path / "a" / LOG.file)
        await backend(tmp_path, both, "killed").prepare()

    asyncio.run(story())
    assert indexes(tmp_path / "killed" / LOG.file) == indexes(tmp_path / "a" / LOG.file)


def test_a_standby_copies_its_wal_into_its_file(log: Log) -> None:
    """However much it applies, its disk holds the rows, and no record of all that they were."""
    owner, standby = log.open("a", founding=True), log.open("b")
    for number in range(24):
        put(owner, "same", MB + number)
        standby.catch_up()
    assert standby.path.with_name("log.db-wal").stat().st_size < 12 * MB


def test_a_stream_that_lost_messages_is_refused(log: Log) -> None:
    """Its content would not be what was acknowledged: no node owns it."""
    owner = log.open("a", founding=True)
    for n in range(5):
        put(owner, f"key{n}")
    del log.server.messages[4]
    with pytest.raises(StoreDamaged):
        log.open("b").claim()


@pytest.mark.parametrize("fault", ["restarted", "made again", "missing"])
def test_a_stream_that_is_not_the_one_that_was_seen(log: Log, fault: str) -> None:
    """A node that has seen it refuses one that is shorter or younger, whatever its copy says."""
    owner = log.open("a", founding=True)
    put(owner, "one")
    owner.close()
    if fault == "restarted":
        log.server.restart_at_zero()
    elif fault == "made again":
        log.server.created += 1
    else:
        log.server.missing = True
    for path in owner.path.parent.glob("log.db*"):
        path.unlink()
    again = log.open("a")
    with pytest.raises(StoreFailed, match=r"shorter|made again|no stream"):
        again.claim()
    assert log.server.last in (0, owner.note.sequence)


def test_a_marker_that_cannot_be_read(log: Log) -> None:
    """It is refused by name."""
    owner = log.open("a", founding=True)
    owner.close()
    owner.path.with_suffix(".stream.json").write_bytes(b"{")
    with pytest.raises(SettingsError, match=r"log\.stream\.json"):
        log.open("a")


def test_a_full_stream_keeps_room_for_finishing(log: Log) -> None:
    """Above nine tenths only verbs that finish work are published, until there is room again."""
    owner = log.open("a", founding=True)
    for n in range(20):
        put(owner, f"key{n}", 2000)
    log.server.max_bytes = int(log.server.size / 0.95)
    owner.resume()
    with pytest.raises(StoreFailed, match="is full"):
        put(owner, "two")
    owner.drain(lambda connection: connection.execute("DELETE FROM document"))
    log.server.max_bytes = MB
    put(owner, "three")
    assert keys(owner) == ["three"]


def backend(tmp_path: Path, streams: FakeStreams, node: str, lost: Any = lambda: None) -> ReplicatedBackend:
    return ReplicatedBackend(SqliteOptions(tmp_path / node, None), streams, node, lost=lost)


def streams() -> FakeStreams:
    return FakeStreams(FakeServer("LOG"), FakeServer("LANES"))


def test_a_standby_follows_and_takes_over(tmp_path: Path) -> None:
    """It applies the owner's commits as they come; after its claim it has them all, and the former owner none more."""
    both = streams()
    owner, standby = backend(tmp_path, both, "a"), backend(tmp_path, both, "b")

    async def story() -> None:
        await owner.found()
        await standby.prepare()
        following = asyncio.create_task(standby.follow())
        async with owner.open_both(CLOCK) as stores:
            await stores.registry.put_topic(new_topic("orders"))
            wanted = owner.views()[0].applied
            while not standby.views() or standby.views()[0].applied < wanted:
                await asyncio.sleep(0)
            following.cancel()
            await asyncio.wait([following])
            assert await standby.claim() == 2
            with pytest.raises(StoreFailed):
                await stores.registry.put_topic(new_topic("bills"))
        async with standby.open_both(CLOCK) as stores:
            assert [topic.name for topic in await stores.registry.topics("", 9)] == ["orders"]

    asyncio.run(story())


def test_a_spoilt_copy_is_replaced(tmp_path: Path) -> None:
    """A damaged row of a copy is not set aside, for the stream has it whole: the node gives up and loads it again."""
    lost: list[int] = []
    node = backend(tmp_path, streams(), "a", lambda: lost.append(1))

    async def story() -> None:
        await node.found()
        async with node.open_both(CLOCK) as stores:
            topic = await stores.registry.put_topic(new_topic("orders"))
            await stores.log.append([segment(topic.id, b"body")])
            assert isinstance(stores.log, SqliteLog)
            with contextlib.closing(apsw.Connection(str(stores.log.database.path))) as file:
                file.execute("UPDATE entry SET body = x'00' WHERE kind = 1")
            with pytest.raises(StoreLost, match="is spoilt"):
                await stores.log.read(topic.id, 1, MB)
            assert lost and spoilt_file(stores.log.database.path).exists()
        await node.prepare()
        await node.claim()
        async with node.open_both(CLOCK) as stores:
            assert [entry.body for entry in await stores.log.read(topic.id, 1, MB)] == [b"", b"body"]

    asyncio.run(story())


def test_an_embedded_store_is_no_copy(tmp_path: Path) -> None:
    """Neither backend takes the directory of the other: one would throw it away, the other would not publish."""
    both = streams()

    async def story() -> None:
        await SqliteBackend(SqliteOptions(tmp_path / "embedded", None)).prepare()
        with pytest.raises(SettingsError, match="is an embedded store"):
            await backend(tmp_path, both, "embedded").prepare()
        await backend(tmp_path, both, "copy").found()
        with pytest.raises(SettingsError, match="copies of a cluster's stores"):
            await SqliteBackend(SqliteOptions(tmp_path / "copy", None)).prepare()

    asyncio.run(story())


def test_an_embedded_store_founds_a_cluster(tmp_path: Path) -> None:
    """Its content is the beginning of the streams."""
    both = streams()

    async def story() -> None:
        embedded = SqliteBackend(SqliteOptions(tmp_path / "a", None))
        await embedded.prepare()
        async with embedded.open_both(CLOCK) as stores:
            await stores.registry.put_topic(new_topic("orders"))
            await stores.ledger.open_lane(1, 1, stores.log.id, 1)
            id = stores.log.id
        await backend(tmp_path, both, "a").found()
        other = backend(tmp_path, both, "b")
        await other.prepare()
        await other.claim()
        async with other.open_both(CLOCK) as stores:
            assert stores.log.id == id
            assert [topic.name for topic in await stores.registry.topics("", 9)] == ["orders"]
            assert len(await stores.ledger.lanes()) == 1
            assert isinstance(stores.ledger, SqliteLedger)

    asyncio.run(story())


def test_the_room_of_a_stream_counts(tmp_path: Path) -> None:
    """Intake may fill four fifths of its stream, dispatch nine tenths of its own, whatever the volume has.

    A stream without a bound leaves it to the volume.
    """
    both = streams()
    node = backend(tmp_path, both, "a")

    async def story() -> None:
        await node.found()
        async with node.open_both(CLOCK) as stores:
            await stores.registry.put_document("kind", "key", random.Random(1).randbytes(40_000))
            for id in range(1, 100):
                await stores.ledger.open_lane(id, 1, stores.log.id, 1)
        for stream in (both.log, both.lanes):
            stream._server.max_bytes = 10 * stream._server.size // 9
        async with node.open_both(CLOCK) as stores:
            assert stores.measure is not None and stores.room is not None
            shares = node._shares()
            space = stores.measure()
            assert space.stream is not None and not space.stream.fits(1) and space.fits(1 * MB, shares)
            assert stores.room().free == stores.room().floor
            for stream in (both.log, both.lanes):
                stream._server.max_bytes = 100 * MB
        async with node.open_both(CLOCK) as stores:
            assert stores.measure is not None
            stream = stores.measure().stream
            assert stream is not None and stream.fits(1 * MB) and stream.bound == 80 * MB
            told: list[str] = []
            DiskWatch(stores.measure, journal=lambda event, **_: told.append(event)).look()
            assert "stream.low" not in told
        for stream in (both.log, both.lanes):
            stream._server.max_bytes = 0
        async with node.open_both(CLOCK) as stores:
            assert stores.measure is not None and stores.room is not None
            assert stores.measure().stream is None and stores.room().free > stores.room().floor

    asyncio.run(story())
