"""Bit rot: a flipped bit is found when the row is read, reported, and never delivered; the others are served."""

from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest

from recapito.contracts.ledger import DeadLetterGroup, Drop, DueDeliveries, LaneCounts, SkippedDeadLetters
from recapito.contracts.log import EntryKind
from recapito.domain.delivery.delivery import CORRUPT, DeliveryId
from recapito.errors import RecordDamaged, StoreDamaged, StoreFailed
from recapito.stores.sqlite import SqliteLedger, SqliteLog
from recapito.stores.sqlite.files.damage import read_signs
from tests.stores.values import burial, new_subscription, new_topic, parked, segment, settlement

NOBODY = SkippedDeadLetters()


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
        "events = 1 << 40, body = x'00'",
        "checksum = checksum + 1",
    ],
)
def test_a_damaged_entry_is_found(tmp_path: Path, run: Any, damage: str) -> None:
    """It is read as damaged, with the number of its events if that can be; what lies around it is read as it is."""
    log = SqliteLog.open(tmp_path, threaded=False)
    run(log.put_topic(new_topic()))
    run(log.append([segment(1, b"aaa"), segment(1, b"bbb"), segment(1, b"ccc")]))
    run(log.close())
    spoil(tmp_path / "log.db", f"UPDATE entry SET {damage} WHERE position = 3")
    log = SqliteLog.open(tmp_path, threaded=False)
    before, damaged, after = run(log.read(1, 2, 1000))
    assert (before.body, after.body) == (b"aaa", b"ccc")
    assert (damaged.position, damaged.kind, damaged.events) == (3, EntryKind.DAMAGED, 1)
    run(log.close())


def test_an_entry_that_is_missing_is_no_other(tmp_path: Path, run: Any) -> None:
    """The entries before the gap are read; the gap itself is a LookupError, never the next entry."""
    log = SqliteLog.open(tmp_path, threaded=False)
    run(log.put_topic(new_topic()))
    run(log.append([segment(1, b"aaa"), segment(1, b"bbb"), segment(1, b"ccc")]))
    spoil(tmp_path / "log.db", "DELETE FROM entry WHERE position = 3")
    assert [entry.body for entry in run(log.read(1, 2, 1000))] == [b"aaa"]
    with pytest.raises(LookupError, match="position 3 of topic 1"):
        run(log.read(1, 3, 1000))
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
    """The others come due; it is counted as dropped, reported, and kept for a person to look at."""
    spoil(directory / "dispatch.db", f'UPDATE parked SET {damage} WHERE "offset" = 1')
    ledger = SqliteLedger.open(directory, threaded=False, journal=journal)
    assert run(ledger.due(7, 99, 9)) == DueDeliveries([parked(1, 0, 10), parked(1, 2, 12)], None)
    assert len(run(ledger.parked(7, 9))) == 2
    counts = run(ledger.lane(7)).counts
    assert counts == LaneCounts(matched=6, dropped={CORRUPT: 1}, parked=2, buried=3)
    assert journal.events == ["store.damaged"]
    run(ledger.close())
    with closing(apsw.Connection(str(directory / "dispatch.db"))) as connection:
        assert connection.execute("SELECT lane, position FROM damaged").fetchall() == [(7, 1)]


def test_a_lane_of_nothing_but_damage(directory: Path, run: Any) -> None:
    """It ends up empty, with nothing due, and is not asked again and again."""
    with closing(apsw.Connection(str(directory / "dispatch.db"))) as connection:
        connection.execute("UPDATE parked SET record = x'00'")
    ledger = SqliteLedger.open(directory, threaded=False)
    assert run(ledger.due(7, 99, 2)) == DueDeliveries([], None)
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
    assert group == DeadLetterGroup(
        7, "dead", "path" if named else None, 1 if named else None, [burial(2, 0, 10), burial(2, 2, 12)]
    )
    if not named:
        run(ledger.name_group(group, "path", 1))
    run(ledger.written(7, "path"))
    run(ledger.burials_due(99, 9, 1000, NOBODY))
    assert run(ledger.lane(7)).counts == LaneCounts(matched=6, dead_lettered=2, dropped={CORRUPT: 1}, parked=3)
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
    assert run(ledger.lane(7)).counts == LaneCounts(matched=6, dropped={CORRUPT: 3}, parked=3)
    run(ledger.close())


