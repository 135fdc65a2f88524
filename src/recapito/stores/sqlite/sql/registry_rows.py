"""The records of the registry, each with a checksum: how a row is read, and told from one that is damaged."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from recapito.contracts.damage import Damage
from recapito.contracts.registry import Document
from recapito.domain.resources.subscription import Subscription
from recapito.domain.resources.topic import Topic
from recapito.errors import RecordDamaged
from recapito.stores.sqlite.sql.checksum import checksum

R = TypeVar("R")
REMEDY = "others are not; `recapito damaged list` has it, and a backup has it whole"

_topic = msgspec.json.Decoder(Topic).decode
_subscription = msgspec.json.Decoder(Subscription).decode


class DamagedRecord(RecordDamaged):
    """A verb needs a record that is damaged."""

    def __init__(self, damage: Damage) -> None:
        id = damage.lane if damage.table == "subscription" else damage.topic
        what = damage.columns.decode() if damage.table == "document" else f"{damage.table} {id}"
        super().__init__(f"The record of {what} is damaged: {REMEDY}.")
        self.damage = damage


class Listed(NamedTuple, Generic[R]):
    """Records that are sound, and what is damaged among them."""

    found: list[R]
    damaged: list[Damage]


def sum_topic(id: int, doc: str) -> int:
    """The checksum of a topic's record; where its log ends is not part of it."""
    return checksum((id,), b"topic", doc.encode())


def sum_subscription(id: int, topic: int, doc: str) -> int:
    """The checksum of a subscription's record."""
    return checksum((id, topic), b"subscription", doc.encode())


def sum_document(kind: str, key: str, content: bytes) -> int:
    """The checksum of a document."""
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


def sift(rows: Iterable[Sequence[Any]], read: Callable[[Sequence[Any]], R | Damage]) -> Listed[R]:
    """The sound ones of some rows, and the damaged ones."""
    listed: Listed[R] = Listed([], [])
    for row in rows:
        record = read(row)
        if isinstance(record, Damage):
            listed.damaged.append(record)
        else:
            listed.found.append(record)
    return listed


def _read(decode: Callable[[], R], sum: Callable[[], int], stored: int | None, damage: Damage) -> R | Damage:
    """A record without a checksum, of before there were any, is believed if it can be read."""
    try:
        return damage if stored is not None and stored != sum() else decode()
    except (TypeError, ValueError, AttributeError):
        return damage


def _bytes(value: object) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()
