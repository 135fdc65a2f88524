"""Backup beside a running server, and restore."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest

from recapito.domain.delivery.cursor import Cursor
from recapito.errors import SettingsError
from recapito.stores.sqlite import SqliteLedger, SqliteLog
from recapito.stores.sqlite.files.backup import backup, restore
from recapito.stores.sqlite.files.lock import lock_role, trimming_allowed
from tests.stores.values import new_subscription, new_topic, parked, segment, settlement


class Server:
    """Both stores of a data directory, at work."""

    def __init__(self, directory: Path, run: Any) -> None:
        self.run = run
        self.directory = directory
        self.log = SqliteLog.open(directory)
        self.ledger = SqliteLedger.open(directory)

    def close(self) -> None:
        self.run(self.log.close())
        self.run(self.ledger.close())

    def shows(self) -> Any:
        run = self.run
        lanes = run(self.ledger.lanes())
        return (
            self.log.id,
            run(self.log.news(0)),
            run(self.log.topics("", 9)),
            run(self.log.subscriptions(None, 0, 9)),
            run(self.log.read(1, 2, 1 << 20)),
            lanes,
            [run(self.ledger.parked(lane.id, 99)) for lane in lanes],
        )


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data directory."""
    path = tmp_path / "data"
    path.mkdir()
    return path


@pytest.fixture
def server(data: Path, run: Any) -> Iterator[Server]:
    """A server with a topic, a subscription, and a lane that has come some way."""
    server = Server(data, run)
    run(server.log.put_topic(new_topic()))
    run(server.log.put_subscription(new_subscription(1)))
    run(server.log.append([segment(1, b"event %d" % n) for n in range(5)]))
    run(server.log.trim(1, 2))
    lane = run(server.ledger.open_lane(1, 1, server.log.id, 2))
    cursor = Cursor((4, 0), (((5, 0), (6, 0)),))
    run(server.ledger.settle([settlement(lane, cursor=cursor, matched=1, park=[parked(2)])]))
    yield server
    server.close()


def test_a_backup_of_a_running_server_is_restored(server: Server, tmp_path: Path, run: Any) -> None:
    """Everything stored when the backup was taken is there again; later events are not."""
    lines: list[str] = []
    before = server.shows()
    backup(server.directory, tmp_path / "copy", lines.append)
    run(server.log.append([segment(1, b"later")]))
    assert [line.split(":")[0] for line in lines] == [
        "copying dispatch.db",
        "copied dispatch.db",
        "copying log.db",
        "copied log.db",
    ]
    restore(tmp_path / "copy", tmp_path / "restored")
    restored = Server(tmp_path / "restored", run)
    assert restored.shows() == before
    assert run(restored.log.append([segment(1)])) == [8]
    restored.close()


def test_a_copy_is_for_its_owner_alone(server: Server, tmp_path: Path) -> None:
    """It holds the keys of topics."""
    backup(server.directory, tmp_path / "copy", lambda line: None)
    assert {path.name for path in (tmp_path / "copy").iterdir()} == {"log.db", "dispatch.db"}
    for path in (tmp_path / "copy", *(tmp_path / "copy").iterdir()):
        assert path.stat().st_mode & 0o077 == 0


def test_nothing_is_trimmed_while_it_is_taken(server: Server, tmp_path: Path) -> None:
    """The janitor sees that it must wait, and may go on afterwards."""
    seen: list[bool] = []

    def look(line: str) -> None:
        with trimming_allowed(server.directory) as allowed:
            seen.append(allowed)

    backup(server.directory, tmp_path / "copy", look)
    look("")
    assert seen == [False, False, False, False, True]


def test_cursors_lie_within_the_log_though_both_move(server: Server, tmp_path: Path, run: Any) -> None:
    """A backup that is taken while events are published and delivered can be restored."""
    stop = threading.Event()

    async def work() -> None:
        while not stop.is_set():
            [position] = await server.log.append([segment(1, b"x" * 500)])
            lane = await server.ledger.lane(1)
            assert lane is not None
            cursor = Cursor((position + 1, 0))
            await server.ledger.settle([settlement(lane, cursor=cursor, matched=1, delivered=1)])

    worker = threading.Thread(target=lambda: asyncio.run(work()))
    worker.start()
    try:
        for n in range(5):
            backup(server.directory, tmp_path / f"copy{n}", lambda line: None)
    finally:
        stop.set()
        worker.join()
    for n in range(5):
        restore(tmp_path / f"copy{n}", tmp_path / f"restored{n}")


@pytest.mark.parametrize("verb", ["backup", "restore"])
def test_what_is_there_is_not_overwritten(server: Server, tmp_path: Path, verb: str) -> None:
    """A directory that holds something is refused, by the name of what it holds."""
    backup(server.directory, tmp_path / "copy", lambda line: None)
    target = tmp_path / "full"
    target.mkdir()
    (target / "mine.txt").write_text("mine")
    with pytest.raises(SettingsError, match=r"not empty \(mine\.txt\)"):
        if verb == "backup":
            backup(server.directory, target, lambda line: None)
        else:
            restore(tmp_path / "copy", target)
    assert [path.name for path in target.iterdir()] == ["mine.txt"]


