"""The Event Grid schema: checks the events that publishers send, and stamps their envelopes (spec §2.1).

The bytes of `data` are forwarded as they came, and nothing on the way encodes them again. Every fault of a body is the
publisher's error, never ours.
"""

import re
from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from recapito.domain import limits
from recapito.domain.events.json_text import Fault, check_members_once, decode, too_deep
from recapito.domain.events.schema import EventParts
from recapito.domain.events.segment import StampedEvent
from recapito.errors import InvalidInput, TooLarge

EVENT_NAME = "EventGridEvent"
METADATA_VERSION = "1"

Text = Annotated[str, Meta(max_length=limits.EVENT_FIELD_CHARS)]
NonEmptyText = Annotated[str, Meta(min_length=1, max_length=limits.EVENT_FIELD_CHARS)]


class Envelope(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, gc=False):
    """One event, decoded, stamped in place and encoded again. The order of the fields is that of a delivery."""

    id: NonEmptyText
    eventTime: NonEmptyText
    eventType: NonEmptyText
    dataVersion: Text | None = None
    metadataVersion: Text | None = None
    topic: Text | None = None
    subject: Text
    data: Raw | UnsetType = UNSET


_decode = msgspec.json.Decoder(list[Envelope]).decode
encode = msgspec.json.Encoder().encode
_ISO_8601 = re.compile(
    r"\d{4}(?:-\d\d-\d\d|\d{4}|-W\d\d-\d|W\d{3})[T ]"
    r"\d\d(?::?\d\d(?::?\d\d(?:[.,]\d+)?)?)?(?:Z|[-+]\d\d(?::?\d\d)?)?",
    re.ASCII,
)
_convert = msgspec.convert
_SHORTEST_MEMBER = len('"id":"1",')
_STAMPS = ('"dataVersion":"",', f'"metadataVersion":"{METADATA_VERSION}",', '"topic":"",')


def accept(body: bytes, topic_id: str, domain: bool = False) -> list[StampedEvent]:
    """The events of one publish request, stamped for the topic with this ARM id; InvalidInput or TooLarge otherwise.

    In a domain each event names its domain topic.
    """
    check_size(body)
    try:
        events = decode(_decode, body)
        check_count(events)
        sizes = _sizes(topic_id, domain)
        spare = len(body) - len(events) - 1  # bytes that no event accounts for: blanks, or repeated members
        members = 0
        stamped: list[StampedEvent] = []
        for event in events:
            try:
                added = stamp(event, topic_id, domain)
                encoded = encode(event)
                if too_deep(encoded):
                    raise Fault(f"it is nested deeper than {limits.JSON_DEPTH} levels.")
            except Fault as fault:
                raise Fault(f"Event {len(stamped)}: {fault}") from None
            spare += sizes[added] - len(encoded)
            members += added.bit_count()
            name = domain_topic_name(event.topic or "") if domain else ""
            version = event.dataVersion or ""
            stamped.append(StampedEvent(encoded, event.eventType, event.subject, version, name, event.id))
        if spare >= _SHORTEST_MEMBER and not _only_blanks(body, stamped, members):
            check_members_once(body)
    except Fault as fault:
        raise refused(EVENT_NAME, fault) from None
    return stamped


def compose(parts: EventParts) -> dict[str, Any]:
    """An event of these parts, as a publisher sends it."""
    event = {
        "id": parts.id,
        "eventTime": parts.time,
        "eventType": parts.type,
        "dataVersion": parts.data_version,
        "subject": parts.subject,
    }
    topic = {} if parts.domain_topic is None else {"topic": parts.domain_topic}
    return {**event, **topic, "data": parts.data}


def stamp(event: Envelope, topic_id: str, domain: bool) -> int:
    """Check the envelope and add the members that the service adds; returns a bit for each added member."""
    added = 0
    if not is_date_time(event.eventTime):
        raise Fault("'eventTime' is not a date and time in ISO 8601 form.")
    if event.dataVersion is None:
        event.dataVersion = ""
        added = 1
    elif not (event.dataVersion.isascii() and event.dataVersion.isprintable()):
        raise Fault("'dataVersion' must be printable ASCII, because it becomes a header.")
    if event.metadataVersion is None:
        event.metadataVersion = METADATA_VERSION
        added |= 2
    elif event.metadataVersion != METADATA_VERSION:
        raise Fault(f"'metadataVersion' must be '{METADATA_VERSION}' or absent.")
    if domain:
        event.topic = domain_topic_id(topic_id, event.topic)
    elif event.topic is None:
        event.topic = topic_id
        added |= 4
    elif event.topic != topic_id:
        raise Fault("'topic' must be the resource id of this topic or absent.")
    if "\0" in event.id or "\0" in event.eventType or "\0" in event.subject:
        raise Fault("'id', 'eventType' and 'subject' must not hold the character U+0000.")
    return added


@lru_cache(limits.TOPIC_CACHE)
def _sizes(topic_id: str, domain: bool) -> tuple[int, ...]:
    """The bytes by which an event grows, for each set of members that `stamp` may add. In a domain its topic grows."""
    topic = len(encode(topic_id)) - 2
    version, metadata, own_topic = map(len, _STAMPS)
    grown = topic + len("/topics/") if domain else 0
    return tuple(
        bool(n & 1) * version + bool(n & 2) * metadata + bool(n & 4) * (own_topic + topic) + grown for n in range(8)
    )


def _only_blanks(body: bytes, stamped: list[StampedEvent], members: int) -> bool:
    """Whether a body has exactly the quotes of its events without the added members: then no member is repeated."""
    quotes = sum([event.body.count(b'"') for event in stamped]) - 4 * members
    return body.count(b'"') == quotes and b"\\u0022" not in body  # an escaped quote would not be counted


def domain_topic_id(domain_id: str, name: str | None) -> str:
    """The ARM id of a domain topic, which is the `topic` of its events."""
    if not name:
        raise Fault("'topic' must name a topic of this domain.")
    if "/" in name or not name.isprintable():
        raise Fault("'topic' must be the bare name of a topic of this domain.")
    return f"{domain_id}/topics/{name}"


def domain_topic_name(id: str) -> str:
    return id.rpartition("/")[2]


def is_date_time(text: str) -> bool:
    """Whether a text is a date and a time, as RFC 3339 and ISO 8601 write them."""
    try:
        _convert(text, datetime)
    except msgspec.ValidationError:
        return _is_other_date_time(text.upper())
    return "\0" not in text


def _is_other_date_time(text: str) -> bool:
    """The forms of ISO 8601 that RFC 3339 does not have. Python alone would accept texts that are neither."""
    if _ISO_8601.fullmatch(text) is None:
        return False
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def check_size(body: bytes) -> None:
    if len(body) > limits.PUBLISH_BYTES:
        raise TooLarge("RequestEntityTooLarge", f"The request is larger than {limits.PUBLISH_BYTES} bytes.")


def check_count(events: Sequence[object]) -> None:
    """Refuse a request without events, or with too many."""
    if not events:
        raise Fault("The array holds no event.")
    if len(events) > limits.PUBLISH_EVENTS:
        raise TooLarge("RequestEntityTooLarge", f"The request holds more than {limits.PUBLISH_EVENTS} events.")


def refused(schema: str, fault: Fault) -> InvalidInput:
    """The error of a request that is not in the schema of its topic."""
    return InvalidInput(
        "InputJsonInvalid",
        f"This resource is configured to receive event in '{schema}' schema. "
        f"The JSON received does not conform to the expected schema. {fault}",
    )
