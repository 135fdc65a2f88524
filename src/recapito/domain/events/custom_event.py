"""The custom input schema: any JSON objects; the topic's mapping makes their envelopes (spec §2.3).

An event is stored in the Event Grid schema, with the publisher's object, byte for byte, as its `data`.
"""

from collections.abc import Callable
from functools import lru_cache

import msgspec
from msgspec import Raw

from recapito.domain import limits
from recapito.domain.events.event_grid import (
    METADATA_VERSION,
    Envelope,
    check_count,
    check_size,
    encode,
    refused,
    stamp,
)
from recapito.domain.events.input_mapping import InputMapping, MappedField
from recapito.domain.events.json_text import Fault, decode, reach, scalar, too_deep, top
from recapito.domain.events.segment import StampedEvent
from recapito.domain.instant import stamp as stamp_time
from recapito.errors import TooLarge

EVENT_NAME = "CustomEvent"
_decode_list = msgspec.json.Decoder(list[Raw]).decode


class Mapper:
    """Makes envelopes. An event without a mapped id or time gets `new_id()` and the publish time."""

    def __init__(self, mapping: InputMapping | None, topic_id: str, domain: bool) -> None:
        mapping = mapping or InputMapping()
        self._topic_id = topic_id
        self._domain = domain
        self._id = _Source("id", mapping.id)
        self._topic = _Source("topic", mapping.topic)
        self._time = _Source("eventTime", mapping.event_time)
        self._type = _Source("eventType", mapping.event_type)
        self._subject = _Source("subject", mapping.subject)
        self._version = _Source("dataVersion", mapping.data_version)

    def stamped(self, event: Raw, now: str, new_id: Callable[[], str]) -> StampedEvent:
        text = bytes(event)
        if text[:1] != b"{":
            raise Fault("an event must be an object.")
        properties = top(text)
        topic = self._topic.of(properties) if self._domain else None
        event_type = self._type.of(properties)
        if event_type is None:
            raise Fault("the topic's input mapping finds no 'eventType' in it and has no default.")
        if not event_type:
            raise Fault("the 'eventType' that the topic's input mapping finds in it is empty.")
        envelope = Envelope(
            id=self._id.of(properties) or new_id(),
            eventTime=self._time.of(properties) or now,
            eventType=event_type,
            dataVersion=self._version.of(properties) or "",
            metadataVersion=METADATA_VERSION,
            topic=topic,
            subject=self._subject.of(properties) or "",
            data=event,
        )
        stamp(envelope, self._topic_id, self._domain)
        encoded = encode(envelope)
        if too_deep(encoded):
            raise Fault(f"it is nested deeper than {limits.JSON_DEPTH - 1} levels.")
        version = envelope.dataVersion or ""
        return StampedEvent(encoded, envelope.eventType, envelope.subject, version, topic or "", envelope.id)


class _Source:
    """The source of one field of the envelope: a path into the event, else the default, else nothing."""

    def __init__(self, name: str, field: MappedField) -> None:
        self._name = name
        self._path = tuple(field.source.split(".")) if field.source else ()
        self._default = field.default

    def of(self, event: dict[str, Raw]) -> str | None:
        """The value in this event; None if the path leads to nothing or null, and there is no default."""
        value = reach(event, self._path) if self._path else None
        if value is None or bytes(value) == b"null":
            return self._default
        text = scalar(value)
        if text is None:
            raise Fault(f"property '{'.'.join(self._path)}', its '{self._name}', must be a string.")
        if len(text) > limits.EVENT_FIELD_CHARS:
            raise Fault(
                f"property '{'.'.join(self._path)}', its '{self._name}', has more than "
                f"{limits.EVENT_FIELD_CHARS} characters."
            )
        return text


_mapper = lru_cache(1000)(Mapper)


def accept(
    body: bytes,
    topic_id: str,
    mapping: InputMapping | None,
    now: int,
    new_id: Callable[[], str],
    domain: bool = False,
) -> list[StampedEvent]:
    """The events of one request that is published at `now`; InvalidInput or TooLarge otherwise."""
    check_size(body)
    mapper = _mapper(mapping, topic_id, domain)
    published = stamp_time(now)
    try:
        events = decode(_decode_list, body)
        check_count(events)
        stamped: list[StampedEvent] = []
        size = 0
        for event in events:
            try:
                stamped.append(mapper.stamped(event, published, new_id))
            except Fault as fault:
                raise Fault(f"Event {len(stamped)}: {fault}") from None
            size += len(stamped[-1].body)
            if size > limits.SEGMENT_BYTES:
                raise TooLarge(
                    "RequestEntityTooLarge",
                    f"The events are larger than {limits.SEGMENT_BYTES} bytes with the envelopes of the mapping.",
                )
        return stamped
    except Fault as fault:
        raise refused(EVENT_NAME, fault) from None