def test_a_directory_in_use_is_not_restored_to(server: Server, tmp_path: Path) -> None:
    """A server that has just been started on an empty directory keeps it."""
    backup(server.directory, tmp_path / "copy", lambda line: None)
    (tmp_path / "busy").mkdir()
    with lock_role(tmp_path / "busy", "dispatch"), pytest.raises(SettingsError, match="in use by process"):
        restore(tmp_path / "copy", tmp_path / "busy")
    assert not list((tmp_path / "busy").glob("*.db"))


def test_there_must_be_something_to_copy(tmp_path: Path) -> None:
    """An empty data directory has no backup, and an empty backup is not restored."""
    (tmp_path / "data").mkdir()
    with pytest.raises(SettingsError, match=r"dispatch\.db does not exist"):
        backup(tmp_path / "data", tmp_path / "copy", lambda line: None)
    with pytest.raises(SettingsError, match=r"log\.db does not exist: .* is not a complete backup"):
        restore(tmp_path / "copy", tmp_path / "restored")


def spoil(path: Path, sql: str) -> None:
    with closing(apsw.Connection(str(path))) as connection:
        connection.execute(sql)


@pytest.mark.parametrize(
    ("file", "sql", "says"),
    [
        ("dispatch.db", """UPDATE lane SET checksum = NULL, cursor = '[[99,0],[]]'""", "lane 1 is at position 99"),
        ("dispatch.db", """UPDATE lane SET checksum = NULL, cursor = '[[4,0],[[[5,0],[9,0]]]]'""", "position 4 to 9"),
        ("dispatch.db", """UPDATE lane SET checksum = NULL, cursor = '[[1,0],[]]'""", "lane 1 is at position 1"),
        ("dispatch.db", "UPDATE lane SET log_id = 'another'", "another log"),
        ("log.db", "PRAGMA application_id = 5", "not recapito's log file"),
        ("log.db", "PRAGMA user_version = 50", "newer recapito"),
    ],
)
def test_a_backup_that_does_not_fit_is_refused(server: Server, tmp_path: Path, file: str, sql: str, says: str) -> None:
    """A cursor outside its log, another log, another program's file: nothing is restored, and it is said why."""
    backup(server.directory, tmp_path / "copy", lambda line: None)
    spoil(tmp_path / "copy" / file, sql)
    with pytest.raises(SettingsError, match=says):
        restore(tmp_path / "copy", tmp_path / "restored")
    assert not list((tmp_path / "restored").glob("*.db*"))


def test_a_damaged_backup_is_refused(server: Server, tmp_path: Path) -> None:
    """A torn page is found before anything is copied."""
    backup(server.directory, tmp_path / "copy", lambda line: None)
    path = tmp_path / "copy" / "log.db"
    content = bytearray(path.read_bytes())
    content[3 * 4096 : 4 * 4096] = b"\xff" * 4096
    path.write_bytes(content)
    with pytest.raises(SettingsError, match=r"log\.db is damaged"):
        restore(tmp_path / "copy", tmp_path / "restored")


def test_a_lane_whose_topic_is_gone_is_no_trouble(server: Server, tmp_path: Path, run: Any) -> None:
    """Between the two copies a subscription may have been forgotten with its topic."""
    run(server.log.delete_topic(1))
    run(server.log.forget(1))
    backup(server.directory, tmp_path / "copy", lambda line: None)
    restore(tmp_path / "copy", tmp_path / "restored")


@pytest.mark.parametrize("file", ["log.db", "dispatch.db"])
def test_a_backup_of_an_older_schema_is_restored(server: Server, tmp_path: Path, file: str) -> None:
    """The next server migrates it; restoring only looks."""
    backup(server.directory, tmp_path / "copy", lambda line: None)
    connection = apsw.Connection(str(tmp_path / "copy" / file))
    connection.pragma("user_version", connection.pragma("user_version") - 1)
    connection.close()
    restore(tmp_path / "copy", tmp_path / "restored")
    assert (tmp_path / "restored" / file).exists()


@pytest.mark.parametrize(("beyond", "fits"), [(1, True), (2, False)])
def test_a_cursor_may_lie_just_behind_the_log(
    server: Server, tmp_path: Path, run: Any, beyond: int, fits: bool
) -> None:
    """A lane that has passed everything waits at the next position, which is not there yet; further is wrong."""
    end = run(server.log.end(1))
    lane = run(server.ledger.lane(1))
    run(server.ledger.settle([settlement(lane, cursor=Cursor((end + beyond, 0)))]))
    backup(server.directory, tmp_path / "copy", lambda line: None)
    if fits:
        restore(tmp_path / "copy", tmp_path / "restored")
        return
    with pytest.raises(SettingsError):
        restore(tmp_path / "copy", tmp_path / "restored")
