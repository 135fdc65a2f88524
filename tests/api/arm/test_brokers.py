"""Service Bus and Event Hubs as destinations over ARM: taken and shown, refused by field, only where connected."""

from typing import Any

import pytest

from recapito.domain.connections.connection import Connection
from recapito.domain.connections.parse_storage import from_connection_string
from recapito.domain.resources.destination import EventHub, ServiceBusQueue, ServiceBusTopic
from recapito.domain.resources.subscription import Batching, DynamicAttribute
from tests.api.arm.doubles import nobody
from tests.api.arm.subscription_body import body
from tests.api.client import NESTED, World, run
from tests.kit.arm_errors import refused

GROUP = "/subscriptions/s/resourceGroups/g/providers"
BUS, HUBS = f"{GROUP}/Microsoft.ServiceBus/namespaces/shop", f"{GROUP}/Microsoft.EventHub/namespaces/shop"
IDS = {
    "ServiceBusQueue": f"{BUS}/queues/orders",
    "ServiceBusTopic": f"{BUS}/topics/orders",
    "EventHub": f"{HUBS}/eventhubs/orders",
}
KINDS = {"ServiceBusQueue": ServiceBusQueue, "ServiceBusTopic": ServiceBusTopic, "EventHub": EventHub}
WITHIN = "properties.destination.properties"
MAPPINGS = f"{WITHIN}.deliveryAttributeMappings"


def destination(kind: str, **changed: Any) -> dict[str, Any]:
    """A broker on the wire."""
    return {"endpointType": kind, "properties": {"resourceId": IDS[kind], **changed}}


async def everywhere(resource_id: str) -> Connection | None:
    """A connection to any namespace."""
    return from_connection_string(resource_id, "Endpoint=sb://h/;SharedAccessKeyName=a;SharedAccessKey=b")


def static(name: str, value: str = "v") -> dict[str, Any]:
    """A static attribute on the wire."""
    return {"name": name, "type": "Static", "properties": {"value": value, "isSecret": False}}


def dynamic(name: str) -> dict[str, Any]:
    """A dynamic attribute on the wire."""
    return {"name": name, "type": "Dynamic", "properties": {"sourceField": "data.key"}}


@pytest.mark.parametrize("kind", KINDS)
def test_a_broker_is_taken_and_shown(kind: str) -> None:
    """A broker needs no handshake and has no batches; it and its properties are shown as they were asked."""

    async def test(world: World) -> None:
        await world.topic()
        plain, own = destination(kind), [dynamic("PartitionKey"), static("Blue")]
        made = await world.subscription(destination=plain)
        assert made.destination == KINDS[kind](resource_id=IDS[kind])
        assert (made.batching, made.attributes, made.handshake) == (Batching(), (), None)
        assert (await world.arm("GET", f"{NESTED}/mine")).json["properties"]["destination"] == plain
        with_own = destination(kind, deliveryAttributeMappings=own)
        answer = await world.arm("PATCH", f"{NESTED}/mine", {"destination": with_own})
        assert answer.status == 201, answer.body
        assert (await world.arm("GET", f"{NESTED}/mine")).json["properties"]["destination"] == with_own
        changed = await world.log.subscription_by_id(made.id)
        assert changed is not None and DynamicAttribute("PartitionKey", "data.key") in changed.attributes

    run(test, find_connection=everywhere, webhooks=nobody)


WRONG = [
    ("ServiceBusQueue", {"resourceId": None}, f"{WITHIN}.resourceId"),
    ("ServiceBusQueue", {"resourceId": "orders"}, f"{WITHIN}.resourceId"),
    ("ServiceBusQueue", {"resourceId": IDS["ServiceBusTopic"]}, f"{WITHIN}.resourceId"),
    ("ServiceBusTopic", {"resourceId": IDS["ServiceBusQueue"]}, f"{WITHIN}.resourceId"),
    ("EventHub", {"resourceId": IDS["ServiceBusQueue"]}, f"{WITHIN}.resourceId"),
    ("EventHub", {"resourceId": HUBS}, f"{WITHIN}.resourceId"),
    ("EventHub", {"maxEventsPerBatch": 2}, f"{WITHIN}.maxEventsPerBatch"),
    ("ServiceBusTopic", {"deliveryAttributeMappings": [static("MessageId")]}, f"{MAPPINGS}[0].type"),
    (
        "ServiceBusQueue",
        {"deliveryAttributeMappings": [dynamic("SessionId"), dynamic("messageid")]},
        f"{MAPPINGS}[1].name",
    ),
    ("ServiceBusQueue", {"deliveryAttributeMappings": [static("SessionId", "")]}, f"{MAPPINGS}[0].properties.value"),
    ("EventHub", {"deliveryAttributeMappings": [static("PartitionKey", "x" * 129)]}, f"{MAPPINGS}[0].properties.value"),
    (
        "ServiceBusQueue",
        {"deliveryAttributeMappings": [static("SessionId", "a"), static("partitionKey", "b")]},
        f"{MAPPINGS}[1].properties.value",
    ),
    ("EventHub", {"deliveryAttributeMappings": [static("aeg-mine")]}, f"{MAPPINGS}[0].name"),
    ("EventHub", {"deliveryAttributeMappings": [static(f"n{n}") for n in range(11)]}, MAPPINGS),
    ("ServiceBusQueue", {"deliveryAttributeMappings": [static("a", "x" * 4097)]}, f"{MAPPINGS}[0].properties.value"),
]


@pytest.mark.parametrize(("kind", "changed", "target"), WRONG)
def test_what_is_wrong_is_named(kind: str, changed: dict[str, Any], target: str) -> None:
    """A wrong id or property, and what a broker does not have, is 400 with its path, and nothing is made."""

    async def test(world: World) -> None:
        await world.topic()
        answer = await world.arm("PUT", f"{NESTED}/mine", body(destination=destination(kind, **changed)))
        assert (answer.status, answer.error["target"]) == (400, target)
        assert (await world.arm("GET", f"{NESTED}/mine")).status == 404

    run(test, find_connection=everywhere)


@pytest.mark.parametrize("kind", KINDS)
def test_what_may_be_asked(kind: str) -> None:
    """Ten properties and 4,096 bytes are taken; an event hub takes a message id as any other name."""

    async def test(world: World) -> None:
        await world.topic()
        own = [static(f"n{n}", "x" * 4096) for n in range(8)]
        own.append(static("PartitionKey", "a"))
        own.append(static("MessageId") if kind == "EventHub" else dynamic("MessageId"))
        made = await world.subscription(destination=destination(kind, deliveryAttributeMappings=own))
        assert len(made.attributes) == 10

    run(test, find_connection=everywhere)


@pytest.mark.parametrize("kind", KINDS)
def test_a_broker_without_a_connection(kind: str) -> None:
    """A broker without a connection is refused, naming the command with its namespace."""

    async def test(world: World) -> None:
        await world.topic()
        message = refused(
            await world.arm("PUT", f"{NESTED}/mine", body(destination=destination(kind))),
            400,
            "InvalidRequest",
            f"{WITHIN}.resourceId",
        )
        namespace = HUBS if kind == "EventHub" else BUS
        assert message.endswith(f"recapito connection set {namespace} --connection-string -")

    run(test)
