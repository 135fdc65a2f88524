"""Reads dead letters: the fields of a record, and its event as it was stored before it was sent.

The added properties are removed; the bytes of the data are never encoded again.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET, Raw, UnsetType

from recapito.domain.delivery.delivery import ATTEMPTS_EXCEEDED, NEVER_RETRIED, TTL_EXCEEDED
from recapito.domain.events.conversion import DATA, to_cloud_event
from recapito.domain.events.schema import InputSchema
from recapito.domain.events.schema_table import INPUT_SCHEMAS
from recapito.domain.events.segment import StampedEvent
from recapito.domain.instant import SECOND
from recapito.errors import InvalidInput

UNKNOWN = "Unknown"  # the reason of a letter without one of ours
_REASONS = re.compile(
    "|".join((ATTEMPTS_EXCEEDED, TTL_EXCEEDED, *NEVER_RETRIED.values(), "UndeliverableDueToHttp[0-9]{3}"))
)
_HOUR = re.compile(r"[^/]+/([0-9]{4})/([0-9]{1,2})/([0-9]{1,2})/([0-9]{1,2})/[^/]+")
_ALWAYS = ("deadLetterReason", "deliveryAttempts", "lastDeliveryOutcome", "publishTime")
_ADDED = frozenset((*_ALWAYS, "lastDeliveryAttemptTime", "lastHttpStatusCode"))
_ADDED_TO_CLOUD_EVENTS = frozenset(name.lower() for name in _ADDED)


class _Record(msgspec.Struct, gc=False):
    """The fields that are read of a record of either schema. A publisher may have an extension of one of these names,
    of any type: the property added for the dead letter comes after it, and the last of one name counts.
    """

    id: str
    deadLetterReason: Any = ""
    deadletterreason: Any = ""
    deliveryAttempts: Any = 0
    deliveryattempts: Any = 0
    lastDeliveryOutcome: Any = ""
    lastdeliveryoutcome: Any = ""
    publishTime: Any = ""
    publishtime: Any = ""
    specversion: str | UnsetType = UNSET
    eventType: Any = ""
    type: str = ""
    subject: str | None = None
    topic: Any = None
    source: str = ""
    time: str | None = None
    dataVersion: Any = None


class DeadLetter(NamedTuple):
    """One dead letter. `topic` is the `topic` of its event, or the `source` of a CloudEvent."""

    record: bytes
    cloud_event: bool
    id: str
    type: str
    subject: str
    topic: str
    data_version: str
    reason: str
    attempts: int
    outcome: str
    published: str


_decode = msgspec.json.Decoder(_Record).decode
_decode_list = msgspec.json.Decoder(list[Raw]).decode
_decode_members = msgspec.json.Decoder(dict[str, Raw]).decode
_encode = msgspec.json.Encoder().encode


def read_dead_letters(content: bytes) -> list[DeadLetter]:
    """Parse one file: a JSON array, or a single object as in Microsoft's samples. InvalidInput if it is neither."""
    try:
        content.decode()
        records = [content] if content.lstrip()[:1] == b"{" else [bytes(raw) for raw in _decode_list(content)]
        return [_read(record.strip()) for record in records]
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise InvalidInput("InvalidRequest", "The file does not contain dead letters.") from None


def _read(record: bytes) -> DeadLetter:
    fields = _decode(record)
    cloud_event = fields.specversion is not UNSET
    attempts = fields.deliveryattempts if cloud_event else fields.deliveryAttempts
    return DeadLetter(
        record=record,
        cloud_event=cloud_event,
        id=fields.id,
        type=fields.type if cloud_event else _text(fields.eventType),
        subject=fields.subject or "",
        topic=fields.source if cloud_event else _text(fields.topic),
        data_version=_text(fields.dataVersion),
        reason=_text(fields.deadletterreason if cloud_event else fields.deadLetterReason),
        attempts=attempts if type(attempts) is int else 0,
        outcome=_text(fields.lastdeliveryoutcome if cloud_event else fields.lastDeliveryOutcome),
        published=_text(fields.publishtime if cloud_event else fields.publishTime),
    )


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def attempts_of(record: bytes) -> int:
    """The number of attempts in a record; 0 if it cannot be read."""
    try:
        return _read(record).attempts
    except (msgspec.DecodeError, UnicodeDecodeError):
        return 0


