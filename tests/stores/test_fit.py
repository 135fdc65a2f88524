"""log.db and dispatch.db that do not belong together: the server accepts no event that a lane would skip."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from recapito.composition.data_directory import DataDirectory
from recapito.domain.delivery.cursor import Cursor
from recapito.errors import Conflict
from recapito.stores.sqlite import SqliteLedger, SqliteLog
from recapito.stores.sqlite.backend import SqliteBackend, SqliteOptions
from recapito.stores.sqlite.files.fit import find_misfit
from tests.stores.spoil import FileSpoiler
from tests.stores.values import new_subscription, new_topic, segment, settlement


@pytest.fixture
def data(tmp_path: Path, run: Any) -> Path:
    """A lane that has read its topic up to position 5, and a copy of the log from when it ended at 4."""
    directory = tmp_path / "data"
    directory.mkdir()
    log = SqliteLog.open(directory, threaded=False)
    run(log.put_topic(new_topic()))
    run(log.put_subscription(new_subscription(1)))
    run(log.append([segment(1), segment(1)]))
    run(log.close())
    shutil.copyfile(directory / "log.db", tmp_path / "old.db")
    log = SqliteLog.open(directory, threaded=False)
    run(log.append([segment(1), segment(1)]))
    ledger = SqliteLedger.open(directory, threaded=False)
    lane = run(ledger.open_lane(1, 1, log.id, 2))
    run(ledger.settle([settlement(lane, cursor=Cursor((4, 0), (((5, 0), (6, 0)),)), matched=3, delivered=3)]))
    run(ledger.close())
    run(log.close())
    return directory


def prepare(data: Path, run: Any, journal: Any) -> list[str]:
    """Start a server as its parent process does; what it finds suspicious."""
    run(SqliteBackend(SqliteOptions(data, None), journal).prepare())
    return [fields["why"] for event, fields in journal if event == "store.suspect"]


def test_files_that_fit(data: Path, run: Any, journal: Any) -> None:
    """A lane may be at the end of its log."""
    assert prepare(data, run, journal) == []
    assert not DataDirectory(data).damage_signs()


def test_a_log_that_ends_before_a_cursor(data: Path, tmp_path: Path, run: Any, journal: Any) -> None:
    """Intake is closed before it uses a position again; no command opens it until the files fit together."""
    shutil.copyfile(data / "log.db", tmp_path / "new.db")
    shutil.copyfile(tmp_path / "old.db", data / "log.db")
    (why,) = prepare(data, run, journal)
    assert why == "lane 1 is at position 4 to 6 of topic 1, whose log has 1 to 4"
    directory = DataDirectory(data)
    assert [sign.why for sign in directory.damage_signs()] == [why]
    assert directory.inspect() == {"log.db": [why], "dispatch.db": []}
    with pytest.raises(Conflict, match="restore a backup"):
        directory.clear_damage()
    shutil.copyfile(tmp_path / "new.db", data / "log.db")
    assert directory.clear_damage()


def test_a_log_of_another_server(data: Path, run: Any) -> None:
    """The positions of one log mean nothing in another."""
    FileSpoiler(data).run("log.db", "UPDATE log SET id = 'another'")
    assert find_misfit(data) == "lane 1 reads another log"


def test_a_log_that_begins_after_a_cursor(data: Path, run: Any) -> None:
    """An old dispatch.db needs entries that were trimmed since."""
    FileSpoiler(data).run("log.db", "DELETE FROM entry WHERE position = 1")
    assert find_misfit(data) == ""
    for position in (2, 3, 4):
        FileSpoiler(data).run("log.db", f"DELETE FROM entry WHERE position = {position}")
    assert find_misfit(data) == "lane 1 is at position 4 to 6 of topic 1, whose log has 5 to 6"


@pytest.mark.parametrize("cursor", ["[[9,0],[]]", "[[9,"])
def test_a_damaged_lane_is_no_misfit(data: Path, run: Any, cursor: str) -> None:
    """It begins again by itself, and says nothing about the log."""
    FileSpoiler(data).run("dispatch.db", f"UPDATE lane SET cursor = '{cursor}'")
    assert find_misfit(data) == ""


def test_a_lane_that_has_ended_is_no_misfit(data: Path, tmp_path: Path, run: Any) -> None:
    """It reads nothing more."""
    shutil.copyfile(tmp_path / "old.db", data / "log.db")
    FileSpoiler(data).run("dispatch.db", "UPDATE lane SET ended = 1")
    assert find_misfit(data) == ""


def test_files_that_cannot_be_read_are_no_misfit(data: Path, run: Any) -> None:
    """Their own damage is reported elsewhere."""
    (data / "dispatch.db").write_bytes(b"nothing")
    assert find_misfit(data) == ""
