"""The service put together, on the tests' broker: what is published arrives, with one id however often it is tried."""

import json
from pathlib import Path

import pytest

from recapito.domain.events.schema import DeliverySchema
from recapito.domain.resources.destination import Broker, EventHub, ServiceBusQueue, ServiceBusTopic
from recapito.domain.resources.subscription import DeadLetterDirectory, DynamicAttribute
from tests.amqp.broker import LocalBroker, new
from tests.system.storage_service import EVENTS, Service, serve

pytestmark = pytest.mark.xdist_group("broker")


@pytest.mark.parametrize("kind", [ServiceBusQueue, ServiceBusTopic, EventHub])
def test_events_to_a_broker(broker: LocalBroker, tmp_path: Path, kind: type[Broker]) -> None:
    """Published events arrive: one message for each, whole, with properties from the event itself."""
    to = new(kind)

    async def story(service: Service) -> None:
        await service.subscribe(destination=to, attributes=(DynamicAttribute("Order", "id"),))
        await service.publish(EVENTS)
        assert (await service.advance(0))["delivered"] == 3

    serve(story, tmp_path, *broker.connections())
    arrived = broker.arrived(to, 3)
    events = [json.loads(one.body) for one in arrived]
    if kind is EventHub:
        events = [event for (event,) in events]
    assert sorted(event["id"] for event in events) == ["0", "1", "2"]
    assert all(event["topic"].endswith("/topics/orders") and event["metadataVersion"] == "1" for event in events)
    assert sorted(one.properties["Order"] for one in arrived) == ["0", "1", "2"]
    assert len({one.properties["aeg-output-event-id"] for one in arrived}) == 3


def test_a_message_id_is_the_same_at_each_delivery(broker: LocalBroker, tmp_path: Path) -> None:
    """A message that the queue was too busy for comes again with the same id, and says that it was tried before."""
    to = new(ServiceBusQueue, "flaky")

    async def story(service: Service) -> None:
        await service.subscribe(destination=to)
        await service.publish(EVENTS[:1])
        assert (await service.advance(1))["pending"] == 1
        assert (await service.advance(300))["delivered"] == 1

    serve(story, tmp_path, *broker.connections())
    first, second = broker.arrived(to, 2)
    assert first.fields["message_id"] == second.fields["message_id"] == first.properties["aeg-output-event-id"]
    counts = [one.properties["aeg-delivery-count"] for one in (first, second)]
    assert first.body == second.body
    assert counts == ["0", "1"]


def test_a_key_that_is_too_long_is_left_out(broker: LocalBroker, tmp_path: Path) -> None:
    """A message id or partition key from the event that no broker takes is left out, and does not cost the event."""
    to = new(ServiceBusQueue)
    own = (DynamicAttribute("MessageId", "subject"), DynamicAttribute("PartitionKey", "subject"))
    subjects = ["x" * 128, "x" * 129]

    async def story(service: Service) -> None:
        await service.subscribe(destination=to, attributes=own)
        await service.publish([{**EVENTS[0], "subject": subject} for subject in subjects])
        assert (await service.advance(0))["delivered"] == 2

    serve(story, tmp_path, *broker.connections())
    first, second = sorted(broker.arrived(to, 2), key=lambda one: len(one.body))
    assert first.fields["message_id"] == subjects[0]
    assert first.annotations == {"x-opt-partition-key": subjects[0]}
    assert second.fields["message_id"] == second.properties["aeg-output-event-id"]
    assert second.annotations == {}


def test_cloud_events_to_a_queue(broker: LocalBroker, tmp_path: Path) -> None:
    """An event that is delivered as a CloudEvent is the JSON object, with its content type."""
    to = new(ServiceBusQueue)

    async def story(service: Service) -> None:
        await service.subscribe(destination=to, delivery_schema=DeliverySchema.CLOUD_EVENT)
        await service.publish(EVENTS[:1])
        assert (await service.advance(0))["delivered"] == 1

    serve(story, tmp_path, *broker.connections())
    (arrived,) = broker.arrived(to, 1)
    assert json.loads(arrived.body)["specversion"] == "1.0"
    assert arrived.fields["content_type"] == "application/cloudevents+json; charset=utf-8"


def test_a_full_queue_loses_nothing(broker: LocalBroker, tmp_path: Path) -> None:
    """Events for a full queue are parked and tried again; none is lost while their time lasts."""
    to = new(ServiceBusQueue, "full")

    async def story(service: Service) -> None:
        await service.subscribe(destination=to)
        await service.publish(EVENTS)
        assert (await service.advance(3600))["pending"] == 3
        assert broker.seen(to) > 1

    serve(story, tmp_path, *broker.connections())


def test_what_is_never_retried_dies(broker: LocalBroker, tmp_path: Path) -> None:
    """A message that is too large for its queue becomes a dead letter at once, named by its outcome."""
    to = new(ServiceBusQueue, "large")

    async def story(service: Service) -> None:
        await service.subscribe(destination=to, dead_letter=DeadLetterDirectory("dead"))
        await service.publish(EVENTS)
        assert (await service.advance(600))["deadLettered"] == 3

    serve(story, tmp_path, *broker.connections())
    records = [
        record for path in (tmp_path / "deadletters").rglob("*.json") for record in json.loads(path.read_bytes())
    ]
    assert {(one["lastDeliveryOutcome"], one["deliveryAttempts"]) for one in records} == {("PayloadTooLarge", 1)}
    assert sorted(one["id"] for one in records) == ["0", "1", "2"]
