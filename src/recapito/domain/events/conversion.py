"""Converts stored events to the schema that a subscription gets; `schema_table` has the matrix of spec §2.4.

Event Grid events and custom events are stored in the Event Grid schema with `data` last, CloudEvents as they came. The
bytes of the data are never encoded again.
"""

from collections.abc import Callable
from functools import lru_cache

import msgspec
from msgspec import UNSET, Raw, UnsetType

Convert = Callable[[bytes], bytes]

DATA = b',"data":'


class _Stored(msgspec.Struct, gc=False):
    id: str
    eventTime: str
    eventType: str
    topic: str
    subject: str
    data: Raw | UnsetType = UNSET


class _CloudEvent(msgspec.Struct, gc=False):
    specversion: str
    id: str
    source: str
    type: str
    time: str
    subject: str | UnsetType
    data: Raw | UnsetType


class _Forwarded(msgspec.Struct, gc=False, kw_only=True):
    id: str
    eventTime: str
    eventType: str
    dataVersion: str | UnsetType = UNSET
    metadataVersion: str | UnsetType = UNSET
    topic: str | UnsetType = UNSET
    subject: str
    data: Raw | UnsetType = UNSET


class _Data(msgspec.Struct, gc=False):
    data: Raw | UnsetType = UNSET


_decode_stored = msgspec.json.Decoder(_Stored).decode
_decode_forwarded = msgspec.json.Decoder(_Forwarded).decode
_decode_data = msgspec.json.Decoder(_Data).decode
_encode = msgspec.json.Encoder().encode


def to_cloud_event(stored: bytes) -> bytes:
    """An event of the Event Grid schema as a CloudEvent, which cannot have an empty subject."""
    event = _decode_stored(stored)
    subject = event.subject or UNSET
    return _encode(_CloudEvent("1.0", event.id, event.topic, event.eventType, event.eventTime, subject, event.data))


def to_custom_event(stored: bytes) -> bytes:
    """The event as its publisher wrote it."""
    return split_data(stored)[1]


def to_topic(stored: bytes) -> bytes:
    """An event of the Event Grid schema for another topic, which writes its own id into `topic`."""
    event = _decode_forwarded(stored)
    event.topic = UNSET
    return _encode(event)


def to_domain(stored: bytes) -> bytes:
    """An event of a domain for another domain: its topic has the same name there."""
    event = _decode_forwarded(stored)
    event.topic = (event.topic or "").rpartition("/")[2]
    return _encode(event)


@lru_cache(1000)
def to_domain_topic(name: str) -> Convert:
    """The conversion for a topic of a domain; equal for equal names, so that lanes share its results."""

    def convert(stored: bytes) -> bytes:
        event = _decode_forwarded(stored)
        event.topic = name
        return _encode(event)

    return convert


def split_data(stored: bytes) -> tuple[bytes, bytes]:
    """The envelope of a stored event in the Event Grid schema, up to its `data`, and the bytes of `data`."""
    data = _decode_data(stored).data
    if data is UNSET:
        return stored[:-1], b""
    value = bytes(data)
    return stored[: -len(value) - len(DATA) - 1], value


def refuse(stored: bytes) -> bytes:
    """No subscription can be created with such a pair of schemas; if one existed, its lane must stop."""
    raise ValueError("events of this topic's input schema are not delivered in this schema")
