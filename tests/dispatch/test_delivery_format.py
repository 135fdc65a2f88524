"""Events on the wire: each pair of schemas fresh and parked, batches measured as they are sent, custom headers."""

import asyncio
import json
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recapito.contracts.log import Entry, EntryKind, NewSegment
from recapito.dispatch.feed.segment_cache import SegmentCache
from recapito.dispatch.feed.topic_feed import TopicFeed
from recapito.dispatch.lane.delivery_format import DeliveryFormat
from recapito.dispatch.lane.due_queue import DueQueue
from recapito.dispatch.lane.in_flight import PendingBatch
from recapito.dispatch.lane.log_reader import LogReader, terms_at
from recapito.domain import limits
from recapito.domain.delivery.batch import Batch
from recapito.domain.delivery.cursor import Cursor
from recapito.domain.delivery.delivery import Parked
from recapito.domain.events.input_mapping import InputMapping, MappedField
from recapito.domain.events.schema import BodyForm, DeliverySchema, InputSchema
from recapito.domain.events.schema_table import INPUT_SCHEMAS, accept
from recapito.domain.events.segment import Publish, pack
from recapito.domain.resources.subscription import (
    Batching,
    DeliveryAttribute,
    DynamicAttribute,
    StaticAttribute,
    Subscription,
)
from recapito.domain.resources.topic import Topic
from recapito.observability.journal import silent
from recapito.stores.memory import MemoryLog
from tests.dispatch.published import published
from tests.dispatch.shelf import Shelf
from tests.domain.texts import value
from tests.kit.resources import a_subscription, a_topic

PAIRS = [(published, delivered) for published, row in INPUT_SCHEMAS.items() for delivered in row.conversions]
EVERYTHING = Batching(max_events=5000, preferred_kilobytes=1024)


def topic(schema: InputSchema) -> Topic:
    return a_topic(
        input_schema=schema,
        mapping=InputMapping(event_type=MappedField(default="t"), data_version=MappedField(default="7")),
    )


def entries(schema: InputSchema, *publishes: Sequence[str]) -> list[Entry]:
    """A log of these publishes, one segment each."""
    found = []
    for n, data in enumerate(publishes):
        events = accept(topic(schema), {}, published(schema, *data), n, lambda: "id")
        found.append(Entry(n + 1, EntryKind.SEGMENT, *pack([Publish(n, events)])))
    return found


def subscription(
    delivered: DeliverySchema, batching: Batching = EVERYTHING, attributes: tuple[DeliveryAttribute, ...] = ()
) -> Subscription:
    return a_subscription(delivery_schema=delivered, batching=batching, attributes=attributes)


def fresh_loads(log: list[Entry], wanted: Subscription, schema: InputSchema) -> list[tuple[PendingBatch, Batch]]:
    """The batches that a lane would send of a log, as fresh events."""
    shown = DeliveryFormat(wanted, schema, silent)
    terms = terms_at(0, wanted, shown, limits.PARKED_SLICE)
    reader = LogReader(Shelf(log), Cursor((1, 0)))
    found = []
    while (taken := reader.take(wanted, len(log), terms)) is not None:
        found.append((taken, taken.batch(shown, "origin")))
    return found


def parked_batches(rows: list[Parked], wanted: Subscription, schema: InputSchema) -> list[Batch]:
    """The batches that a lane would send of parked deliveries."""
    shown = DeliveryFormat(wanted, schema, silent)
    due_queue = DueQueue(None)
    due_queue.queue(rows)
    found = []
    while len(due_queue):
        taken, headers = due_queue.take(wanted.batching.event_limit, wanted.batching.byte_limit, shown)
        found.append(PendingBatch((), [row.delivery for row in taken], (), len(taken), headers).batch(shown, "origin"))
    return found


def park(pendings: list[tuple[PendingBatch, Batch]]) -> list[Parked]:
    return [Parked(0, delivery) for pending, _ in pendings for delivery in pending.deliveries()]


