"""Traces: from a publish over its commit to each attempt, for the few publishes that are sampled.

A publish that is not sampled costs one look at the request's headers, and none when traces are off. Spans hold names
and numbers, never an event, a header or a URL's query.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import NamedTuple

from recapito.domain import limits
from recapito.domain.events.schema_table import INPUT_SCHEMAS
from recapito.domain.events.segment import StampedEvent
from recapito.domain.instant import SECOND
from recapito.domain.observability.trace import TraceParent, parse, traceparent_of
from recapito.domain.resources.topic import Topic

Attributes = Mapping[str, str | int | bool]


class CallSide(Enum):
    """The side of a call that a span describes."""

    SERVER = "server"
    INTERNAL = "internal"
    CLIENT = "client"


class Span(NamedTuple):
    """One operation in a trace. `error` is the reason of its failure; `links` are related spans."""

    name: str
    kind: CallSide
    place: TraceParent
    parent: TraceParent | None
    start: int
    end: int
    attributes: Attributes
    error: str | None = None
    links: Sequence[TraceParent] = ()


Sink = Callable[[Span], None]
"""Takes spans that have ended; it neither raises nor waits."""


class Sampling(NamedTuple):
    """The share of publishes without a traceparent that is traced, and the most publishes traced in a second."""

    ratio: float
    per_second: int


class Traced(NamedTuple):
    """A publish that is traced: its spans, each with its parent, and the traceparents of its events by their index."""

    topic: str
    events: int
    since: int
    spans: Sequence[tuple[TraceParent, TraceParent | None]]
    traces: Mapping[int, str]


class Tracer:
    """Decides which publishes are traced, and records them. `random_bits(n)` has n bits, `random()` is in [0, 1)."""

    def __init__(
        self,
        sink: Sink,
        sampling: Sampling,
        now: Callable[[], int],
        random_bits: Callable[[int], int],
        random: Callable[[], float],
    ) -> None:
        self.record = sink
        self.now = now
        self._sampling = sampling
        self._random_bits = random_bits
        self._random = random
        self._second = self._begun = 0

    def child(self, parent: TraceParent | None) -> TraceParent:
        """A new span id in the trace of a parent, or in a new trace."""
        trace_id = f"{self._random_bits(128) or 1:032x}" if parent is None else parent.trace_id
        return TraceParent(trace_id, f"{self._random_bits(64) or 1:016x}")

    def sample(
        self, topic: Topic, headers: Mapping[bytes, bytes], events: Sequence[StampedEvent], now: int
    ) -> Traced | None:
        """A publish that is to be traced; mostly it is not.

        A publisher who sends a traceparent has decided: by the request's header, or by the attribute of CloudEvents.
        """
        sent = headers.get(b"traceparent")
        given = None if sent is None else parse(sent.decode("latin-1"))
        if given is None and INPUT_SCHEMAS[topic.input_schema].stores_cloud_events:
            own = {i: place for i, event in enumerate(events) if (place := traceparent_of(event.body)) is not None}
            if own:
                return self._begin_each(topic, own, len(events), now)
        if given is None and self._random() >= self._sampling.ratio:
            return None
        if (given is not None and not given.sampled) or not self._admit(now):
            return None
        place = self.child(given)
        traces = dict.fromkeys(range(min(len(events), limits.TRACED_EVENTS)), str(place))
        return Traced(topic.name, len(events), now, [(place, given)], traces)

    def _begin_each(self, topic: Topic, parents: Mapping[int, TraceParent], events: int, now: int) -> Traced | None:
        """Events of one request may belong to several traces: each gets a span of its own."""
        sampled = [(i, parent) for i, parent in parents.items() if parent.sampled][: limits.TRACED_EVENTS]
        if not sampled or not self._admit(now):
            return None
        places = {i: (self.child(parent), parent) for i, parent in sampled}
        traces = {i: str(place) for i, (place, _) in places.items()}
        return Traced(topic.name, events, now, list(places.values()), traces)

    def _admit(self, now: int) -> bool:
        """Whether another publish may be traced in this second."""
        second = now // SECOND
        if second != self._second:
            self._second, self._begun = second, 0
        self._begun += 1
        return self._begun <= self._sampling.per_second

    def published(self, traced: Traced, commit: tuple[int, int], error: BaseException | None) -> None:
        """Record the result of a traced publish: it was stored by the commit between these instants, or it failed."""
        attributes: Attributes = {
            "messaging.system": "eventgrid",
            "messaging.operation.type": "publish",
            "messaging.destination.name": traced.topic,
            "messaging.batch.message_count": traced.events,
        }
        why = None if error is None else type(error).__name__
        for place, parent in traced.spans:
            name = f"publish {traced.topic}"
            self.record(Span(name, CallSide.SERVER, place, parent, traced.since, self.now(), attributes, why))
            if error is None:
                began, ended = commit
                append = self.child(place)
                self.record(Span("append", CallSide.INTERNAL, append, place, max(began, traced.since), ended, {}))
