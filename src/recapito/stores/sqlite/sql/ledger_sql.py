"""The verbs of lanes and parked deliveries as functions of a connection to dispatch.db.

A settlement of many lanes is a handful of statements, however many rows it has; most are left out when there is
nothing for them to do.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import apsw
import msgspec

from recapito.contracts.ledger import DueDeliveries, LaneRow, LaneVersions, ParkedKey, Settlement, counts_added
from recapito.domain import limits
from recapito.domain.delivery.cursor import Cursor
from recapito.domain.delivery.delivery import DeliveryId, Parked
from recapito.domain.delivery.hold import CLEAR
from recapito.errors import StoreStale
from recapito.stores.sqlite.sql import rows as row
from recapito.stores.sqlite.sql.damage_sql import Damaged
from recapito.stores.sqlite.sql_files import load

SQL = load("ledger") | {name: sql for name, sql in load("burial").items() if name in ("bury", "unbury")}

Key = tuple[int, int, int]  # lane, position, offset
_BEFORE_ALL: ParkedKey = (-1, DeliveryId(0, 0))


def lanes(connection: apsw.Connection) -> list[LaneRow]:
    return [row.lane(state) for state in connection.execute(SQL["lanes"])]


def lane(connection: apsw.Connection, id: int) -> LaneRow | None:
    state = connection.execute(SQL["lane"], (id,)).fetchone()
    return None if state is None else row.lane(state)


def some_lanes(connection: apsw.Connection, ids: Sequence[int]) -> list[LaneRow]:
    return [row.lane(state) for state in connection.execute(SQL["some_lanes"], (row.text(list(ids)),))]


def lanes_after(connection: apsw.Connection, after: int, limit: int) -> list[LaneRow]:
    return [row.lane(state) for state in connection.execute(SQL["lanes_after"], (after, limit))]


def troubled_lanes(connection: apsw.Connection, after: int, limit: int) -> list[LaneRow]:
    found = connection.execute(SQL["troubled_lanes"], (after, row.text(CLEAR), limit))
    return [row.lane(state) for state in found]


def lane_versions(connection: apsw.Connection) -> LaneVersions:
    ((lanes, versions, newest),) = connection.execute(SQL["lane_versions"])
    return LaneVersions(lanes, versions, newest)


def open_lane(connection: apsw.Connection, id: int, topic: int, log_id: str, position: int) -> LaneRow:
    """The lane of a subscription, made if it does not exist."""
    cursor = Cursor((position, 0))
    sum = row.lane_checksum(id, 1, cursor, CLEAR)
    connection.execute(SQL["open_lane"], (id, topic, log_id, row.text(cursor), row.text(CLEAR), sum))
    opened = lane(connection, id)
    assert opened is not None
    return opened


def renew_lane(connection: apsw.Connection, id: int, topic: int, log_id: str, position: int) -> LaneRow:
    """Replace a lane's row: rows that wait before a position stay, the others are removed and read again."""
    connection.execute(SQL["keep_lane"], (id,))
    for statement in ("renew_parked", "renew_burials"):
        connection.execute(SQL[statement], (id, position))
    for statement in ("renew_groups", "close_dropped", "close_dead_lettered", "close_failed", "remove_lane"):
        connection.execute(SQL[statement], (id,))
    open_lane(connection, id, topic, log_id, position)
    connection.execute(SQL["renew_books"], (id,))
    renewed = lane(connection, id)
    assert renewed is not None
    return renewed


def close_lane(connection: apsw.Connection, id: int) -> None:
    """Remove an ended lane in which nothing waits, and a damaged one, which is set aside."""
    found = lane(connection, id)
    if found is None or not (found.ended or found.damaged) or connection.execute(SQL["waits"], (id,)).get:
        return
    if found.damaged:
        connection.execute(SQL["keep_lane"], (id,))
    for statement in ("remove_lane", "close_dropped", "close_dead_lettered", "close_failed"):
        connection.execute(SQL[statement], (id,))


class Tally(msgspec.Struct):
    """The counts of one lane that a settlement changes beside those that it carries."""

    finished: int = 0
    parked: int = 0
    buried: int = 0


def settle(connection: apsw.Connection, settlements: Sequence[Settlement]) -> None:
    """Apply settlements of different lanes."""
    tallies = {settlement.lane: Tally() for settlement in settlements}
    _finish(connection, settlements, tallies)
    _park(connection, settlements, tallies)
    _give_up(connection, settlements, tallies)
    _fail(connection, settlements)
    lines = [_line(settlement, tallies[settlement.lane]) for settlement in settlements]
    try:
        connection.execute(SQL["settle"], (row.text(lines),))
    except apsw.ConstraintError as error:
        raise ValueError(f"the books of one of the lanes {sorted(tallies)} would not balance") from error
    if connection.changes() != len(settlements):
        raise StoreStale(f"one of the lanes {sorted(tallies)} is not at the version that was settled")


