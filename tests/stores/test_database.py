"""One file and its connection: readers beside the writer, the length of the WAL, failures."""

import asyncio
import io
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from recapito.domain import limits
from recapito.errors import SettingsError, StoreFailed
from recapito.stores.sqlite import SqliteLedger, SqliteLog
from recapito.stores.sqlite.files.volume import Ballast
from tests.stores.values import new_topic, parked, segment, settlement

ROOT = Path(__file__).parents[2]
LARGE = 1 << 30


@pytest.fixture
def log(tmp_path: Path, run: Any) -> Iterator[SqliteLog]:
    """A log in its own thread."""
    log = SqliteLog.open(tmp_path)
    yield log
    run(log.close())


def test_a_reader_sees_what_is_committed(log: SqliteLog, tmp_path: Path, run: Any) -> None:
    """The other role reads the same file, at once, and has the log's id."""
    reader = SqliteLog.open_reader(tmp_path)
    assert reader.id == log.id
    assert run(reader.news(0)).mark == 0
    topic = run(log.put_topic(new_topic()))
    assert run(reader.topic("orders")) == topic
    run(log.append([segment(topic.id, b"event")]))
    assert run(reader.read(topic.id, 2, 100))[0].body == b"event"
    assert run(reader.news(0)) == run(log.news(0))
    run(reader.close())


def test_a_reader_does_not_write(log: SqliteLog, tmp_path: Path, run: Any) -> None:
    """A verb that writes is a mistake of ours, and said to be."""
    reader = SqliteLog.open_reader(tmp_path)
    with pytest.raises(io.UnsupportedOperation):
        run(reader.put_topic(new_topic()))
    run(reader.close())


def test_a_reader_outlives_the_writer(tmp_path: Path, run: Any) -> None:
    """When the writer is started again the reader goes on, without being told."""
    ledger = SqliteLedger.open(tmp_path)
    reader = SqliteLedger.open_reader(tmp_path)
    run(ledger.open_lane(1, 1, "log", 1))
    run(ledger.close())
    assert len(run(reader.lanes())) == 1
    ledger = SqliteLedger.open(tmp_path)
    run(ledger.open_lane(2, 1, "log", 1))
    assert len(run(reader.lanes())) == 2
    run(reader.close())
    run(ledger.close())


def test_reading_does_not_block_writing(log: SqliteLog, tmp_path: Path, run: Any) -> None:
    """A reader in the middle of a read keeps its view, and commits go on beside it."""
    topic = run(log.put_topic(new_topic())).id
    reader = SqliteLog.open_reader(tmp_path)

    def slow_read(connection: Any) -> tuple[int, int]:
        count = "SELECT count(*) FROM entry"
        before = connection.execute(count).get
        run(log.append([segment(topic)]))
        return before, connection.execute(count).get

    assert reader.database.read(slow_read) == (1, 1)
    assert run(reader.end(topic)) == 2
    run(reader.close())


def test_the_wal_is_copied_when_it_has_grown(log: SqliteLog, tmp_path: Path, run: Any) -> None:
    """However much is written, the WAL stays near its limit and is used again."""
    topic = run(log.put_topic(new_topic())).id
    body = b"x" * limits.MB
    for _ in range(40):
        run(log.append([segment(topic, body)]))
    assert (tmp_path / "log.db-wal").stat().st_size < 2 * limits.WAL_CHECKPOINT_BYTES
    assert (tmp_path / "log.db").stat().st_size > 30 * limits.MB


def test_a_long_read_does_not_lose_the_wal(log: SqliteLog, tmp_path: Path, run: Any) -> None:
    """While a reader reads, the WAL only grows; after that it is used again and shortened."""
    topic = run(log.put_topic(new_topic())).id
    reader = SqliteLog.open_reader(tmp_path)
    body = b"x" * limits.MB

    def read_for_long(connection: Any) -> None:
        connection.execute("SELECT count(*) FROM entry").fetchall()
        for _ in range(24):
            run(log.append([segment(topic, body)]))

    reader.database.read(read_for_long)
    wal = tmp_path / "log.db-wal"
    assert wal.stat().st_size > 20 * limits.MB
    for _ in range(12):
        run(log.append([segment(topic, body)]))
    assert wal.stat().st_size <= limits.WAL_KEPT_BYTES
    run(reader.close())


def test_trimmed_room_counts_as_free(log: SqliteLog, tmp_path: Path, run: Any) -> None:
    """Pages of the file that hold nothing are room for what comes, until something comes."""
    topic = run(log.put_topic(new_topic())).id
    run(log.append([segment(topic, b"x" * 8 * limits.MB)]))
    run(log.trim(topic, 3))
    run(log.news(0))
    pages = log.database.read(lambda connection: connection.pragma("freelist_count"))
    assert pages * limits.LOG_PAGE_BYTES > 7 * limits.MB
    assert 7 * limits.MB < log.reusable < 9 * limits.MB
    run(log.append([segment(topic, b"x" * 3 * limits.MB)]))
    assert log.reusable < 2 * limits.MB


