"""Bits flip in the files of a server that is down: in a segment, a parked delivery, a dead letter, or a lane's row.

The test that flips them knows which events were there, so that each can be accounted for in the end.
"""

import json
import random
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import apsw
import msgspec

from recapito.stores.sqlite.sql.rows import DeliveryRecord

NEWEST = 40  # entries of the log among which one is chosen: the others are mostly passed


class Rotten(NamedTuple):
    """A damaged row: its place as `recapito damaged list` has it, and the ids of the events that it held.

    `lane` is 0 for an entry of the log, which is every subscription's.
    """

    table: str
    lane: int
    position: int
    offset: int
    ids: frozenset[str]


def flipped(content: bytes, rng: random.Random) -> bytes:
    """The same bytes but for one bit."""
    changed = bytearray(content)
    changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def rot(directory: Path, rng: random.Random) -> Rotten | None:
    """Damage one row, of a table that has one."""
    kinds: list[Callable[[Path, random.Random], Rotten | None]] = [_entry, _entry, _parked, _parked, _burial, _lane]
    rng.shuffle(kinds)
    return next((found for kind in kinds if (found := kind(directory, rng)) is not None), None)


def names(directory: Path) -> dict[int, str]:
    """The names of the subscriptions, by their ids, which are those of their lanes."""
    rows = _query(directory / "log.db", "SELECT id, doc ->> 'name' FROM subscription")
    return dict(rows)


def _entry(directory: Path, rng: random.Random) -> Rotten | None:
    """A segment that a subscription has still to read."""
    cursors = [json.loads(cursor)[0][0] for (cursor,) in _query(directory / "dispatch.db", "SELECT cursor FROM lane")]
    unread = "SELECT rowid, position, body FROM entry WHERE events > 0 AND position >= ? ORDER BY position DESC LIMIT ?"
    rows = _query(directory / "log.db", unread, min(cursors, default=0), NEWEST)
    if not rows:
        return None
    row, position, body = rng.choice(rows)
    try:
        ids = frozenset(str(event["id"]) for event in json.loads(b"[" + body + b"]"))
    except ValueError:  # it is damaged already
        return None
    _query(directory / "log.db", "UPDATE entry SET body = ? WHERE rowid = ?", flipped(body, rng), row)
    return Rotten("entry", 0, position, 0, ids)


def _parked(directory: Path, rng: random.Random) -> Rotten | None:
    def ids(record: bytes) -> str:
        return str(json.loads(msgspec.msgpack.decode(record, type=DeliveryRecord).body)["id"])

    return _waiting("parked", ids, directory, rng)


def _burial(directory: Path, rng: random.Random) -> Rotten | None:
    return _waiting("burial", lambda record: str(json.loads(record)["id"]), directory, rng)


def _waiting(table: str, id_of: Callable[[bytes], str], directory: Path, rng: random.Random) -> Rotten | None:
    file = directory / "dispatch.db"
    rows = _query(file, f'SELECT rowid, lane, position, "offset", record FROM {table}')
    if not rows:
        return None
    row, lane, position, offset, record = rng.choice(rows)
    try:
        id = id_of(record)
    except ValueError:  # it is damaged already
        return None
    _query(file, f"UPDATE {table} SET record = ? WHERE rowid = ?", flipped(record, rng), row)
    return Rotten(table, lane, position, offset, frozenset({id}))


def _lane(directory: Path, rng: random.Random) -> Rotten | None:
    """The cursor of a lane: it begins again, and no event is lost."""
    file = directory / "dispatch.db"
    rows = _query(file, "SELECT id, version, cursor FROM lane")
    if not rows:
        return None
    lane, version, cursor = rng.choice(rows)
    changed = cursor.replace("[[", "[[1", 1)
    _query(file, "UPDATE lane SET cursor = ? WHERE id = ?", changed, lane)
    return Rotten("lane", lane, version, 0, frozenset())


def _query(file: Path, sql: str, *values: Any) -> list[Any]:
    with closing(apsw.Connection(str(file))) as connection:
        connection.set_busy_timeout(5000)
        return list(connection.execute(sql, values))
