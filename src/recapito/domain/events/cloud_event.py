"""The CloudEvents 1.0 schema: checks the events that publishers send, in its three modes (spec §2.2).

An event is stored as the JSON object that it came as, byte for byte; one that came in binary mode, in headers and a
body, is written as an object first. Attributes are checked; extensions pass.
"""

import base64
import binascii
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple
from urllib.parse import unquote_to_bytes

import msgspec
from msgspec import UNSET, Raw, UnsetType

from recapito.domain import limits
from recapito.domain.events.event_grid import (
    NonEmptyText,
    Text,
    check_count,
    check_size,
    encode,
    is_date_time,
    refused,
)
from recapito.domain.events.json_text import Fault, decode, members, shortened, too_deep
from recapito.domain.events.schema import EventParts
from recapito.domain.events.segment import StampedEvent
from recapito.errors import TooLarge

EVENT_NAME = "CloudEventV10"
SPEC_VERSION = "1.0"
SINGLE = b"application/cloudevents+json"
BATCH = b"application/cloudevents-batch+json"
HEADER = b"ce-"


class _Attributes(msgspec.Struct, kw_only=True, gc=False):
    """The attributes that the specification defines; null counts as absent where an attribute is optional."""

    id: NonEmptyText
    source: NonEmptyText
    type: NonEmptyText
    specversion: str
    subject: Text | None = None
    time: Text | None = None
    datacontenttype: Text | None = None
    dataschema: Text | None = None
    data: Raw | UnsetType = UNSET
    data_base64: str | None = None


class Media(NamedTuple):
    """A content type: the bare type in lower case, and its character set, if it names one."""

    type: bytes
    charset: bytes = b""


_NAMES = frozenset(_Attributes.__struct_fields__)
_EXTENSION = re.compile("[a-z0-9]{1,20}")
_CHARSET = re.compile(rb';\s*charset\s*=\s*"?([^";\s]*)', re.IGNORECASE)
_UTF_8 = (b"", b"utf-8", b"utf8", b"us-ascii")
_decode_event = msgspec.json.Decoder(_Attributes).decode
_decode_list = msgspec.json.Decoder(list[Raw]).decode
_decode_any = msgspec.json.Decoder(Raw).decode


@lru_cache(100)
def media_of(content_type: bytes | None) -> Media:
    """Parse the content type of a request."""
    text = content_type or b""
    charset = _CHARSET.search(text)
    return Media(text.partition(b";")[0].strip().lower(), charset[1].lower() if charset else b"")


def in_binary_mode(headers: Mapping[bytes, bytes], media: Media) -> bool:
    """Whether a request carries its event in headers and body; then its content type is that of the data."""
    return media.type not in (SINGLE, BATCH) and any(name.startswith(HEADER) for name in headers)


def accept(body: bytes, headers: Mapping[bytes, bytes], domain: bool = False) -> list[StampedEvent]:
    """The events of one publish request; InvalidInput or TooLarge otherwise. In a domain `source` names the topic."""
    check_size(body)
    media = media_of(headers.get(b"content-type"))
    try:
        if in_binary_mode(headers, media):
            return [_checked(_from_headers(headers, media, body), domain)]
        if media.type == SINGLE or (media.type != BATCH and body.lstrip()[:1] == b"{"):
            return [_checked(bytes(decode(_decode_any, body)), domain)]
        events = decode(_decode_list, body)
        check_count(events)
        stamped: list[StampedEvent] = []
        for event in events:
            try:
                text = bytes(event)
                if text[:1] != b"{":
                    raise Fault("an event must be an object.")
                stamped.append(_checked(text, domain))
            except Fault as fault:
                raise Fault(f"Event {len(stamped)}: {fault}") from None
        return stamped
    except Fault as fault:
        raise refused(EVENT_NAME, fault) from None


def compose(parts: EventParts) -> dict[str, Any]:
    """An event of these parts; it cannot have an empty subject. In a domain its source is the domain topic."""
    event = {
        "specversion": SPEC_VERSION,
        "id": parts.id,
        "source": parts.domain_topic or parts.source,
        "type": parts.type,
        "time": parts.time,
        "subject": parts.subject,
    }
    return {**{name: value for name, value in event.items() if value}, "data": parts.data}


