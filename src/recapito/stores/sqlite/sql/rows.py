"""Rows and their checksums: how lanes, deliveries, dead letters and records of the registry are written and read.

Every stored event and record carries a checksum, so that a damaged row is found when it is read and never delivered.
Scalars of dispatch.db travel as one JSON text and blobs as one joined blob, from which SQL cuts them: so any number of
rows is one statement with one text, during which Python's other threads run on.
"""

import struct
from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b, sha256
from typing import Any, Generic, NamedTuple, TypeVar
from zlib import crc32

import msgspec

from recapito.contracts.damage import Damage
from recapito.contracts.ledger import AttemptTotals, Burial, LaneCounts, LaneRow, Notice
from recapito.contracts.registry import Document
from recapito.domain.delivery.cursor import Cursor
from recapito.domain.delivery.delivery import CORRUPT, Delivery, DeliveryId, Parked
from recapito.domain.delivery.hold import CLEAR, Hold
from recapito.domain.delivery.outcome import Result
from recapito.domain.resources.subscription import Subscription
from recapito.domain.resources.topic import Topic
from recapito.errors import RecordDamaged

R = TypeVar("R")
REMEDY = "others are not; `recapito damaged list` has it, and a backup has it whole"


class DeliveryRecord(msgspec.Struct, frozen=True, array_like=True):
    """A delivery without its id, which is the row's key."""

    published_at: int
    attempts: int
    skipped: int
    last_attempt_at: int | None
    last_result: Result | None
    last_status: int | None
    body: bytes
    trace: str = ""


class ForwardedRecord(DeliveryRecord, frozen=True, array_like=True):
    """The delivery of an event that was forwarded to this server."""

    passed: str = ""


_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(ForwardedRecord).decode
_json = msgspec.json.Encoder().encode
_cursor = msgspec.json.Decoder(Cursor).decode
_hold = msgspec.json.Decoder(Hold).decode
_events = msgspec.json.Decoder(dict[str, int]).decode
_topic = msgspec.json.Decoder(Topic).decode
_subscription = msgspec.json.Decoder(Subscription).decode


def checksum(key: tuple[int, ...], *parts: bytes) -> int:
    """Eight bytes of SHA-256 over the key and the content of a row, as a signed integer.

    Processors have instructions for it: for 30 KB it takes a fifth of the time of BLAKE2.
    """
    return _digest(sha256(), key, parts)


def is_sound(stored: int, key: tuple[int, ...], *parts: bytes) -> bool:
    """Whether a row is what was stored. The first stores had checksums of BLAKE2, which are accepted as well."""
    return stored == checksum(key, *parts) or stored == _digest(blake2b(digest_size=8), key, parts)


def _digest(hash: Any, key: tuple[int, ...], parts: tuple[bytes, ...]) -> int:
    hash.update(struct.pack(f">{len(key)}q", *key))
    for part in parts:
        hash.update(part)
    return int.from_bytes(hash.digest()[:8], "big", signed=True)


def text(value: object) -> str:
    """JSON for SQL."""
    return _json(value).decode()


def lane_checksum(id: int, version: int, cursor: Cursor, hold: Hold) -> int:
    """The checksum of the columns of a lane's row that a settlement replaces. The books need none: they balance.

    A CRC, because every settlement of every lane makes one: a third of the cost of SHA-256 for so few bytes.
    """
    return crc32(_json((id, version, cursor, hold)))


def lane(row: tuple[Any, ...]) -> LaneRow:
    """A lane, from a row of lane_state; it is damaged if it is not what was settled."""
    try:
        sound = _lane(row)
    except (TypeError, ValueError, AttributeError):  # msgspec's errors are ValueErrors
        sound = None
    return sound or LaneRow(row[0], 0, "", 0, Cursor((0, 0)), CLEAR, LaneCounts(), damaged=True)


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
        _counted(reasons),
    )
    attempts = AttemptTotals(answers, took_ns, _counted(failed))
    return LaneRow(id, topic, log_id.decode(), version, cursor, hold, books, bool(ended), next_due_at, attempts)


def _counted(text: bytes | None) -> dict[str, int]:
    """Events by a name; none if the names are damaged."""
    try:
        return _events(text) if text else {}
    except ValueError:
        return {}


def _reasons(text: bytes | None, events: int) -> dict[str, int]:
    """Dropped events by reason. Reasons that do not add up are damaged: then only the sum is known."""
    reasons = _counted(text)
    return reasons if sum(reasons.values()) == events else {CORRUPT: events}


def joined(rows: Iterable[tuple[tuple[Any, ...], bytes]]) -> tuple[str, bytes]:
    """The scalars of rows as JSON, each with the start and length of its blob, and all blobs joined."""
    table, blobs, start = [], [], 1
    for scalars, blob in rows:
        table.append((*scalars, start, len(blob)))
        blobs.append(blob)
        start += len(blob)
    return text(table), b"".join(blobs)


