"""The rows of dispatch.db: how lanes, deliveries and dead letters are written and read.

Scalars travel as one JSON text and blobs as one joined blob, from which SQL cuts them: so any number of rows is one
statement with one text, during which Python's other threads run on.
"""

from collections.abc import Iterable
from typing import Any
from zlib import crc32

import msgspec

from recapito.contracts.ledger import AttemptTotals, Burial, LaneCounts, LaneRow
from recapito.domain.delivery.cursor import Cursor
from recapito.domain.delivery.delivery import CORRUPT, Delivery, DeliveryId, Parked
from recapito.domain.delivery.hold import CLEAR, Hold
from recapito.domain.delivery.outcome import Result
from recapito.stores.sqlite.sql.checksum import checksum, is_sound


class Record(msgspec.Struct, frozen=True, array_like=True):
    """A delivery without its identity, which is the row's key."""

    published_at: int
    attempts: int
    skipped: int
    last_attempt_at: int | None
    last_result: Result | None
    last_status: int | None
    body: bytes
    trace: str = ""


_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(Record).decode
_json = msgspec.json.Encoder().encode
_cursor = msgspec.json.Decoder(Cursor).decode
_hold = msgspec.json.Decoder(Hold).decode
_events = msgspec.json.Decoder(dict[str, int]).decode


def text(value: object) -> str:
    """JSON for SQL."""
    return _json(value).decode()


def lane_checksum(id: int, version: int, cursor: Cursor, hold: Hold) -> int:
    """The checksum of what a settlement replaces in a lane's row. The books check themselves: they balance.

    A CRC, because every settlement of every lane makes one: a third of the cost of SHA-256 for so few bytes.
    """
    return crc32(_json((id, version, cursor, hold)))


def lane(row: tuple[Any, ...]) -> LaneRow:
    """A lane, from a row of lane_state; a damaged one if it is not what was settled."""
    try:
        found = _lane(row)
    except (TypeError, ValueError):  # msgspec's errors are ValueErrors
        found = None
    return found or LaneRow(row[0], 0, "", 0, Cursor((0, 0)), CLEAR, LaneCounts(), damaged=True)


def _lane(row: tuple[Any, ...]) -> LaneRow | None:
    """None, if its checksum is wrong or its books do not balance."""
    id, topic, log_id, version, cursor_text, hold_text, ended, *counts, answers, took_ns, failed, lost, stored = row
    matched, unmatched, delivered, dead_lettered, parked, buried, evaluated, dropped, reasons, next_due_at = counts
    cursor, hold = _cursor(cursor_text), _hold(hold_text)
    if stored is not None and stored != lane_checksum(id, version, cursor, hold):
        return None
    if matched != delivered + dead_lettered + lost + parked + buried or min(delivered, dead_lettered, lost) < 0:
        return None
    books = LaneCounts(
        matched,
        unmatched,
        delivered,
        dead_lettered,
        _reasons(dropped, lost),
        parked,
        buried,
        evaluated,
        _events(reasons) if reasons else {},
    )
    attempts = AttemptTotals(answers, took_ns, _events(failed) if failed else {})
    return LaneRow(id, topic, log_id, version, cursor, hold, books, bool(ended), next_due_at, attempts)


def _reasons(text: str | None, events: int) -> dict[str, int]:
    """Why events were dropped. Reasons that do not add up are damaged: then only the sum is known."""
    found = _events(text) if text else {}
    return found if sum(found.values()) == events else {CORRUPT: events}


def joined(rows: Iterable[tuple[tuple[Any, ...], bytes]]) -> tuple[str, bytes]:
    """Rows of scalars, each with its blob: the JSON, in which the place of each blob comes last, and all the blobs."""
    table, blobs, start = [], [], 1
    for scalars, blob in rows:
        table.append((*scalars, start, len(blob)))
        blobs.append(blob)
        start += len(blob)
    return text(table), b"".join(blobs)


def parked_row(lane: int, parked: Parked) -> tuple[tuple[int, ...], bytes]:
    """A parked delivery, to be stored."""
    it = parked.delivery
    tried = (it.last_attempt_at, it.last_result, it.last_status)
    record = _pack(Record(it.published_at, it.attempts, it.skipped, *tried, it.body, it.trace))
    place = (lane, *it.identity, parked.due_at)
    return (*place, checksum(place, record)), record


def read_parked(lane: int, row: tuple[int, int, int, int, bytes]) -> Parked | None:
    """A parked delivery as it was stored; None if it is damaged."""
    position, offset, due_at, stored, packed = row
    if not is_sound(stored, (lane, position, offset, due_at), packed):
        return None
    it = _unpack(packed)
    return Parked(
        due_at,
        Delivery(
            DeliveryId(position, offset),
            it.published_at,
            it.body,
            it.attempts,
            it.skipped,
            it.last_attempt_at,
            it.last_result,
            it.last_status,
            it.trace,
        ),
    )


def burial_row(lane: int, burial: Burial) -> tuple[tuple[Any, ...], bytes]:
    """A dead letter that waits, to be stored."""
    identity, write_at, container, record = burial
    place = (lane, *identity, write_at)
    return (*place, container, checksum(place, container.encode(), record)), record


def read_burial(lane: int, row: tuple[int, int, int, str, int, bytes]) -> Burial | None:
    """A dead letter as it was stored; None if it is damaged."""
    position, offset, write_at, container, stored, record = row
    if not is_sound(stored, (lane, position, offset, write_at), container.encode(), record):
        return None
    return Burial(DeliveryId(position, offset), write_at, container, record)