def _checked(text: bytes, domain: bool) -> StampedEvent:
    """Check all attributes of one event, which is valid JSON."""
    event = decode(_decode_event, text)
    if event.specversion != SPEC_VERSION:
        raise Fault(f"'specversion' must be '{SPEC_VERSION}'.")
    if event.time is not None and not is_date_time(event.time):
        raise Fault("'time' is not a date and time in RFC 3339 form.")
    if event.data_base64 is not None:
        _check_base64(event.data_base64, event.data)
    if "\0" in event.id or "\0" in event.source or "\0" in event.type or "\0" in (event.subject or ""):
        raise Fault("'id', 'source', 'type' and 'subject' must not hold the character U+0000.")
    for name, value in members(text).items():
        if name not in _NAMES:
            _check_extension(name, value)
    if too_deep(text):
        raise Fault(f"it is nested deeper than {limits.JSON_DEPTH} levels.")
    return StampedEvent(text, event.type, event.subject or "", "", event.source if domain else "", event.id)


def _check_base64(text: str, data: object) -> None:
    if data is not UNSET:
        raise Fault("'data' and 'data_base64' must not both be present.")
    try:
        binascii.a2b_base64(text, strict_mode=True)
    except ValueError:
        raise Fault("'data_base64' is not Base64.") from None


def _check_extension(name: str, value: Raw) -> None:
    if _EXTENSION.fullmatch(name) is None:
        raise Fault(
            f"attribute '{shortened(name)}': the name of an extension is 1 to 20 lower-case letters and digits."
        )
    if bytes(value)[:1] in (b"{", b"["):
        raise Fault(
            f"attribute '{name}' must be a string, a number or a boolean: only 'data' may be an object or an array."
        )


def _from_headers(headers: Mapping[bytes, bytes], media: Media, body: bytes) -> bytes:
    """The JSON object of an event that came in binary mode; its data is the body."""
    attributes = {
        name[len(HEADER) :].decode("latin-1"): _value(name, value)
        for name, value in headers.items()
        if name.startswith(HEADER)
    }
    if "datacontenttype" in attributes:
        raise Fault("Header 'ce-datacontenttype' must not be sent: in binary mode that is Content-Type.")
    if "data" in attributes or "data_base64" in attributes:
        raise Fault("In binary mode the data is the body: 'ce-data' and 'ce-data_base64' must not be sent.")
    event: dict[str, str | Raw] = {**attributes}
    if content_type := headers.get(b"content-type"):
        event["datacontenttype"] = content_type.decode("latin-1")
    if body:
        name, data = _data(media, body)
        event[name] = data
    text = encode(event)
    if len(text) > limits.EVENT_BYTES:  # Base64 and escapes make the text longer
        raise TooLarge("RequestEntityTooLarge", f"The event is larger than {limits.EVENT_BYTES} bytes as JSON.")
    return text


_ESCAPED = re.compile(rb"\\(.)", re.DOTALL)


def _value(name: bytes, value: bytes) -> str:
    """The value of an attribute: percent-encoded UTF-8, perhaps in quotes."""
    if len(value) > 1 and value[:1] == value[-1:] == b'"':
        value = _ESCAPED.sub(rb"\1", value[1:-1])
    try:
        return unquote_to_bytes(value).decode()
    except UnicodeDecodeError:
        raise Fault(f"Header '{name.decode('latin-1')}' is not percent-encoded UTF-8.") from None


def _data(media: Media, body: bytes) -> tuple[str, str | Raw]:
    """The data in the JSON format: JSON as it came, text as a string, anything else in Base64."""
    if not media.type or media.type.endswith((b"/json", b"+json")):
        return "data", decode(_decode_any, body)
    if media.type.startswith(b"text/") and media.charset in _UTF_8:
        try:
            return "data", body.decode()
        except UnicodeDecodeError:
            raise Fault("The body is not UTF-8, the character set of text.") from None
    return "data_base64", base64.b64encode(body).decode()
