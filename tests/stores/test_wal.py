"""A write-ahead log with a damaged page after a crash: the commits behind it are reported, and kept for a person."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from recapito.stores.sqlite import SqliteLog
from recapito.stores.sqlite.files import damage
from recapito.stores.sqlite.files.wal import FRAME_HEADER_BYTES, WAL_HEADER_BYTES
from tests.stores.values import new_topic, segment

COMMITS = 12
END = COMMITS + 1  # the first position marks the creation of the topic


@pytest.fixture
def crashed(tmp_path: Path, run: Any) -> Path:
    """The data directory of a process that was killed with commits in its WAL."""
    running, crashed = tmp_path / "running", tmp_path / "crashed"
    running.mkdir()
    log = SqliteLog.open(running, threaded=False)
    run(log.put_topic(new_topic()))
    for n in range(COMMITS):
        run(log.append([segment(1, b"event %02d" % n)]))
    shutil.copytree(running, crashed, ignore=shutil.ignore_patterns("*-shm"))
    run(log.close())
    return crashed


def flip(file: Path, place: int) -> None:
    """Change one bit."""
    content = bytearray(file.read_bytes())
    content[place] ^= 1
    file.write_bytes(content)


def in_event(number: int) -> Callable[[bytes], int]:
    """The place of an event's text: where the page with it was first committed."""
    return lambda wal: wal.index(b"event %02d" % number)


def in_salt(number: int) -> Callable[[bytes], int]:
    """The place of a salt in the header of the frame with an event."""

    def place(wal: bytes) -> int:
        size = int.from_bytes(wal[8:12], "big") + FRAME_HEADER_BYTES
        frame = (wal.index(b"event %02d" % number) - WAL_HEADER_BYTES) // size
        return WAL_HEADER_BYTES + frame * size + 10

    return place


@pytest.mark.parametrize("place", [in_event(0), in_event(5), in_event(COMMITS - 2), in_salt(5)])
def test_commits_behind_a_damaged_page(crashed: Path, run: Any, journal: Any, place: Callable[[bytes], int]) -> None:
    """SQLite drops them without a word: the file is marked, which closes intake, and the whole WAL is kept."""
    wal = crashed / "log.db-wal"
    flip(wal, place(wal.read_bytes()))
    damaged = wal.read_bytes()
    log = SqliteLog.open(crashed, threaded=False, journal=journal)
    run(log.close())
    assert journal.events.count("store.suspect") == 1
    (sign,) = damage.read_signs(crashed)
    assert (sign.file, sign.why.split(",")[0]) == ("log.db", "a page of its -wal is damaged")
    (copy,) = crashed.glob("log.db-wal.*")
    assert copy.name in sign.why
    assert copy.read_bytes() == damaged
    assert copy.stat().st_mode & 0o777 == 0o600


def test_a_sound_wal_is_no_alarm(crashed: Path, run: Any, journal: Any) -> None:
    """A process that is killed leaves every commit readable."""
    log = SqliteLog.open(crashed, threaded=False, journal=journal)
    assert run(log.end(1)) == END
    run(log.close())
    assert not damage.read_signs(crashed)


def test_a_torn_last_commit_is_no_alarm(crashed: Path, run: Any) -> None:
    """A power cut tears the last commit, which was not acknowledged."""
    wal = crashed / "log.db-wal"
    flip(wal, wal.stat().st_size - 1)
    log = SqliteLog.open(crashed, threaded=False)
    assert run(log.end(1)) == END - 1
    run(log.close())
    assert not damage.read_signs(crashed)


def test_a_wal_that_began_anew_is_no_alarm(tmp_path: Path, run: Any) -> None:
    """Behind its end are the commits of the WAL before, which are in the file."""
    running, crashed = tmp_path / "running", tmp_path / "crashed"
    running.mkdir()
    log = SqliteLog.open(running, threaded=False)
    run(log.put_topic(new_topic()))
    for _ in range(COMMITS):
        run(log.append([segment(1)]))
    log.database._medium = log.database._medium._replace(checkpoint_bytes=1)
    run(log.append([segment(1)]))
    log.database._medium = log.database._medium._replace(checkpoint_bytes=1 << 30)
    run(log.append([segment(1)]))
    shutil.copytree(running, crashed, ignore=shutil.ignore_patterns("*-shm"))
    run(log.close())
    log = SqliteLog.open(crashed, threaded=False)
    assert run(log.end(1)) == END + 2
    run(log.close())
    assert not damage.read_signs(crashed)