def due(connection: apsw.Connection, lane: int, now: int, limit: int, at_least: int) -> DueDeliveries:
    found = _read(lane, _bounded(connection.execute(SQL["due"], (lane, now, limit)), at_least))
    return DueDeliveries(found, connection.execute(SQL["next_due"], (lane, len(found))).get)


def parked(connection: apsw.Connection, lane: int, limit: int, after: ParkedKey | None) -> list[Parked]:
    due_at, identity = after or _BEFORE_ALL
    return _read(lane, _bounded(connection.execute(SQL["parked"], (lane, due_at, *identity, limit)), at_least=1))


def find(connection: apsw.Connection, lane: int, identity: DeliveryId) -> Parked | None:
    return next(iter(_read(lane, connection.execute(SQL["find"], (lane, *identity)))), None)


def _bounded(rows: Iterable[tuple[Any, ...]], at_least: int) -> Iterator[tuple[Any, ...]]:
    """The first rows up to a number of bytes."""
    size = 0
    for n, stored in enumerate(rows):
        size += len(stored[4])
        if size > limits.PARKED_SLICE_BYTES and n >= at_least:
            return
        yield stored


def _read(lane: int, rows: Iterable[tuple[Any, ...]]) -> list[Parked]:
    found: list[Parked] = []
    damaged: list[DeliveryId] = []
    for stored in rows:
        parked = row.read_parked(lane, stored)
        if parked is None:
            damaged.append(DeliveryId(stored[0], stored[1]))
        else:
            found.append(parked)
    if damaged:
        raise Damaged(lane, damaged, [])
    return found


def _finish(connection: apsw.Connection, settlements: Sequence[Settlement], tallies: dict[int, Tally]) -> None:
    """Count rows that wait under these ids as delivered; a dead letter that has a path stays."""
    keys = [(settlement.lane, *identity) for settlement in settlements for identity in settlement.finish]
    for lane in _removed(connection, "unpark", keys):
        tallies[lane].finished += 1
        tallies[lane].parked -= 1
    for lane in _removed(connection, "unbury", keys):
        tallies[lane].finished += 1
        tallies[lane].buried -= 1


def _park(connection: apsw.Connection, settlements: Sequence[Settlement], tallies: dict[int, Tally]) -> None:
    """Remove and insert rows instead of updating them, so that those due together are together in the file."""
    rows = {(s.lane, *parked.delivery.identity): parked for s in settlements for parked in s.park}
    for lane in _removed(connection, "unpark", rows):
        tallies[lane].parked -= 1
    if rows:
        connection.execute(SQL["park"], row.joined(row.parked_row(key[0], parked) for key, parked in rows.items()))
    for lane, _, _ in rows:
        tallies[lane].parked += 1


def _give_up(connection: apsw.Connection, settlements: Sequence[Settlement], tallies: dict[int, Tally]) -> None:
    burials = [(s.lane, burial) for s in settlements for burial in s.bury]
    drops = [(s.lane, drop) for s in settlements for drop in s.drop]
    buried = [(lane, *burial.identity) for lane, burial in burials]
    dropped = [(lane, *drop.identity) for lane, drop in drops]
    for lane in _removed(connection, "unpark", [*buried, *dropped]):
        tallies[lane].parked -= 1
    if burials:
        rows = row.joined(row.burial_row(lane, burial) for lane, burial in burials)
        for (lane,) in connection.execute(SQL["bury"], rows):
            tallies[lane].buried += 1
    if drops:
        reasons = Counter((lane, drop.reason) for lane, drop in drops)
        connection.execute(SQL["drop"], (row.text([(*key, events) for key, events in reasons.items()]),))


def _fail(connection: apsw.Connection, settlements: Sequence[Settlement]) -> None:
    failed = [(s.lane, result, events) for s in settlements for result, events in s.attempts.failed.items()]
    if failed:
        connection.execute(SQL["fail"], (row.text(failed),))


def _removed(connection: apsw.Connection, statement: str, keys: Iterable[Key]) -> Iterator[int]:
    """Remove the rows under these keys; return the lane of each that existed."""
    wanted = list(keys)
    if wanted:
        for (lane,) in connection.execute(SQL[statement], (row.text(wanted),)):
            yield lane


def _line(settlement: Settlement, tally: Tally) -> tuple[Any, ...]:
    return (
        settlement.lane,
        settlement.version,
        settlement.cursor,
        settlement.hold,
        int(settlement.ended),
        row.lane_checksum(settlement.lane, settlement.version + 1, settlement.cursor, settlement.hold),
        tally.finished,
        len(settlement.drop),
        tally.parked,
        tally.buried,
        settlement.attempts.answers,
        settlement.attempts.took_ns,
        *counts_added(settlement),
    )
