"""The choice of traced events: the publisher's decision, our own, and the limits of both."""

import random
from itertools import count

from msgspec.structs import replace

from recapito.domain.events.schema import InputSchema
from recapito.domain.events.segment import StampedEvent
from recapito.domain.instant import SECOND
from recapito.domain.observability.trace import TraceParent, parse
from recapito.domain.resources.topic import Topic
from recapito.errors import StoreFailed
from recapito.observability.tracing import CallSide, Sampling, Span, Tracer
from tests.kit.resources import a_topic

GIVEN = TraceParent("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331")
HEADER = {b"traceparent": str(GIVEN).encode()}
UNSAMPLED = {b"traceparent": str(GIVEN._replace(sampled=False)).encode()}
EVENT = StampedEvent(b'{"id":"1"}', "t", "s", "")


def topic(schema: InputSchema = InputSchema.EVENT_GRID) -> Topic:
    """A topic of this schema."""
    return a_topic(input_schema=schema)


def tracer(ratio: float = 0.0, per_second: int = 100) -> tuple[Tracer, list[Span]]:
    """A tracer with a clock that ticks, and what it records."""
    spans: list[Span] = []
    ticks, chance = count(100), random.Random(1)
    return Tracer(
        spans.append, Sampling(ratio, per_second), lambda: next(ticks), chance.getrandbits, chance.random
    ), spans


def test_a_publishers_decision_is_honoured() -> None:
    """A sampled traceparent is taken up, in its trace and with its span as parent; an unsampled one is not."""
    it, _ = tracer()
    traced = it.sample(topic(), HEADER, [EVENT], 0)
    assert traced is not None
    ((place, parent),) = traced.spans
    assert parent == GIVEN and place.trace_id == GIVEN.trace_id and place.span_id != GIVEN.span_id
    assert traced.traces == {0: str(place)}
    assert tracer(ratio=1)[0].sample(topic(), UNSAMPLED, [EVENT], 0) is None


def test_without_a_decision_chance_decides() -> None:
    """The share of the settings; a traceparent that is none is no decision."""
    it, _ = tracer(ratio=0.1, per_second=10_000)
    assert 60 < sum(it.sample(topic(), {}, [EVENT], 0) is not None for _ in range(1000)) < 140
    assert tracer(ratio=1)[0].sample(topic(), {b"traceparent": b"nonsense"}, [EVENT], 0) is not None
    assert tracer()[0].sample(topic(), {}, [EVENT], 0) is None


def test_no_more_than_so_many_a_second() -> None:
    """By either decision: beyond the rate nothing is traced until the next second."""
    it, _ = tracer(ratio=1, per_second=3)
    now = [0] * 5 + [SECOND] * 5
    traced = [it.sample(topic(), HEADER, [EVENT], at) is not None for at in now]
    assert traced == [True, True, True, False, False] * 2


def test_cloud_events_have_traces_of_their_own() -> None:
    """Each event with a sampled traceparent goes on in its own trace; the header of the request comes first."""
    other = TraceParent("f" * 32, "e" * 16)
    events = [
        EVENT,
        replace(EVENT, body=b'{"traceparent":"%b"}' % str(GIVEN).encode()),
        replace(EVENT, body=b'{"traceparent":"%b"}' % str(other).encode()),
        replace(EVENT, body=b'{"traceparent":"%b"}' % str(other._replace(sampled=False)).encode()),
    ]
    it, _ = tracer(ratio=1)
    traced = it.sample(topic(InputSchema.CLOUD_EVENT), {}, events, 0)
    assert traced is not None
    places = {i: parse(text) for i, text in traced.traces.items()}
    assert {i: place and place.trace_id for i, place in places.items()} == {1: GIVEN.trace_id, 2: other.trace_id}
    header = it.sample(topic(InputSchema.CLOUD_EVENT), HEADER, events, 0)
    assert header is not None and list(header.traces) == [0, 1, 2, 3]
    assert it.sample(topic(InputSchema.CLOUD_EVENT), {}, events[3:], 0) is None


def test_a_large_publish_traces_its_first_events() -> None:
    """Ten of them: a trace of thousands helps no reader."""
    traced = tracer()[0].sample(topic(), HEADER, [EVENT] * 5000, 0)
    assert traced is not None and len(traced.traces) == 10 and traced.events == 5000


def test_a_publish_becomes_two_spans() -> None:
    """The request until it is durable, and in it the commit; one that failed has no commit, and says so."""
    it, spans = tracer()
    traced = it.sample(topic(), HEADER, [EVENT, EVENT], 7)
    assert traced is not None
    it.published(traced, (5, 50), None)
    publish, append = spans
    assert (publish.name, publish.kind, publish.start, publish.error) == ("publish orders", CallSide.SERVER, 7, None)
    assert publish.attributes["messaging.batch.message_count"] == 2
    assert (append.name, append.parent, append.start, append.end) == ("append", publish.place, 7, 50)
    it.published(traced, (5, 50), StoreFailed("no"))
    assert [span.error for span in spans[2:]] == ["StoreFailed"]
