"""Another Event Grid as a destination over ARM: taken and shown; forwarded events that come back are refused."""

from typing import Any

import pytest

from recapito.domain.connections.choice import Choice, choose
from recapito.domain.connections.connection import Connection
from recapito.domain.events.passed import waymark
from recapito.domain.events.segment import Segment
from recapito.domain.resources.destination import EventGrid
from recapito.domain.resources.subscription import Batching
from tests.api.arm.doubles import nobody
from tests.api.arm.subscription_body import body
from tests.api.client import EVENTS, NESTED, World, run
from tests.kit.arm_errors import refused

CLOUD = "/subscriptions/s/resourceGroups/g/providers/Microsoft.EventGrid"
TARGET = f"{CLOUD}/topics/orders"
WITHIN = "properties.destination.properties"


def target(id: str = TARGET, **more: Any) -> dict[str, Any]:
    """A destination on the wire."""
    return {"endpointType": "eventGrid", "properties": {"resourceId": id, **more}}


async def everywhere(resource_id: str) -> Connection | None:
    return choose(resource_id, Choice(connection_string="Endpoint=https://a.example;SharedAccessKey=canary"))


def test_it_is_taken_and_shown() -> None:
    """It is packed to a megabyte and asked for no consent, on a topic whose profile has no batches too."""

    async def test(world: World) -> None:
        await world.topic(tags={"recapito-profile": "2019-05"})
        made = await world.subscription(destination=target())
        assert (made.destination, made.batching) == (EventGrid(resource_id=TARGET), Batching(5000, 976))
        assert made.handshake is None
        answer = await world.arm("GET", f"{NESTED}/mine")
        shown = answer.json["properties"]["destination"]
        assert shown == {"endpointType": "EventGrid", "properties": {"resourceId": TARGET}}
        assert b"canary" not in answer.body
        assert (await world.arm("PATCH", f"{NESTED}/mine", {"destination": shown})).status == 201
        ids = [f"{CLOUD}/namespaces/n/topics/t"]
        made = await world.subscription(
            "into-ns", destination=target(ids[0]), eventDeliverySchema="CloudEventSchemaV1_0"
        )
        assert made.batching == Batching(1000, 976)

    run(test, find_connection=everywhere, webhooks=nobody)


@pytest.mark.parametrize(
    ("sent", "field"),
    [
        (target(""), "resourceId"),
        (target(f"{CLOUD}/systemTopics/a"), "resourceId"),
        (target(f"{CLOUD}/domains/d"), "resourceId"),
        (target(f"{CLOUD}/namespaces/n/topics/t"), "resourceId"),
        (target(endpointUrl="https://a.example/api/events"), "endpointUrl"),
        (target(sasKey="canary"), "sasKey"),
        (target(topicName="t"), "topicName"),
        (target(maxEventsPerBatch=2), "maxEventsPerBatch"),
        (target(deliveryAttributeMappings=[]), "deliveryAttributeMappings"),
    ],
)
def test_what_is_refused(sent: dict[str, Any], field: str) -> None:
    """Ids of other resources, schemas that the target does not take, and the fields of IoT Edge: each by its name."""

    async def test(world: World) -> None:
        await world.topic()
        answer = await world.arm("PUT", f"{NESTED}/mine", body(destination=sent))
        assert "canary" not in refused(answer, 400, "InvalidRequest", f"{WITHIN}.{field}")

    run(test, find_connection=everywhere, webhooks=nobody)


def test_a_connection_comes_first() -> None:
    """Without one the error has the command that sets it."""

    async def test(world: World) -> None:
        await world.topic()
        answer = await world.arm("PUT", f"{NESTED}/mine", body(destination=target()))
        said = refused(answer, 400, "InvalidRequest", f"{WITHIN}.resourceId")
        assert f"recapito connection set {TARGET} --connection-string -" in said

    run(test, webhooks=nobody)


def test_forwarded_events_keep_their_marks() -> None:
    """The waymarks are stored beside the events; a topic refuses its own with 508, and anything else with 400."""

    async def test(world: World) -> None:
        topic = await world.topic()
        own, other = waymark(world.log.id, topic.id), waymark("elsewhere", 1)
        event = {"id": "1", "subject": "s", "eventType": "t", "eventTime": "2026-01-01T00:00:00Z", "data": {}}
        answers = [
            await world.call("POST", EVENTS, [event], {"aeg-sas-key": topic.key1, "recapito-passed": passed})
            for passed in (other, f"{other},{own}", "nonsense")
        ]
        assert [answer.status for answer in answers] == [200, 508, 400]
        assert "came by this topic before" in answers[1].json["error"]["message"]
        entries = await world.log.read(topic.id, 1, 10_000)
        segments = [Segment(entry.columns, entry.body) for entry in entries if entry.body]
        assert [segment.passed for segment in segments] == [[other]]
        assert other.encode() not in segments[0].body

    run(test, find_connection=everywhere, webhooks=nobody)
