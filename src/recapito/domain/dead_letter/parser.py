"""A dead letter, read again: what its record says, and the event in it as it was stored before it was sent.

What was added to the event is taken off; the bytes of the data are never written anew.
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
from recapito.domain.events.segment import StampedEvent
from recapito.domain.instant import SECOND
from recapito.errors import InvalidInput

UNKNOWN = "Unknown"  # the reason of a letter that does not tell one of ours
_REASONS = re.compile(
    "|".join((ATTEMPTS_EXCEEDED, TTL_EXCEEDED, *NEVER_RETRIED.values(), "UndeliverableDueToHttp[0-9]{3}"))
)
_HOUR = re.compile(r"[^/]+/([0-9]{4})/([0-9]{1,2})/([0-9]{1,2})/([0-9]{1,2})/[^/]+")
_ALWAYS = ("deadLetterReason", "deliveryAttempts", "lastDeliveryOutcome", "publishTime")
_ADDED = frozenset((*_ALWAYS, "lastDeliveryAttemptTime", "lastHttpStatusCode"))
_ADDED_TO_CLOUD_EVENTS = frozenset(name.lower() for name in _ADDED)


class _Record(msgspec.Struct, gc=False):
    """What is looked at of a record of either schema. A publisher may have an extension of one of these names, of any
    type: what was added for the dead letter comes after it, and the last of one name counts.
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
    """One dead letter. `topic` is what its event says of where it was published, the source of a CloudEvent."""

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
    """The letters of one file: a JSON array, or a single object as in Microsoft's samples. InvalidInput if neither."""
    try:
        content.decode()
        records = [content] if content.lstrip()[:1] == b"{" else [bytes(raw) for raw in _decode_list(content)]
        return [_read(record.strip()) for record in records]
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise InvalidInput("InvalidRequest", "The file does not hold dead letters.") from None


def _read(record: bytes) -> DeadLetter:
    it = _decode(record)
    cloud_event = it.specversion is not UNSET
    attempts = it.deliveryattempts if cloud_event else it.deliveryAttempts
    return DeadLetter(
        record=record,
        cloud_event=cloud_event,
        id=it.id,
        type=it.type if cloud_event else _text(it.eventType),
        subject=it.subject or "",
        topic=it.source if cloud_event else _text(it.topic),
        data_version=_text(it.dataVersion),
        reason=_text(it.deadletterreason if cloud_event else it.deadLetterReason),
        attempts=attempts if type(attempts) is int else 0,
        outcome=_text(it.lastdeliveryoutcome if cloud_event else it.lastDeliveryOutcome),
        published=_text(it.publishtime if cloud_event else it.publishTime),
    )


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def attempts_of(record: bytes) -> int:
    """How many attempts a record tells of; 0 if it can not be read."""
    try:
        return _read(record).attempts
    except (msgspec.DecodeError, UnicodeDecodeError):
        return 0


def count_reasons(records: Iterable[bytes]) -> dict[str, int]:
    """How many of these records have which reason; there are few, whatever publishers write into their events."""
    return dict(Counter(_reason(record) for record in records))


def _reason(record: bytes) -> str:
    try:
        reason = _read(record).reason
    except (msgspec.DecodeError, UnicodeDecodeError):
        return UNKNOWN
    return reason if _REASONS.fullmatch(reason) else UNKNOWN


def all_reasons(known: Mapping[str, int], total: int) -> dict[str, int]:
    """The reasons of all letters: those whose reason was not counted are unknown."""
    rest = total - sum(known.values())
    return {**known, UNKNOWN: known.get(UNKNOWN, 0) + rest} if rest else dict(known)


def hour_of(path: str) -> int | None:
    """The instant at which the hour began in which a file was named; None if it is no path of dead letters."""
    parts = _HOUR.fullmatch(path)
    if parts is None:
        return None
    year, month, day, hour = map(int, parts.groups())
    try:
        return int(datetime(year, month, day, hour, tzinfo=UTC).timestamp()) * SECOND
    except ValueError:
        return None


def restore(letter: DeadLetter, published: InputSchema, domain_topic: str = "") -> StampedEvent:
    """The event as a topic of this input schema stores it. InvalidInput if it can not have come from one."""
    if letter.cloud_event and published is InputSchema.CLOUD_EVENT:
        body = _without(letter.record, _CLOUD_EVENT_TAIL, _ADDED_TO_CLOUD_EVENTS)
    elif letter.cloud_event:
        body = _from_cloud_event(letter)
    elif published is InputSchema.CLOUD_EVENT:
        raise InvalidInput("InvalidRequest", "The letter is of the Event Grid schema, its topic takes CloudEvents.")
    else:
        body = _without(letter.record, _EVENT_TAIL, _ADDED)
    _check(letter, body, published)
    return StampedEvent(body, letter.type, letter.subject, letter.data_version, domain_topic, letter.id)


def _check(letter: DeadLetter, body: bytes, published: InputSchema) -> None:
    """What others wrote may lack what every event has; a lane would stop at it."""
    try:
        known = published is InputSchema.CLOUD_EVENT or bool(to_cloud_event(body))
    except msgspec.DecodeError:
        known = False
    if not known or not letter.topic or not letter.type:
        raise InvalidInput("InvalidRequest", "The letter does not hold a whole event.")


def _tail(rename: Callable[[str], str]) -> re.Pattern[bytes]:
    """What we add behind an event. The publisher may have members of the same names before it, which stay."""
    text, number = r'"[^"\\]*"', r"[0-9]+"
    members = (("deadLetterReason", text), ("deliveryAttempts", number), ("lastDeliveryOutcome", text))
    whole = "".join(f',"{rename(name)}":{value}' for name, value in (*members, ("publishTime", text)))
    extra = (("lastDeliveryAttemptTime", text), ("lastHttpStatusCode", number))
    whole += "".join(f'(?:,"{rename(name)}":{value})?' for name, value in extra)
    return re.compile((whole + r"}\Z").encode())


_EVENT_TAIL, _CLOUD_EVENT_TAIL = _tail(str), _tail(str.lower)


def _without(record: bytes, tail: re.Pattern[bytes], added: frozenset[str]) -> bytes:
    found = tail.search(record)
    if found is not None:
        return record[: found.start()] + b"}"
    members = {name: bytes(raw) for name, raw in _decode_members(record).items() if name not in added}
    data = members.pop("data", None)
    envelope = b"{" + b",".join(_encode(name) + b":" + raw for name, raw in members.items())
    return envelope + (b"}" if data is None else DATA + data + b"}")


def _from_cloud_event(letter: DeadLetter) -> bytes:
    """The Event Grid schema of what was converted on its way out; a CloudEvent does not say the data's version."""
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
