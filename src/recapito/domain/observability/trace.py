"""Where an event stands in a trace: the W3C's traceparent, which travels from the publisher to the subscriber."""

import re
from typing import NamedTuple

import msgspec

_SHAPE = re.compile(r"(?!ff)([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.DOTALL)
_NAME = b'"traceparent"'


class TraceParent(NamedTuple):
    """A span by the ids of its trace and its own, in hexadecimal; `sampled`: whoever began it records it."""

    trace_id: str
    span_id: str
    sampled: bool = True

    def __str__(self) -> str:
        return f"00-{self.trace_id}-{self.span_id}-{int(self.sampled):02d}"


class _Traced(msgspec.Struct):
    traceparent: str = ""


_decode = msgspec.json.Decoder(_Traced).decode


def parse(text: str) -> TraceParent | None:
    """What a traceparent says; None if it is not one. A version that is not known yet may say more at its end."""
    found = _SHAPE.fullmatch(text)
    if found is None or (found[1] == "00" and found[5] is not None):
        return None
    if not found[2].strip("0") or not found[3].strip("0"):
        return None
    return TraceParent(found[2], found[3], bool(int(found[4], 16) & 1))


def traceparent_of(event: bytes) -> TraceParent | None:
    """The traceparent that a CloudEvent has as an attribute."""
    if _NAME not in event:
        return None
    try:
        return parse(_decode(event).traceparent)
    except msgspec.MsgspecError:
        return None