@pytest.mark.parametrize("damaged", ["burial SET path = 'qath' WHERE \"offset\" = 1", "burial_group SET path = 'qath'"])
def test_a_dead_letter_with_a_damaged_path_gets_another(directory: Path, run: Any, damaged: str) -> None:
    """A flipped bit in a path parts dead letters from their group: they are named again, and none waits forever."""
    ledger = SqliteLedger.open(directory)
    run(ledger.name_group(run(ledger.burials_due(99, 9, 1000, NOBODY)), "path", 1))
    run(ledger.close())
    spoil(directory / "dispatch.db", f"UPDATE {damaged}")
    ledger = SqliteLedger.open(directory)
    while (group := run(ledger.burials_due(99, 9, 1000, NOBODY))) is not None:
        assert group.burials
        if group.path is None:
            run(ledger.name_group(group, "again", 2))
        run(ledger.written(7, group.path or "again"))
    assert run(ledger.lane(7)).counts.dead_lettered == 3
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


def test_a_damaged_page_hides_only_what_is_on_it(tmp_path: Path, run: Any) -> None:
    """SQLite cannot read one entry: it counts as damaged, with the number of its events, and the others are read."""
    log = SqliteLog.open(tmp_path, threaded=False)
    run(log.put_topic(new_topic()))
    run(log.append([segment(1, bytes([n]) * 100_000, events=n) for n in range(1, 6)]))
    run(log.close())
    overwrite_overflow_page(tmp_path / "log.db", bytes([3]))
    log = SqliteLog.open(tmp_path, threaded=False)
    found = [entry for position in range(2, 7) for entry in run(log.read(1, position, 0))]
    assert [(entry.position, entry.kind, entry.events) for entry in found] == [
        (2, EntryKind.SEGMENT, 1),
        (3, EntryKind.SEGMENT, 2),
        (4, EntryKind.DAMAGED, 3),
        (5, EntryKind.SEGMENT, 4),
        (6, EntryKind.SEGMENT, 5),
    ]
    assert [entry.position for entry in run(log.read(1, 2, 1 << 20))] == [2]
    run(log.close())


def overwrite_overflow_page(path: Path, filling: bytes) -> None:
    """Break the chain of the pages that hold a blob of these bytes: SQLite says that the file is malformed."""
    content = bytearray(path.read_bytes())
    size = int.from_bytes(content[16:18], "big")
    pages = [at for at in range(0, len(content), size) if content[at + 4 : at + size] == filling * (size - 4)]
    content[pages[1] : pages[1] + 4] = (1 << 30).to_bytes(4, "big")
    path.write_bytes(content)


@pytest.mark.parametrize("end", [2, 9])
def test_a_damaged_end_of_a_log_takes_nothing(tmp_path: Path, run: Any, end: int) -> None:
    """No position is used twice and none is left out: the topic takes no segments, and other topics do."""
    log = SqliteLog.open(tmp_path, threaded=False)
    for name in ("sick", "well"):
        run(log.put_topic(new_topic(name)))
    run(log.append([segment(1), segment(1), segment(2)]))
    spoil(tmp_path / "log.db", f'UPDATE topic SET "end" = {end} WHERE id = 1')
    for segments in ([segment(1)], [segment(1), segment(2)]):
        with pytest.raises(RecordDamaged):
            run(log.append(segments))
    assert run(log.append([segment(2)])) == [3]
    assert [damage[:2] for damage in run(log.damaged_records())] == [("topic", 1)]
    run(log.close())


def test_a_list_reports_the_damaged_records_that_it_passes(tmp_path: Path, run: Any, journal: Any) -> None:
    """Sound records are returned, even from behind a page of damaged ones; each damaged one is remembered once."""
    log = SqliteLog.open(tmp_path, threaded=False, journal=journal)
    for name in ("a", "b", "c"):
        run(log.put_topic(new_topic(name)))
    for id in (1, 2):
        spoil(tmp_path / "log.db", f"UPDATE topic SET doc = 'x' WHERE id = {id}")
    for _ in range(2):
        assert [topic.name for topic in run(log.topics("", 1))] == ["c"]
    assert [damage[:2] for damage in run(log.damaged_records())] == [("topic", 1), ("topic", 2)]
    assert journal.events == ["store.damaged"] * 2
    run(log.close())