def test_a_large_topic_goes_slice_by_slice(log: SqliteLog, run: Any) -> None:
    """Deleting a topic with a long log is one short commit; its entries go bit by bit behind later calls."""
    doomed, other = (run(log.put_topic(new_topic(name))).id for name in ("doomed", "other"))
    run(log.append([segment(doomed) for _ in range(limits.TRIM_SLICE * 3)]))
    entries = lambda: log.database.read(lambda c: c.execute("SELECT count(*) FROM entry WHERE topic = 1").get)  # noqa: E731
    run(log.delete_topic(doomed))
    assert run(log.end(doomed)) == 0
    for _ in range(10):
        run(log.append([segment(other)]))
    assert entries() == 0


def test_what_a_crash_left_is_swept_up(tmp_path: Path, run: Any) -> None:
    """Entries of a topic that is gone are removed after a restart too."""
    log = SqliteLog.open(tmp_path, threaded=False)
    topic = run(log.put_topic(new_topic())).id
    run(log.append([segment(topic) for _ in range(limits.TRIM_SLICE * 2)]))
    log.database.close()
    log = SqliteLog.open(tmp_path, threaded=False)
    run(log.delete_topic(topic))
    log.database.close()
    log = SqliteLog.open(tmp_path, threaded=False)
    for _ in range(6):
        run(log.topics("", 1))
    assert log.database.read(lambda connection: connection.execute("SELECT count(*) FROM entry").get) == 0
    run(log.close())


def test_a_failure_is_told_and_the_file_is_opened_again(tmp_path: Path, run: Any, journal: Any) -> None:
    """A statement that fails is a StoreFailed that names the file; the next call is served from what is stored."""
    log = SqliteLog.open(tmp_path, threaded=False, journal=journal)
    run(log.put_topic(new_topic()))
    with pytest.raises(StoreFailed, match=r"log\.db"):
        log.database.write(lambda connection: connection.execute("INSERT INTO nowhere VALUES (1)"))
    assert journal.events == ["store.failed", "store.reopened"]
    assert run(log.topic("orders")) is not None
    run(log.close())


def test_what_is_refused_leaves_the_file_open(tmp_path: Path, run: Any, journal: Any) -> None:
    """A KeyError rolls back and is no failure of the store."""
    log = SqliteLog.open(tmp_path, threaded=False, journal=journal)
    with pytest.raises(KeyError):
        run(log.append([segment(1)]))
    assert journal.events == []
    run(log.close())


@pytest.mark.parametrize("in_its_place", ["nothing", "an empty file", "a directory"])
def test_a_volume_that_is_lost(tmp_path: Path, run: Any, in_its_place: str) -> None:
    """A new file is not made in place of the lost one: every call fails until it is back, and then all is well."""
    data, elsewhere = tmp_path / "data", tmp_path / "elsewhere"
    data.mkdir()
    log = SqliteLog.open(data, threaded=False)
    run(log.put_topic(new_topic()))

    def lose_volume(connection: Any) -> None:
        data.rename(elsewhere)
        data.mkdir()
        if in_its_place == "an empty file":
            (data / "log.db").touch()
        elif in_its_place == "a directory":
            (data / "log.db").mkdir()
        connection.execute("this fails")

    with pytest.raises(StoreFailed):
        log.database.write(lose_volume)
    for _ in range(2):
        with pytest.raises(StoreFailed, match=r"log\.db cannot be opened"):
            run(log.topics("", 1))
        with pytest.raises(StoreFailed, match=r"log\.db cannot be opened"):
            run(log.append([segment(1)]))
    shutil.rmtree(data)
    elsewhere.rename(data)
    assert len(run(log.topics("", 1))) == 1
    run(log.close())


@pytest.mark.parametrize("in_its_place", ["nothing", "a copy"])
def test_a_file_that_was_removed_is_noticed(log: SqliteLog, tmp_path: Path, in_its_place: str) -> None:
    """The file must be where it was opened, and be that very file."""
    assert log.database.in_place
    (tmp_path / "log.db").rename(tmp_path / "elsewhere")
    if in_its_place == "a copy":
        shutil.copyfile(tmp_path / "elsewhere", tmp_path / "log.db")
    assert not log.database.in_place
    (tmp_path / "elsewhere").rename(tmp_path / "log.db")
    assert log.database.in_place


