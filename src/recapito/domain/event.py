"""The Event Grid schema: what a publisher may send, and what every subscriber gets.

The envelope is checked and stamped (spec §2.1); the bytes of `data` are forwarded as they came, and nothing on the way
re-serialises them. Whatever is wrong with a body is the publisher's error, never ours.
"""

import re
from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from recapito.domain import limits
from recapito.domain.segment import StampedEvent
from recapito.errors import InvalidInput, TooLarge

METADATA_VERSION = "1"

_Text = Annotated[str, Meta(max_length=limits.EVENT_FIELD_CHARS)]
_NonEmptyText = Annotated[str, Meta(min_length=1, max_length=limits.EVENT_FIELD_CHARS)]


class _Event(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, gc=False):
    """One event, decoded, stamped in place and encoded again. The order of the fields is that of a delivery."""

    id: _NonEmptyText
    eventTime: _NonEmptyText
    eventType: _NonEmptyText
    dataVersion: _Text | None = None
    metadataVersion: _Text | None = None
    topic: _Text | None = None
    subject: _Text
    data: Raw | UnsetType = UNSET


_decode = msgspec.json.Decoder(list[_Event]).decode
_encode = msgspec.json.Encoder().encode
_date_time = datetime.fromisoformat


def accept(body: bytes, topic_id: str) -> list[StampedEvent]:
    """The events of one publish request, stamped for the topic with this ARM id; or an error that says why not."""
    if len(body) > limits.PUBLISH_BYTES:
        raise TooLarge("RequestEntityTooLarge", f"The request is larger than {limits.PUBLISH_BYTES} bytes.")
    events = _parse(body)
    if not events:
        raise _invalid("The array holds no event.")
    if len(events) > limits.PUBLISH_EVENTS:
        raise TooLarge("RequestEntityTooLarge", f"The request holds more than {limits.PUBLISH_EVENTS} events.")
    stamped: list[StampedEvent] = []
    for event in events:
        fault = _stamp(event, topic_id)
        encoded = _encode(event)
        if not fault and _too_deep(encoded):
            fault = f"it is nested deeper than {limits.JSON_DEPTH} levels"
        if fault:
            raise _invalid(f"Event {len(stamped)}: {fault}.")
        stamped.append(StampedEvent(encoded, event.eventType, event.subject, event.dataVersion or ""))
    return stamped


def _parse(body: bytes) -> list[_Event]:
    try:
        if not body.isascii():
            body.decode()  # msgspec skips over `data` without a look at its UTF-8
        return _decode(body)
    except UnicodeDecodeError:
        raise _invalid("The body is not UTF-8.") from None
    except msgspec.ValidationError as error:
        raise _invalid(_explain(str(error))) from None
    except msgspec.DecodeError as error:
        raise _invalid(f"{_sentence(str(error))}.") from None
    except RecursionError:
        raise _invalid(f"The JSON is nested deeper than {limits.JSON_DEPTH} levels.") from None


def _stamp(event: _Event, topic_id: str) -> str | None:
    """Fill in what the service adds, and say what is wrong with the rest, if anything."""
    if not _is_date_time(event.eventTime):
        return "'eventTime' is not a date and time in ISO 8601 form"
    if event.dataVersion is None:
        event.dataVersion = ""
    elif not (event.dataVersion.isascii() and event.dataVersion.isprintable()):
        return "'dataVersion' may hold printable ASCII characters only, because it becomes a header"
    if event.metadataVersion is None:
        event.metadataVersion = METADATA_VERSION
    elif event.metadataVersion != METADATA_VERSION:
        return f"'metadataVersion' must be '{METADATA_VERSION}' or absent"
    if event.topic is None:
        event.topic = topic_id
    elif event.topic != topic_id:
        return "'topic' must be the resource id of this topic or absent"
    if "\0" in event.id or "\0" in event.eventType or "\0" in event.subject:
        return "'id', 'eventType' and 'subject' must not hold the character U+0000"
    return None


def _is_date_time(text: str) -> bool:
    upper = text.upper()  # RFC 3339 allows a lower-case t and z
    try:
        _date_time(upper)
    except ValueError:
        return False
    return "T" in upper or " " in upper


_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_BRACKETS = bytes.maketrans(b"{}", b"[]")
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


def _too_deep(text: bytes) -> bool:
    """Whether valid JSON is nested deeper than allowed: the innermost pairs are taken away, level by level.

    Few events have brackets enough for that; `replace` finds them five times faster than `count` does.
    """
    if len(text) - len(text.replace(b"{", b"").replace(b"[", b"")) <= limits.JSON_DEPTH:
        return False
    brackets = _STRING.sub(b"", text).translate(_BRACKETS, _NOT_BRACKETS)
    for _ in range(limits.JSON_DEPTH):
        brackets = brackets.replace(b"[]", b"")
    return bool(brackets)


_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(\w+)`")
_PLACE = re.compile(r" - at `\$\[(\d+)\](?:\.(\w+))?`$")


def _explain(error: str) -> str:
    """A validation error of msgspec, in Event Grid's manner: which event, which property, what was expected."""
    place = _PLACE.search(error)
    if place is None:
        return f"{_sentence(error)}: the body must be an array of events."
    said = error[: place.start()]
    index, field = place.groups()
    if unknown := _UNKNOWN.fullmatch(said):
        return f"Event {index}: received unexpected property '{_shortened(unknown[1])}' in JSON."
    if missing := _MISSING.fullmatch(said):
        return f"Event {index}: required property '{missing[1]}' is missing."
    return f"Event {index}: property '{field}': {_sentence(said)}." if field else f"Event {index}: {_sentence(said)}."


def _sentence(said: str) -> str:
    return said.replace("`", "'").replace(" | null", "")


def _shortened(name: str) -> str:
    printable = "".join(c if c.isprintable() else "?" for c in name[:65])
    return printable if len(name) <= 64 else f"{printable[:64]}…"


def _invalid(what: str) -> InvalidInput:
    return InvalidInput(
        "InputJsonInvalid",
        "This resource is configured to receive event in 'EventGridEvent' schema. "
        f"The JSON received does not conform to the expected schema. {what}",
    )
