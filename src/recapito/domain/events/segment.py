"""A segment: the events of one topic that one commit appended, ready to be sent as they lie.

The body is the stamped events joined by commas, so any run of neighbours is one slice of it; the columns have
the end, the type, the subject and the publish time of each event. Nothing here encodes an event again.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from copy import copy
from functools import partial
from itertools import accumulate, chain
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec.structs import astuple

T = TypeVar("T", bound=Hashable)

NO_TRACES: Mapping[int, str] = MappingProxyType({})


REPLAYED = "replay:"
"""The beginning of the origin of replayed events; the position that they come from follows."""


class StampedEvent(msgspec.Struct, frozen=True, gc=False):
    """One accepted event: the bytes to store, and the fields that filters read. Only a domain's events have a topic."""

    body: bytes
    type: str
    subject: str
    data_version: str
    domain_topic: str = ""
    id: str = ""


class Publish(NamedTuple):
    """The events of one accepted request; they are stored together or not at all.

    `traces` has the traceparents of the traced events, by their index. `passed` are the waymarks of the topics that the
    events came by, if they were forwarded.
    """

    published_at: int
    events: list[StampedEvent]
    traces: Mapping[int, str] = NO_TRACES
    passed: str = ""


class Columns(msgspec.Struct, frozen=True, array_like=True):
    """The ends, the fields that filters read, and the ids of the events of a segment; old segments have no ids.

    A redriven, resent or replayed segment is for `only` one subscription and comes from `origin`: a file of dead
    letters, a place in the log (`resend_origin`), or the position after "replay:". `traces` has the
    traceparents of the few traced events. The order of the fields is a file format.
    """

    ends: list[int]
    types: list[str]
    type_of: list[int]
    versions: list[str]
    version_of: list[int]
    subjects: Sequence[str]
    publishes: list[tuple[int, int]]  # (number of events, published at)
    domain_topics: list[str] = []
    domain_topic_of: list[int] = []
    only: int = 0
    origin: str = ""
    ids: Sequence[str] = []
    traces: dict[int, str] = {}


class ForwardedColumns(Columns, frozen=True, array_like=True):
    """The columns of a segment with forwarded events: `passed` has a text for each publish."""

    passed: list[str] = []


_RESENT = "resend "  # no key of a file of dead letters contains a space before its colon


def resend_origin(position: int, offset: int) -> str:
    """The origin of an event that is delivered again from a place of the log."""
    return f"{_RESENT}{position}:{offset}"


def resent_from(origin: str) -> str | None:
    """The place, as position:offset, from which an event was resent; None if it was not."""
    return origin.removeprefix(_RESENT) if origin.startswith(_RESENT) else None


class _IdOnly(msgspec.Struct):
    id: str = ""


_decode_named = msgspec.json.Decoder(_IdOnly).decode
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(ForwardedColumns).decode


def id_of(event: bytes) -> str:
    """The id of a stored event, which has the same name in all schemas; empty if there is none."""
    try:
        return _decode_named(event).id
    except msgspec.DecodeError:
        return ""


def pack(publishes: Sequence[Publish], only: int = 0, origin: str = "") -> tuple[bytes, bytes]:
    """The packed columns and the body of the segment that holds these publishes, in their order."""
    events = chain.from_iterable([publish.events for publish in publishes])
    bodies, type, subjects, version, domain_topic, ids = by_field(StampedEvent, events)
    types, type_of = numbered(type)
    versions, version_of = numbered(version)
    domain_topics: list[str] = []
    domain_topic_of: list[int] = []
    if domain_topic and domain_topic[0]:  # all events of a log are a domain's, or none
        domain_topics, domain_topic_of = numbered(domain_topic)
    passed = [publish.passed for publish in publishes]
    make = partial(ForwardedColumns, passed=passed) if any(passed) else Columns
    columns = make(
        ends=_ends(bodies),
        types=types,
        type_of=type_of,
        versions=versions,
        version_of=version_of,
        subjects=subjects,
        publishes=[(len(publish.events), publish.published_at) for publish in publishes],
        domain_topics=domain_topics,
        domain_topic_of=domain_topic_of,
        only=only,
        origin=origin,
        ids=ids,
        traces=_traces(publishes),
    )
    return _encode(columns), b",".join(bodies)


