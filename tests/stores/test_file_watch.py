"""Files that are removed, replaced, cut or overwritten under a running store: no commit into them succeeds."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from recapito.domain import limits
from recapito.errors import StoreFailed
from recapito.stores.sqlite import SqliteLog
from recapito.stores.sqlite.database import Database
from recapito.stores.sqlite.files import damage
from recapito.stores.sqlite.files.connection import DISK, HISTORY, FileMedium
from tests.stores.values import new_topic, segment

EAGER = DISK._replace(checkpoint_bytes=1)


def remove(file: Path) -> None:
    """Take the name from a file."""
    file.unlink()


def replace(file: Path) -> None:
    """Put a copy in the place of a file."""
    shutil.copyfile(file, file.with_suffix(".copy"))
    file.with_suffix(".copy").rename(file)


def cut(file: Path) -> None:
    """Cut a file in half."""
    os.truncate(file, file.stat().st_size // 2)


def overwrite(file: Path) -> None:
    """Write zeros into the middle of a file."""
    with file.open("r+b") as opened:
        opened.seek(file.stat().st_size // 2)
        opened.write(bytes(100))


@pytest.fixture(params=[DISK, EAGER], ids=["in-the-wal", "copied"])
def log(request: pytest.FixtureRequest, tmp_path: Path, run: Any, journal: Any) -> Iterator[SqliteLog]:
    """A log with some segments, which lie in the WAL or were copied into the file."""
    medium: FileMedium = request.param
    opened = SqliteLog.open(tmp_path, threaded=False, medium=medium, journal=journal)
    run(opened.put_topic(new_topic()))
    for _ in range(20):
        run(opened.append([segment(1, b"x" * 5000)]))
    yield opened
    run(opened.close())


@pytest.mark.parametrize("harm", [remove, replace, cut, overwrite])
def test_nothing_is_committed_into_a_file_that_was_harmed(
    log: SqliteLog, tmp_path: Path, run: Any, journal: Any, harm: Callable[[Path], None]
) -> None:
    """The next commit fails, and all that follow. What a person cannot see at a glance is marked."""
    harm(tmp_path / "log.db")
    for _ in range(3):
        with pytest.raises(StoreFailed, match=r"log\.db"):
            run(log.append([segment(1)]))
    assert [sign.file for sign in damage.read_signs(tmp_path)] == ([] if harm is remove else ["log.db"])
    assert journal.events.count("store.suspect") == (0 if harm is remove else 1)
    assert log.database.in_place is (harm in (cut, overwrite))


@pytest.mark.parametrize("harm", [remove, replace, cut])
def test_nothing_is_committed_into_a_wal_that_was_harmed(
    log: SqliteLog, tmp_path: Path, run: Any, harm: Callable[[Path], None]
) -> None:
    """A commit is in the WAL first: without it what was acknowledged is gone."""
    harm(tmp_path / "log.db-wal")
    if harm is cut:
        os.truncate(tmp_path / "log.db-wal", 0)
    if log.database._wal_pages > 1:  # a WAL that begins anew may be as short as it likes
        with pytest.raises(StoreFailed, match=r"log\.db"):
            run(log.append([segment(1)]))
        assert [sign.file for sign in damage.read_signs(tmp_path)] == ["log.db"]


def test_harm_is_found_without_a_commit(log: SqliteLog, tmp_path: Path, run: Any) -> None:
    """The reader of the file leaves the marker; that the file has its name says nothing about its content."""
    cut(tmp_path / "log.db")
    assert log.database.in_place
    with suppress(StoreFailed):
        run(log.end(1))
    assert "it was truncated" in [sign.why for sign in damage.read_signs(tmp_path)]


def test_a_checkpoint_is_no_harm_to_whoever_looks(log: SqliteLog, tmp_path: Path, run: Any) -> None:
    """The file grows and is written by our own checkpoints, whichever thread asks meanwhile whether it is in place."""
    for _ in range(200):
        run(log.append([segment(1, b"x" * 50_000)]))
        assert log.database.in_place
    assert damage.read_signs(tmp_path) == []


def test_a_file_that_is_put_back_serves_again(log: SqliteLog, tmp_path: Path, run: Any) -> None:
    """Nothing is lost with a name that was gone for a while."""
    (tmp_path / "log.db").rename(tmp_path / "elsewhere")
    with pytest.raises(StoreFailed):
        run(log.append([segment(1, b"meanwhile")]))
    (tmp_path / "elsewhere").rename(tmp_path / "log.db")
    position = run(log.append([segment(1, b"last")]))[0]
    assert run(log.read(1, position, limits.MB))[0].body == b"last"
    assert damage.read_signs(tmp_path) == []


def test_our_own_checkpoints_are_no_harm(tmp_path: Path, run: Any) -> None:
    """A store that copies its WAL after every commit suspects nothing."""
    log = SqliteLog.open(tmp_path, threaded=False, medium=EAGER)
    run(log.put_topic(new_topic()))
    for n in range(200):
        run(log.append([segment(1, b"x" * 100 * n)]))
        if n % 10 == 0:
            run(log.trim(1, n))
    run(log.close())
    assert damage.read_signs(tmp_path) == []


def test_a_page_that_cannot_be_read_is_marked(tmp_path: Path, run: Any, journal: Any) -> None:
    """SQLite's word that a file is malformed stays until a person has looked."""
    log = SqliteLog.open(tmp_path, threaded=False)
    run(log.put_topic(new_topic()))
    run(log.append([segment(1, b"x" * 5000) for _ in range(200)]))
    run(log.close())
    content = bytearray((tmp_path / "log.db").read_bytes())
    for page in range(5, len(content) // limits.LOG_PAGE_BYTES):
        content[page * limits.LOG_PAGE_BYTES : page * limits.LOG_PAGE_BYTES + 8] = b"\xff" * 8
    (tmp_path / "log.db").write_bytes(content)
    log = SqliteLog.open(tmp_path, threaded=False, journal=journal)
    for position in range(1, 200):
        with suppress(StoreFailed):  # entries behind a damaged page that leads to them
            run(log.read(1, position, 0))
    run(log.close())
    assert {sign.file for sign in damage.read_signs(tmp_path)} == {"log.db"}
    assert "store.suspect" in journal.events
    assert "recapito doctor --data" in damage.reason(tmp_path)
    assert damage.clear_signs(tmp_path) and not damage.clear_signs(tmp_path)
    assert damage.reason(tmp_path) == ""


def test_a_marker_that_cannot_be_read_is_one(tmp_path: Path) -> None:
    """A damaged marker is not taken for none."""
    (tmp_path / damage.MARKER).write_bytes(b"\x00")
    assert damage.read_signs(tmp_path) == [damage.UNREADABLE]


def test_signs_are_left_once_and_not_without_end(tmp_path: Path) -> None:
    """The same sign is one, and ten are enough."""
    for n in range(30):
        damage.leave_sign(tmp_path, "log.db", f"fault {n // 2}")
    assert [sign.why for sign in damage.read_signs(tmp_path)] == [f"fault {n}" for n in range(10)]


def test_damage_to_history_is_no_sign(tmp_path: Path) -> None:
    """Nothing is promised of it, so nothing is closed for it."""
    database = Database(tmp_path / "history.db", HISTORY)
    database.suspect("anything")
    overwrite(tmp_path / "history.db")
    database.write(lambda connection: None)
    database.close()
    assert damage.read_signs(tmp_path) == []