def parked_row(lane: int, parked: Parked) -> tuple[tuple[int, ...], bytes]:
    """The row of a parked delivery."""
    delivery = parked.delivery
    last = (delivery.last_attempt_at, delivery.last_result, delivery.last_status)
    fields = (delivery.published_at, delivery.attempts, delivery.skipped, *last, delivery.body, delivery.trace)
    record = _pack(ForwardedRecord(*fields, delivery.passed) if delivery.passed else DeliveryRecord(*fields))
    key = (lane, *delivery.identity, parked.due_at)
    return (*key, checksum(key, record)), record


def read_parked(lane: int, row: tuple[int, int, int, int, bytes]) -> Parked | None:
    """A parked delivery as it was stored; None if it is damaged."""
    position, offset, due_at, stored, packed = row
    if not is_sound(stored, (lane, position, offset, due_at), packed):
        return None
    record = _unpack(packed)
    return Parked(
        due_at,
        Delivery(
            DeliveryId(position, offset),
            record.published_at,
            record.body,
            record.attempts,
            record.skipped,
            record.last_attempt_at,
            record.last_result,
            record.last_status,
            record.trace,
            record.passed,
        ),
    )


def notice_checksum(number: int, content: bytes) -> int:
    """The checksum of a notice."""
    return checksum((number,), b"notice", content)


def read_notice(row: tuple[int, bytes, int | None]) -> Notice:
    """A notice as it was stored, or a damaged one."""
    number, content, stored = row
    return Notice(number, content, stored is not None and stored != notice_checksum(number, content))


def burial_row(lane: int, burial: Burial) -> tuple[tuple[Any, ...], bytes]:
    """The row of a dead letter that waits."""
    identity, write_at, container, record = burial
    key = (lane, *identity, write_at)
    return (*key, container, checksum(key, container.encode(), record)), record


def read_burial(lane: int, row: tuple[int, int, int, str, int, bytes]) -> Burial | None:
    """A dead letter as it was stored; None if it is damaged."""
    position, offset, write_at, container, stored, record = row
    if not is_sound(stored, (lane, position, offset, write_at), container.encode(), record):
        return None
    return Burial(DeliveryId(position, offset), write_at, container, record)


class DamagedRecord(RecordDamaged):
    """A verb needs a record that is damaged."""

    def __init__(self, damage: Damage) -> None:
        id = damage.lane if damage.table == "subscription" else damage.topic
        what = damage.columns.decode() if damage.table == "document" else f"{damage.table} {id}"
        super().__init__(f"The record of {what} is damaged: {REMEDY}.")
        self.damage = damage


class ReadRecords(NamedTuple, Generic[R]):
    """Sound records, and the damaged ones among them."""

    found: list[R]
    damaged: list[Damage]


def sum_topic(id: int, doc: bytes) -> int:
    """The checksum of a topic's record, which does not cover the end of its log."""
    return checksum((id,), b"topic", doc)


def sum_subscription(id: int, topic: int, doc: bytes) -> int:
    return checksum((id, topic), b"subscription", doc)


def sum_document(kind: str, key: str, content: bytes) -> int:
    return checksum((len(kind), len(key)), kind.encode(), key.encode(), content)


def topic(row: Sequence[Any]) -> Topic | Damage:
    """A topic, of a row that begins with its id, its text and its checksum."""
    id, doc, stored = row[:3]
    return _read(lambda: _topic(doc), lambda: sum_topic(id, doc), stored, Damage("topic", id, 0, content=_bytes(doc)))


def subscription(row: Sequence[Any]) -> Subscription | Damage:
    """A subscription, of a row that begins with its id, its topic, its text and its checksum."""
    id, of, doc, stored = row[:4]
    damage = Damage("subscription", of, id, content=_bytes(doc))
    return _read(lambda: _subscription(doc), lambda: sum_subscription(id, of, doc), stored, damage)


def document(row: Sequence[Any]) -> Document | Damage:
    """A document, of its whole row."""
    kind, key, content, stored = row
    damage = Damage("document", content=_bytes(content), columns=f"{kind} {key}".encode())
    return _read(lambda: Document(key, content), lambda: sum_document(kind, key, content), stored, damage)


def demand(record: R | Damage | None) -> R | None:
    """The record; a damaged one is an error."""
    if isinstance(record, Damage):
        raise DamagedRecord(record)
    return record


def sift(rows: Iterable[Sequence[Any]], read: Callable[[Sequence[Any]], R | Damage]) -> ReadRecords[R]:
    """Read rows, and separate the sound records from the damaged ones."""
    listed: ReadRecords[R] = ReadRecords([], [])
    for row in rows:
        record = read(row)
        if isinstance(record, Damage):
            listed.damaged.append(record)
        else:
            listed.found.append(record)
    return listed


def _read(decode: Callable[[], R], sum: Callable[[], int], stored: int | None, damage: Damage) -> R | Damage:
    """Check and decode a record. One without a checksum, of an older version, is accepted if it can be decoded."""
    try:
        return damage if stored is not None and stored != sum() else decode()
    except (TypeError, ValueError, AttributeError):
        return damage


def _bytes(value: object) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()