def _ends(bodies: Sequence[bytes]) -> list[int]:
    """The end of each body when they are joined by commas."""
    return [end + commas for commas, end in enumerate(accumulate(map(len, bodies)))]


def _traces(publishes: Sequence[Publish]) -> dict[int, str]:
    """The traceparents of all publishes, by the index of the event in the segment."""
    traces: dict[int, str] = {}
    start = 0
    for publish in publishes:
        if publish.traces:
            traces.update((start + i, trace) for i, trace in publish.traces.items())
        start += len(publish.events)
    return traces


def by_field(kind: type[msgspec.Struct], values: Iterable[msgspec.Struct]) -> Sequence[Sequence[Any]]:
    """The fields of structs of this kind, each as a column, without a step of Python for each value."""
    return tuple(zip(*map(astuple, values), strict=True)) or ((),) * len(kind.__struct_fields__)


def numbered(names: Sequence[T]) -> tuple[list[T], list[int]]:
    """The distinct values, and for each value its index among them; mostly there is only one."""
    distinct = list(dict.fromkeys(names))
    if len(distinct) == 1:
        return distinct, [0] * len(names)
    number = {name: n for n, name in enumerate(distinct)}
    return distinct, [number[name] for name in names]


class Segment:
    """A decoded segment, shared read-only by all lanes near it; `original` is the source of a converted one.

    `domain_topics` are the distinct topics of a domain's events; empty outside a domain. `passed` has the text of each
    event; it is empty if none was forwarded.
    """

    __slots__ = (
        "body",
        "domain_topic_of",
        "domain_topics",
        "ends",
        "ids",
        "only",
        "origin",
        "original",
        "passed",
        "published_at",
        "subjects",
        "traces",
        "type_of",
        "types",
        "version_of",
        "versions",
    )

    def __init__(self, packed: bytes, body: bytes) -> None:
        columns = _decode(packed)
        self.body = body
        self.original: Segment | None = None
        self.ends = columns.ends
        self.types = columns.types
        self.type_of = columns.type_of
        self.versions = columns.versions
        self.version_of = columns.version_of
        self.subjects = columns.subjects
        self.published_at = [at for count, at in columns.publishes for _ in range(count)]
        self.domain_topics = columns.domain_topics
        self.domain_topic_of = columns.domain_topic_of
        self.only = columns.only
        self.origin = columns.origin
        self.ids = columns.ids
        self.traces = columns.traces
        passed = zip(columns.publishes, columns.passed, strict=False)
        self.passed = [text for (count, _), text in passed for _ in range(count)] if columns.passed else []

    def __len__(self) -> int:
        return len(self.ends)

    def __repr__(self) -> str:
        return f"<Segment of {len(self.ends)} events, {len(self.body)} bytes>"

    def start(self, i: int) -> int:
        """The offset of event `i` in the body."""
        return self.ends[i - 1] + 1 if i else 0

    def event(self, i: int) -> bytes:
        return self.body[self.start(i) : self.ends[i]]

    def stored(self, i: int) -> bytes:
        """The bytes of event `i` as they are stored, also in a converted segment."""
        return self.event(i) if self.original is None else self.original.event(i)

    def type(self, i: int) -> str:
        return self.types[self.type_of[i]]

    def id(self, i: int) -> str:
        return self.ids[i] if self.ids else id_of(self.stored(i))

    def converted(self, convert: Callable[[bytes], bytes]) -> "Segment":
        """The same events in another schema; it shares the columns."""
        segment = copy(self)
        bodies = [convert(self.event(i)) for i in range(len(self))]
        segment.body = b",".join(bodies)
        segment.ends = _ends(bodies)
        segment.original = self
        return segment
