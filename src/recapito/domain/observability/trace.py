"""The W3C's traceparent: the position of an event in a trace, which travels from publisher to subscriber."""

import re
from typing import NamedTuple

import msgspec

_SHAPE = re.compile(r"(?!ff)([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.DOTALL)
_NAME = b'"traceparent"'


class TraceParent(NamedTuple):
    """A span: the ids of its trace and its own, in hexadecimal; `sampled` if its creator records it."""

    trace_id: str
    span_id: str
    sampled: bool = True

    def __str__(self) -> str:
        return f"00-{self.trace_id}-{self.span_id}-{int(self.sampled):02d}"


class _Traced(msgspec.Struct):
    traceparent: str = ""


_decode = msgspec.json.Decoder(_Traced).decode


def parse(text: str) -> TraceParent | None:
    """Parse a traceparent; None if it is not one. An unknown version may have more fields at its end."""
    parts = _SHAPE.fullmatch(text)
    if parts is None or (parts[1] == "00" and parts[5] is not None):
        return None
    if not parts[2].strip("0") or not parts[3].strip("0"):
        return None
    return TraceParent(parts[2], parts[3], bool(int(parts[4], 16) & 1))


def traceparent_of(event: bytes) -> TraceParent | None:
    """The traceparent attribute of a CloudEvent; None without a valid one."""
    if _NAME not in event:
        return None
    try:
        return parse(_decode(event).traceparent)
    except msgspec.MsgspecError:
        return None