@pytest.mark.parametrize("threaded", [True, False])
def test_a_closed_store_stays_closed(tmp_path: Path, run: Any, threaded: bool) -> None:
    """A call after closing is an error, not a wait and not a second opening."""
    log = SqliteLog.open(tmp_path, threaded=threaded)
    run(log.close())
    with pytest.raises((StoreFailed, RuntimeError), match="closed"):
        run(log.topics("", 1))


def test_opening_is_refused_with_a_name(tmp_path: Path) -> None:
    """An obstacle to the first opening is a settings error."""
    (tmp_path / "log.db").mkdir()
    with pytest.raises(SettingsError, match=r"log\.db"):
        SqliteLog.open(tmp_path)


def test_the_ballast_comes_with_the_files(tmp_path: Path, run: Any) -> None:
    """It is taken after a file is made, and both roles share it."""
    ballast = Ballast(tmp_path, 1 << 20)
    log = SqliteLog.open(tmp_path, ballast=ballast)
    ledger = SqliteLedger.open(tmp_path, ballast=Ballast(tmp_path, 1 << 20))
    assert ballast.held
    run(log.close())
    run(ledger.close())


def test_objects_say_what_they_are(log: SqliteLog, tmp_path: Path, run: Any) -> None:
    """A repr names the file and its state."""
    assert "log.db open" in repr(log)
    reader = SqliteLog.open_reader(tmp_path)
    assert "log.db reading" in repr(reader)
    run(reader.close())
    assert "log.db closed" in repr(reader)
    assert "0 bytes, 8 are wanted" in repr(Ballast(tmp_path, 8))


KILLED = """
import asyncio, sys
from pathlib import Path
from recapito.stores.sqlite import SqliteLedger, SqliteLog
from tests.stores.values import *

async def main(directory):
    log, ledger = SqliteLog.open(directory), SqliteLedger.open(directory)
    topic = await log.topic("orders") or await log.put_topic(new_topic())
    lane = await ledger.open_lane(1, topic.id, log.id, 1)
    while True:
        [position] = await log.append([segment(topic.id, b"x" * 2000)])
        await ledger.settle([settlement(lane, matched=1, park=[parked(position)])])
        lane = await ledger.lane(1)
        print(position, flush=True)

asyncio.run(main(Path(sys.argv[1])))
"""


def test_a_killed_process_loses_nothing(tmp_path: Path, run: Any) -> None:
    """Its acknowledged events are there, and of those under way at each kill at most one is not settled."""
    acknowledged = 1
    for kills, count in enumerate((5, 30, 80), start=1):
        with subprocess.Popen(
            [sys.executable, "-c", KILLED, tmp_path], cwd=ROOT, stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            for _ in range(count):
                acknowledged = int(process.stdout.readline())
            process.send_signal(signal.SIGKILL)
            acknowledged = max([acknowledged, *(int(line) for line in process.stdout if line.endswith("\n"))])
        reader = SqliteLog.open_reader(tmp_path)
        entries = run(reader.read(1, 1, LARGE))
        log, ledger = SqliteLog.open(tmp_path), SqliteLedger.open(tmp_path)
        assert run(log.read(1, 1, LARGE)) == entries
        assert acknowledged <= len(entries) <= acknowledged + 1
        rows = {row.delivery.identity.position for row in run(ledger.parked(1, 1000))}
        assert len({entry.position for entry in entries[1:]} - rows) <= kills
        run(reader.close())
        run(log.close())
        run(ledger.close())


def test_the_loop_is_not_blocked_by_a_commit(tmp_path: Path, run: Any) -> None:
    """While the thread commits a large segment, other tasks of the loop run."""
    log = SqliteLog.open(tmp_path)
    run(log.put_topic(new_topic()))

    async def scenario() -> int:
        turns = 0
        append = asyncio.ensure_future(log.append([segment(1, b"x" * 4 * limits.MB)]))
        while not append.done():
            turns += 1
            await asyncio.sleep(0)
        return turns

    assert run(scenario()) > 1
    run(log.close())


def test_lanes_are_settled_beside_the_other_process(tmp_path: Path, run: Any) -> None:
    """Intake's reader sees cursors move while dispatch settles."""
    ledger = SqliteLedger.open(tmp_path)
    lane = run(ledger.open_lane(1, 1, "log", 1))
    reader = SqliteLedger.open_reader(tmp_path)
    run(ledger.settle([settlement(lane, matched=1, park=[parked(1, due_at=9)])]))
    assert run(reader.lanes()) == run(ledger.lanes())
    assert run(reader.due(1, 9, 1)) == run(ledger.due(1, 9, 1))
    run(reader.close())
    run(ledger.close())
