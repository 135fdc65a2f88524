"""Forwarded batches: the waymarks of their events, fresh and parked, and the `topic` that the target takes."""

import json

from recapito.contracts.log import Entry, EntryKind
from recapito.dispatch.lane.delivery_format import DeliveryFormat
from recapito.dispatch.lane.in_flight import PendingBatch, id_origin
from recapito.dispatch.lane.log_reader import LogReader, terms_at
from recapito.domain import limits
from recapito.domain.delivery.cursor import Cursor
from recapito.domain.events.passed import waymark
from recapito.domain.events.schema import InputSchema
from recapito.domain.events.schema_table import accept
from recapito.domain.events.segment import Publish, Segment, pack
from recapito.domain.resources.destination import EventGrid
from recapito.domain.resources.subscription import Batching
from recapito.observability.journal import silent
from tests.dispatch.published import published
from tests.dispatch.shelf import Shelf
from tests.kit.resources import a_subscription, a_topic

SCHEMA = InputSchema.EVENT_GRID
ORIGIN, OWN = id_origin("log", 1), waymark("log", 1)
A, B = waymark("a", 1), waymark("b", 1)
TARGET = EventGrid(resource_id="/subscriptions/s/resourceGroups/g/providers/Microsoft.EventGrid/topics/cloud")


def segment(*passed: str) -> tuple[bytes, bytes]:
    """A packed segment of publishes of two events each, which came by these topics."""
    events = accept(a_topic(input_schema=SCHEMA), {}, published(SCHEMA, "1", "2"), 0, lambda: "id")
    return pack([Publish(0, events, passed=text) for text in passed])


def taken(*passed: str) -> PendingBatch:
    """All events of such a segment, for a lane that forwards."""
    wanted = a_subscription(destination=TARGET, batching=Batching(5000, 976))
    terms = terms_at(0, wanted, DeliveryFormat(wanted, SCHEMA, silent), limits.PARKED_SLICE)
    reader = LogReader(Shelf([Entry(1, EntryKind.SEGMENT, *segment(*passed))]), Cursor((1, 0)))
    pending = reader.take(wanted, 1, terms)
    assert pending is not None
    return pending


def presentation() -> DeliveryFormat:
    return DeliveryFormat(a_subscription(destination=TARGET, batching=Batching(5000, 976)), SCHEMA, silent)


def test_waymarks_survive_packing() -> None:
    """Each event of a publish has the text of its publish; a segment without forwarded events has none."""
    assert Segment(*segment("", A, f"{A},{B}")).passed == ["", "", A, A, f"{A},{B}", f"{A},{B}"]
    assert Segment(*segment("", "")).passed == []


def test_a_fresh_batch_names_all_topics() -> None:
    """The waymarks of all its events, then our own; no `topic`, no id of a delivery."""
    batch = taken("", A, f"{A},{B}").batch(presentation(), ORIGIN)
    assert set(batch.passed.split(",")[:-1]) == {A, B}
    assert batch.passed.endswith(f",{OWN}")
    assert batch.output_id is None
    assert all("topic" not in event for event in json.loads(batch.body))
    assert taken("").batch(presentation(), ORIGIN).passed == OWN


def test_a_retry_names_them_too() -> None:
    """A parked delivery keeps its waymarks, so a loop ends however often an attempt fails."""
    parked = taken("", A).deliveries()
    assert [delivery.passed for delivery in parked] == ["", "", A, A]
    batch = PendingBatch((), parked, (), len(parked)).batch(presentation(), ORIGIN)
    assert batch.passed == f"{A},{OWN}"
    alone = PendingBatch((), parked[:1], (), 1).batch(presentation(), ORIGIN)
    assert alone.passed == OWN


def test_a_webhook_gets_no_waymarks() -> None:
    """They are for another Event Grid alone."""
    hook = DeliveryFormat(a_subscription(), SCHEMA, silent)
    assert PendingBatch((), taken(A).deliveries()[:1], (), 1).batch(hook, ORIGIN).passed == ""