@pytest.mark.parametrize(("schema", "delivered"), PAIRS)
@settings(max_examples=40)
@given(data=st.lists(st.lists(value, min_size=1, max_size=3), min_size=1, max_size=3), batching=st.booleans())
def test_every_pair_fresh_and_parked(
    schema: InputSchema, delivered: DeliverySchema, data: list[list[str]], batching: bool
) -> None:
    """Fresh or parked, batched or one by one, the same bytes are sent, and in them the data that was published."""
    wanted = subscription(delivered, EVERYTHING if batching else Batching())
    pendings = fresh_loads(entries(schema, *data), wanted, schema)
    parked = parked_batches(park(pendings), wanted, schema)
    assert parked == [batch for _, batch in pendings]
    sent = b"".join([batch.body for batch in parked])
    at = 0
    for text in [text for row in data for text in row]:
        at = sent.index(b'"data":' + text.encode(), at) + 1
    assert len(parked) == (1 if batching else sum(len(row) for row in data))


@pytest.mark.parametrize(
    ("schema", "delivered", "batching", "form", "version"),
    [
        (InputSchema.EVENT_GRID, DeliverySchema.EVENT_GRID, Batching(), BodyForm.EVENTS, "7"),
        (InputSchema.CUSTOM, DeliverySchema.CUSTOM, Batching(), BodyForm.EVENTS, "7"),
        (InputSchema.CUSTOM, DeliverySchema.EVENT_GRID, EVERYTHING, BodyForm.EVENTS, "7"),
        (InputSchema.CUSTOM, DeliverySchema.CLOUD_EVENT, Batching(), BodyForm.CLOUD_EVENT, None),
        (InputSchema.EVENT_GRID, DeliverySchema.CLOUD_EVENT, Batching(1, 64), BodyForm.CLOUD_EVENT, None),
        (InputSchema.EVENT_GRID, DeliverySchema.CLOUD_EVENT, Batching(max_events=2), BodyForm.CLOUD_EVENTS, None),
        (
            InputSchema.CLOUD_EVENT,
            DeliverySchema.CLOUD_EVENT,
            Batching(preferred_kilobytes=1),
            BodyForm.CLOUD_EVENTS,
            None,
        ),
    ],
)
def test_form_and_version(
    schema: InputSchema, delivered: DeliverySchema, batching: Batching, form: BodyForm, version: str | None
) -> None:
    """An array, unless it is a CloudEvent and batching is off; CloudEvents have no data version."""
    ((_, batch),) = fresh_loads(entries(schema, ["1"]), subscription(delivered, batching), schema)
    assert (batch.form, batch.data_version, batch.output_id) == (form, version, "origin-0000-000000000001")
    assert batch.body[:1] == (b"{" if form is BodyForm.CLOUD_EVENT else b"[")


def test_a_changed_delivery_schema_counts_from_the_next_attempt() -> None:
    """A parked delivery holds the stored event: it is sent in the schema of now."""
    first = subscription(DeliverySchema.EVENT_GRID)
    rows = park(fresh_loads(entries(InputSchema.CUSTOM, ["1", "2"]), first, InputSchema.CUSTOM))
    changed = subscription(DeliverySchema.CUSTOM)
    (batch,) = parked_batches(rows, changed, InputSchema.CUSTOM)
    assert batch.body == b'[{"own":"x","data":1},{"own":"x","data":2}]'


