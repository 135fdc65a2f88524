"""Bit rot: a flipped bit is found when the row is read, reported, and never delivered; the others are served."""

from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest

from recapito.errors import StoreFailed
from recapito.store import Counts, Due, Group, Passed
from recapito.stores.sqlite import SqliteLedger, SqliteLog
from recapito.stores.sqlite.damage import CORRUPT
from tests.stores.values import burial, new_topic, parked, segment, settlement

NOBODY = Passed()


def spoil(path: Path, sql: str) -> None:
    with closing(apsw.Connection(str(path))) as connection:
        connection.execute(sql)
        assert connection.changes() == 1


@pytest.mark.parametrize(
    "damage",
    [
        "body = unhex(replace(hex(body), '62', '63'))",
        "columns = x'00'",
        "columns = CAST(columns || body AS BLOB), body = x''",
        "kind = 2",
        "position = 9",
        "checksum = checksum + 1",
    ],
)
def test_a_damaged_entry_is_found(tmp_path: Path, run: Any, damage: str) -> None:
    """Reading it names its topic and position; what lies before it is read all the same."""
    log = SqliteLog.open(tmp_path, threaded=False)
    run(log.put_topic(new_topic()))
    run(log.append([segment(1, b"aaa"), segment(1, b"bbb"), segment(1, b"ccc")]))
    run(log.close())
    spoil(tmp_path / "log.db", f"UPDATE entry SET {damage} WHERE position = 3")
    log = SqliteLog.open(tmp_path, threaded=False)
    assert [entry.body for entry in run(log.read(1, 2, 1000))] == [b"aaa"]
    with pytest.raises((StoreFailed, LookupError), match=r"position 3 of topic 1"):
        run(log.read(1, 3, 1000))
    assert run(log.read(1, 4, 1000))[0].body == b"ccc"
    run(log.close())


@pytest.fixture
def directory(tmp_path: Path, run: Any) -> Path:
    """A ledger with three parked deliveries and three dead letters."""
    ledger = SqliteLedger.open(tmp_path, threaded=False)
    lane = run(ledger.open_lane(7, 1, "log", 1))
    rows = [parked(1, n, 10 + n, b"event") for n in range(3)]
    run(ledger.settle([settlement(lane, matched=6, park=rows, bury=[burial(2, n, 10 + n) for n in range(3)])]))
    run(ledger.close())
    return tmp_path


PARKED_DAMAGE = ["record = unhex(replace(hex(record), '65', '66'))", "due_at = 5", "record = x''", '"offset" = 9']


@pytest.mark.parametrize("damage", PARKED_DAMAGE)
def test_a_damaged_delivery_is_set_aside(directory: Path, run: Any, journal: Any, damage: str) -> None:
    """The others come due; it is counted as dropped, told, and kept for whoever wants to look."""
    spoil(directory / "dispatch.db", f'UPDATE parked SET {damage} WHERE "offset" = 1')
    ledger = SqliteLedger.open(directory, threaded=False, journal=journal)
    assert run(ledger.due(7, 99, 9)) == Due([parked(1, 0, 10), parked(1, 2, 12)], None)
    assert len(run(ledger.parked(7, 9))) == 2
    counts = run(ledger.lane(7)).counts
    assert counts == Counts(matched=6, dropped={CORRUPT: 1}, parked=2, buried=3)
    assert journal.events == ["store.damaged"]
    run(ledger.close())
    with closing(apsw.Connection(str(directory / "dispatch.db"))) as connection:
        assert connection.execute("SELECT lane, position FROM damaged").fetchall() == [(7, 1)]


def test_a_lane_of_nothing_but_damage(directory: Path, run: Any) -> None:
    """It ends up empty, with nothing due, and is not asked again and again."""
    with closing(apsw.Connection(str(directory / "dispatch.db"))) as connection:
        connection.execute("UPDATE parked SET record = x'00'")
    ledger = SqliteLedger.open(directory, threaded=False)
    assert run(ledger.due(7, 99, 2)) == Due([], None)
    lane = run(ledger.lane(7))
    assert (lane.next_due_at, lane.counts.dropped, lane.counts.parked) == (None, {CORRUPT: 3}, 0)
    run(ledger.close())


@pytest.mark.parametrize("damage", ["record = x'00'", "container = 'elsewhere'"])
@pytest.mark.parametrize("named", [False, True])
def test_a_damaged_dead_letter_is_set_aside(directory: Path, run: Any, damage: str, named: bool) -> None:
    """The others are written, from a named group too; it is counted as dropped."""
    if named:
        ledger = SqliteLedger.open(directory, threaded=False)
        run(ledger.name_group(run(ledger.burials_due(99, 9, 1000, NOBODY)), "path", 1))
        run(ledger.close())
    spoil(directory / "dispatch.db", f'UPDATE burial SET {damage} WHERE "offset" = 1')
    ledger = SqliteLedger.open(directory, threaded=False)
    group = run(ledger.burials_due(99, 9, 1000, NOBODY))
    assert group == Group(
        7, "dead", "path" if named else None, 1 if named else None, [burial(2, 0, 10), burial(2, 2, 12)]
    )
    if not named:
        run(ledger.name_group(group, "path", 1))
    run(ledger.written(7, "path"))
    run(ledger.burials_due(99, 9, 1000, NOBODY))
    assert run(ledger.lane(7)).counts == Counts(matched=6, dead_lettered=2, dropped={CORRUPT: 1}, parked=3)
    run(ledger.close())


def test_a_named_group_of_nothing_but_damage_goes(directory: Path, run: Any) -> None:
    """It is not offered again and again."""
    ledger = SqliteLedger.open(directory, threaded=False)
    run(ledger.name_group(run(ledger.burials_due(99, 9, 1000, NOBODY)), "path", 1))
    run(ledger.close())
    with closing(apsw.Connection(str(directory / "dispatch.db"))) as connection:
        connection.execute("UPDATE burial SET record = x'00'")
    ledger = SqliteLedger.open(directory, threaded=False)
    assert run(ledger.burials_due(99, 9, 1000, NOBODY)) is None
    assert run(ledger.lane(7)).counts == Counts(matched=6, dropped={CORRUPT: 3}, parked=3)
    run(ledger.close())


def test_a_reader_does_not_repair(directory: Path, run: Any) -> None:
    """Who can only read reports the damage and leaves it to the writer."""
    spoil(directory / "dispatch.db", "UPDATE parked SET record = x'00' WHERE \"offset\" = 1")
    writer = SqliteLedger.open(directory, threaded=False)
    reader = SqliteLedger.open_reader(directory)
    with pytest.raises(StoreFailed, match="damaged"):
        run(reader.parked(7, 9))
    run(writer.parked(7, 9))
    assert len(run(reader.parked(7, 9))) == 2
    run(reader.close())
    run(writer.close())