@pytest.mark.parametrize(
    "damage",
    [
        "cursor = '['",
        "cursor = CAST(x'5bff' AS TEXT)",
        "log_id = CAST(x'ff' AS TEXT)",
        "hold = 'x'",
        "version = 7",
        "matched = matched + 1",
        "delivered = -1, matched = -1",
    ],
)
def test_a_damaged_row_of_a_lane_is_found(tmp_path: Path, run: Any, damage: str) -> None:
    """By its checksum, or because its books do not balance."""
    ledger = SqliteLedger.open(tmp_path, threaded=False)
    lane = run(ledger.open_lane(7, 1, "log", 1))
    run(ledger.settle([settlement(lane, matched=2, delivered=2)]))
    run(ledger.close())
    with closing(apsw.Connection(str(tmp_path / "dispatch.db"))) as connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        connection.execute(f"UPDATE lane SET {damage}")
    ledger = SqliteLedger.open(tmp_path, threaded=False)
    assert run(ledger.lane(7)).damaged
    assert not run(ledger.renew_lane(7, 1, "log", 1)).damaged
    run(ledger.close())


def test_reasons_that_do_not_add_up_lose_no_count(tmp_path: Path, run: Any) -> None:
    """Why events were dropped is not known any more; how many is."""
    ledger = SqliteLedger.open(tmp_path, threaded=False)
    lane = run(ledger.open_lane(7, 1, "log", 1))
    run(ledger.settle([settlement(lane, matched=2, drop=[Drop(DeliveryId(1, n), "Canceled") for n in range(2)])]))
    spoil(tmp_path / "dispatch.db", "UPDATE dropped SET events = 5")
    assert run(ledger.lane(7)).counts == LaneCounts(matched=2, dropped={CORRUPT: 2})
    run(ledger.close())


def test_records_of_before_get_their_checksums(tmp_path: Path, run: Any) -> None:
    """A file that was written without any has them after it was opened."""
    log = SqliteLog.open(tmp_path, threaded=False)
    topic = run(log.put_topic(new_topic()))
    run(log.put_subscription(new_subscription(topic.id)))
    run(log.put_document("kind", "key", b"content"))
    run(log.close())
    for table in ("topic", "subscription", "document"):
        spoil(tmp_path / "log.db", f"UPDATE {table} SET checksum = NULL")
    run(SqliteLog.open(tmp_path, threaded=False).close())
    with closing(apsw.Connection(str(tmp_path / "log.db"))) as connection:
        for table in ("topic", "subscription", "document"):
            assert connection.execute(f"SELECT count(*) FROM {table} WHERE checksum IS NULL").get == 0


def test_a_record_that_is_no_text_is_damaged(tmp_path: Path, run: Any) -> None:
    """A flipped bit may leave bytes that are not UTF-8: that record is damaged, and others are served."""
    log = SqliteLog.open(tmp_path, threaded=False)
    for name in ("sick", "well"):
        topic = run(log.put_topic(new_topic(name)))
        run(log.put_subscription(new_subscription(topic.id)))
    for table in ("topic", "subscription"):
        spoil(tmp_path / "log.db", f"UPDATE {table} SET doc = CAST(x'7bff7d' AS TEXT) WHERE id = 1")
    assert [topic.name for topic in run(log.topics("", 9))] == ["well"]
    assert [subscription.id for subscription in run(log.subscriptions(None, 0, 9))] == [2]
    for call in (log.topic_by_id(1), log.subscription_by_id(1)):
        with pytest.raises(RecordDamaged):
            run(call)
    run(log.close())


def test_reasons_that_are_no_text_lose_no_count(tmp_path: Path, run: Any) -> None:
    """The name of a reason is lost, and no number."""
    ledger = SqliteLedger.open(tmp_path, threaded=False)
    lane = run(ledger.open_lane(7, 1, "log", 1))
    run(ledger.settle([settlement(lane, matched=1, drop=[Drop(DeliveryId(1, 0), "Canceled")])]))
    spoil(tmp_path / "dispatch.db", "UPDATE dropped SET reason = CAST(x'ff' AS TEXT)")
    row = run(ledger.lane(7))
    assert not row.damaged
    assert sum(row.counts.dropped.values()) == 1
    run(ledger.close())


def test_a_text_without_a_checksum_that_is_none_is_a_sign(directory: Path, run: Any) -> None:
    """A read that needs it fails with the reason, and leaves the sign that closes intake."""
    spoil(directory / "dispatch.db", "UPDATE burial SET container = CAST(x'ff' AS TEXT) WHERE \"offset\" = 1")
    ledger = SqliteLedger.open(directory, threaded=False)
    with pytest.raises(StoreDamaged, match="not UTF-8"):
        while run(ledger.burials_due(99, 1, 1, NOBODY)) is not None:
            group = run(ledger.burials_due(99, 1, 1, NOBODY))
            run(ledger.name_group(group, f"path-{group.burials[0].identity.offset}", 1))
            run(ledger.written(7, f"path-{group.burials[0].identity.offset}"))
    assert read_signs(directory)
    run(ledger.close())