@pytest.mark.parametrize("parked", [False, True])
def test_limits_are_those_of_what_is_sent(parked: bool) -> None:
    """A kilobyte holds many custom events, though few of them in their envelopes."""
    log = entries(InputSchema.CUSTOM, ["1"] * 60)
    firsts = []
    for delivered in INPUT_SCHEMAS[InputSchema.CUSTOM].conversions:
        wanted = subscription(delivered, Batching(preferred_kilobytes=1))
        pendings = fresh_loads(log, wanted, InputSchema.CUSTOM)
        batches = (
            parked_batches(park(pendings), wanted, InputSchema.CUSTOM) if parked else [batch for _, batch in pendings]
        )
        assert all(len(batch.body) <= 1024 for batch in batches)
        assert sum(batch.events for batch in batches) == 60
        one_more = (len(batches[0].body) - 1) // batches[0].events
        assert len(batches[0].body) + one_more > 1024
        firsts.append(batches[0].events)
    assert firsts[2] > 5 * max(firsts[:2])


HEADERS = (DynamicAttribute("X-Tenant", "data.tenant"), StaticAttribute("X-Env", "prod"))


@pytest.mark.parametrize("parked", [False, True])
def test_a_batch_has_one_set_of_headers(parked: bool) -> None:
    """Events with the same values go together, over segments too; others wait for their turn, in their order."""
    rows = [["a", "a", "b"], ["b", "a"], ["a"]]
    log = entries(InputSchema.EVENT_GRID, *([f'{{"tenant":"{name}"}}' for name in row] for row in rows))
    wanted = subscription(DeliverySchema.CLOUD_EVENT, EVERYTHING, HEADERS)
    pendings = fresh_loads(log, wanted, InputSchema.EVENT_GRID)
    batches = [batch for _, batch in pendings]
    if parked:
        batches = parked_batches(park(pendings), wanted, InputSchema.EVENT_GRID)
    assert [[event["data"]["tenant"] for event in json.loads(batch.body)] for batch in batches] == [
        ["a", "a", "a", "a"],
        ["b", "b"],
    ]
    assert [dict(header[:2] for header in batch.headers) for batch in batches] == [
        {"X-Env": "prod", "X-Tenant": name} for name in "ab"
    ]


def test_one_by_one_each_event_has_its_own_headers() -> None:
    """Without batching too, and an event without the value goes without the header, which is counted and told."""
    told: list[tuple[str, dict[str, object]]] = []
    wanted = subscription(DeliverySchema.EVENT_GRID, Batching(), HEADERS)
    shown = DeliveryFormat(wanted, InputSchema.EVENT_GRID, lambda name, **fields: told.append((name, fields)))
    log = entries(InputSchema.EVENT_GRID, ['{"tenant":"a"}', '{"tenant":"a\\r\\nX-Evil: 1"}', "1"])
    reader = LogReader(Shelf(log), Cursor((1, 0)))
    terms = terms_at(0, wanted, shown, limits.PARKED_SLICE)
    names = []
    while (taken := reader.take(wanted, 1, terms)) is not None:
        names.append([header.name for header in taken.batch(shown, "origin").headers])
    assert names == [["X-Env", "X-Tenant"], ["X-Env"], ["X-Env"]]
    assert told == [("delivery.header_left_out", {"subscription": "sub", "header": "X-Tenant", "count": 1})]


def test_a_segment_is_converted_once_and_counted() -> None:
    """All lanes that want a schema share one conversion, and the cache knows its size."""

    async def main() -> None:
        log = MemoryLog()
        stored = await log.put_topic(topic(InputSchema.EVENT_GRID))
        events = accept(stored, {}, published(InputSchema.EVENT_GRID, "1", "2"), 0, lambda: "id")
        (position,) = await log.append([NewSegment(stored.id, 2, *pack([Publish(0, events)]))])
        segments = SegmentCache(log)
        await TopicFeed(stored.id, segments).load(position)
        entry = segments.get(stored.id, position)
        convert = DeliveryFormat(subscription(DeliverySchema.CLOUD_EVENT), InputSchema.EVENT_GRID, silent).convert
        assert entry is not None and convert is not None
        before = segments.size
        converted = segments.converted(entry, convert)
        assert segments.converted(entry, convert) is converted
        assert segments.size - before >= len(converted.body)

    asyncio.run(main())