def count_reasons(records: Iterable[bytes]) -> dict[str, int]:
    """Count records by reason. The reasons are few, whatever publishers write into their events."""
    return dict(Counter(_reason(record) for record in records))


def _reason(record: bytes) -> str:
    try:
        reason = _read(record).reason
    except (msgspec.DecodeError, UnicodeDecodeError):
        return UNKNOWN
    return reason if _REASONS.fullmatch(reason) else UNKNOWN


def all_reasons(counted: Mapping[str, int], total: int) -> dict[str, int]:
    """The counts by reason of all letters: those whose reason was not counted are unknown."""
    rest = total - sum(counted.values())
    return {**counted, UNKNOWN: counted.get(UNKNOWN, 0) + rest} if rest else dict(counted)


def hour_of(path: str) -> int | None:
    """The start of the hour in which a file was named; None if it is not a path of dead letters."""
    parts = _HOUR.fullmatch(path)
    if parts is None:
        return None
    year, month, day, hour = map(int, parts.groups())
    try:
        return int(datetime(year, month, day, hour, tzinfo=UTC).timestamp()) * SECOND
    except ValueError:
        return None


def restore(letter: DeadLetter, published: InputSchema, domain_topic: str = "") -> StampedEvent:
    """The event as a topic of this input schema stores it. InvalidInput if it cannot have come from one."""
    stores_cloud_events = INPUT_SCHEMAS[published].stores_cloud_events
    if letter.cloud_event and stores_cloud_events:
        body = _without(letter.record, _CLOUD_EVENT_TAIL, _ADDED_TO_CLOUD_EVENTS)
    elif letter.cloud_event:
        body = _from_cloud_event(letter)
    elif stores_cloud_events:
        raise InvalidInput("InvalidRequest", "The letter is in the Event Grid schema, but its topic takes CloudEvents.")
    else:
        body = _without(letter.record, _EVENT_TAIL, _ADDED)
    _check(letter, body, stores_cloud_events)
    return StampedEvent(body, letter.type, letter.subject, letter.data_version, domain_topic, letter.id)


def _check(letter: DeadLetter, body: bytes, is_cloud_event: bool) -> None:
    """Refuse a letter without a field that every event has: a lane would stop at it. Others may have written it."""
    try:
        whole = is_cloud_event or bool(to_cloud_event(body))
    except msgspec.DecodeError:
        whole = False
    if not whole or not letter.topic or not letter.type:
        raise InvalidInput("InvalidRequest", "The letter does not contain a whole event.")


def _tail(rename: Callable[[str], str]) -> re.Pattern[bytes]:
    """The properties that we append to an event. Members of the same names before them are the publisher's and stay."""
    text, number = r'"[^"\\]*"', r"[0-9]+"
    members = (("deadLetterReason", text), ("deliveryAttempts", number), ("lastDeliveryOutcome", text))
    whole = "".join(f',"{rename(name)}":{value}' for name, value in (*members, ("publishTime", text)))
    extra = (("lastDeliveryAttemptTime", text), ("lastHttpStatusCode", number))
    whole += "".join(f'(?:,"{rename(name)}":{value})?' for name, value in extra)
    return re.compile((whole + r"}\Z").encode())


_EVENT_TAIL, _CLOUD_EVENT_TAIL = _tail(str), _tail(str.lower)


def _without(record: bytes, tail: re.Pattern[bytes], added: frozenset[str]) -> bytes:
    ours = tail.search(record)
    if ours is not None:
        return record[: ours.start()] + b"}"
    members = {name: bytes(raw) for name, raw in _decode_members(record).items() if name not in added}
    data = members.pop("data", None)
    envelope = b"{" + b",".join(_encode(name) + b":" + raw for name, raw in members.items())
    return envelope + (b"}" if data is None else DATA + data + b"}")


def _from_cloud_event(letter: DeadLetter) -> bytes:
    """The Event Grid form of an event that was sent as a CloudEvent, which does not carry the data version."""
    members = _decode_members(letter.record)
    envelope = {
        "id": letter.id,
        "eventTime": _decode(letter.record).time or "",
        "eventType": letter.type,
        "dataVersion": "",
        "metadataVersion": "1",
        "topic": letter.topic,
        "subject": letter.subject,
    }
    return _encode(envelope)[:-1] + (DATA + bytes(members["data"]) if "data" in members else b"") + b"}"
