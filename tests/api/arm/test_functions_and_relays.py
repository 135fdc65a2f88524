"""Functions and hybrid connections as destinations over ARM: taken and shown, and only where a connection leads."""

from typing import Any

import pytest

from recapito.domain.connections.connection import Connection
from recapito.domain.connections.parse_host import from_function_host, from_relay_string
from recapito.domain.resources.destination import AzureFunction, HybridConnection
from recapito.domain.resources.resource_id import FUNCTION, parse_resource_id
from recapito.domain.resources.subscription import Batching
from tests.api.arm.doubles import nobody
from tests.api.arm.subscription_body import body
from tests.api.client import NESTED, World, run
from tests.kit.arm_errors import refused

PROVIDERS = "/subscriptions/s/resourceGroups/g/providers"
APP = f"{PROVIDERS}/Microsoft.Web/sites/shop-app"
ON_ORDER = f"{APP}/functions/OnOrder"
RELAY = f"{PROVIDERS}/Microsoft.Relay/namespaces/shop-relay"
ORDERS = f"{RELAY}/hybridConnections/orders"
WITHIN = "properties.destination.properties"
MAPPINGS = [
    {"name": "x-tenant", "type": "Static", "properties": {"value": "north", "isSecret": False}},
    {"name": "x-key", "type": "Static", "properties": {"value": "canary", "isSecret": True}},
    {"name": "x-kind", "type": "Dynamic", "properties": {"sourceField": "data.kind"}},
]


def function(**changed: Any) -> dict[str, Any]:
    """A function on the wire."""
    return {"endpointType": "AzureFunction", "properties": {"resourceId": ON_ORDER, **changed}}


def hybrid(**changed: Any) -> dict[str, Any]:
    """A hybrid connection on the wire."""
    return {"endpointType": "HybridConnection", "properties": {"resourceId": ORDERS, **changed}}


async def everywhere(resource_id: str) -> Connection | None:
    """A connection to any function and any hybrid connection."""
    if parse_resource_id(resource_id).kind == FUNCTION:
        return from_function_host(resource_id, "http://localhost:7071")
    return from_relay_string(resource_id, "Endpoint=sb://a.example/;SharedAccessKeyName=a;SharedAccessKey=b")


def test_a_function_is_taken_and_shown() -> None:
    """A function has batches and attributes as a webhook has, and is asked for no consent."""

    async def test(world: World) -> None:
        await world.topic()
        sent = function(maxEventsPerBatch=10, preferredBatchSizeInKilobytes=128, deliveryAttributeMappings=MAPPINGS)
        made = await world.subscription(destination=sent)
        assert (made.destination, made.batching) == (AzureFunction(resource_id=ON_ORDER), Batching(10, 128))
        assert made.handshake is None and len(made.attributes) == 3
        answer = await world.arm("GET", f"{NESTED}/mine")
        shown = answer.json["properties"]["destination"]
        secret = {"name": "x-key", "type": "Static", "properties": {"value": None, "isSecret": True}}
        assert shown == function(
            maxEventsPerBatch=10,
            preferredBatchSizeInKilobytes=128,
            deliveryAttributeMappings=[MAPPINGS[0], secret, MAPPINGS[2]],
        )
        assert b"canary" not in answer.body
        assert (await world.arm("POST", f"{NESTED}/mine/getFullUrl")).json == {"endpointUrl": None}
        plain = await world.subscription("plain", destination=function())
        assert plain.batching.event_limit == 1
        shown = (await world.arm("GET", f"{NESTED}/plain")).json["properties"]["destination"]
        assert shown == function(maxEventsPerBatch=1, preferredBatchSizeInKilobytes=64)

    run(test, find_connection=everywhere, webhooks=nobody)


def test_a_hybrid_connection_is_taken_and_shown() -> None:
    """A hybrid connection has attributes and no batches, and is asked for no consent."""

    async def test(world: World) -> None:
        await world.topic()
        made = await world.subscription(destination=hybrid(deliveryAttributeMappings=MAPPINGS[:1]))
        assert (made.destination, made.batching) == (HybridConnection(resource_id=ORDERS), Batching())
        assert made.handshake is None
        shown = (await world.arm("GET", f"{NESTED}/mine")).json["properties"]["destination"]
        assert shown == hybrid(deliveryAttributeMappings=MAPPINGS[:1])

    run(test, find_connection=everywhere, webhooks=nobody)


def test_a_secret_that_is_left_out_stays() -> None:
    """An update as az sends it, without the value of a secret attribute, keeps that of before."""

    async def test(world: World) -> None:
        await world.topic()
        made = await world.subscription(destination=function(deliveryAttributeMappings=MAPPINGS))
        shown = (await world.arm("GET", f"{NESTED}/mine")).json["properties"]["destination"]
        assert (await world.arm("PATCH", f"{NESTED}/mine", {"destination": shown})).status == 201
        changed = await world.log.subscription_by_id(made.id)
        assert changed is not None and changed.attributes == made.attributes

    run(test, find_connection=everywhere, webhooks=nobody)


def _named(name: str) -> list[dict[str, Any]]:
    return [{"name": name, "type": "Static", "properties": {"value": "v"}}]


WRONG = [
    (function(resourceId=None), "resourceId"),
    (function(resourceId="OnOrder"), "resourceId"),
    (function(resourceId=APP), "resourceId"),
    (function(resourceId=ORDERS), "resourceId"),
    (function(maxEventsPerBatch=0), "maxEventsPerBatch"),
    (function(preferredBatchSizeInKilobytes=1025), "preferredBatchSizeInKilobytes"),
    (function(endpointUrl="http://localhost"), "endpointUrl"),
    (function(deliveryAttributeMappings=_named("aeg-x")), "deliveryAttributeMappings[0].name"),
    (hybrid(resourceId=None), "resourceId"),
    (hybrid(resourceId=RELAY), "resourceId"),
    (hybrid(resourceId=ON_ORDER), "resourceId"),
    (hybrid(maxEventsPerBatch=2), "maxEventsPerBatch"),
    (hybrid(deliveryAttributeMappings=_named("ServiceBusAuthorization")), "deliveryAttributeMappings[0].name"),
    (hybrid(deliveryAttributeMappings=_named("Host")), "deliveryAttributeMappings[0].name"),
]


@pytest.mark.parametrize(("destination", "field"), WRONG)
def test_what_is_wrong_is_named(destination: dict[str, Any], field: str) -> None:
    """A wrong id, and what a destination does not have, is 400 with its path, and nothing is made."""

    async def test(world: World) -> None:
        await world.topic()
        answer = await world.arm("PUT", f"{NESTED}/mine", body(destination=destination))
        assert (answer.status, answer.error["target"]) == (400, f"{WITHIN}.{field}")
        assert (await world.arm("GET", f"{NESTED}/mine")).status == 404

    run(test, find_connection=everywhere)


@pytest.mark.parametrize(("destination", "top"), [(function(), APP), (hybrid(), RELAY)])
def test_without_a_connection(destination: dict[str, Any], top: str) -> None:
    """A resource without a connection is refused, naming the command; a storage account's connection is no help."""

    async def test(world: World) -> None:
        await world.topic()
        answer = await world.arm("PUT", f"{NESTED}/mine", body(destination=destination))
        message = refused(answer, 400, "InvalidRequest", f"{WITHIN}.resourceId")
        assert f"recapito connection set {top}" in message

    run(test)


def test_profiles_without_them() -> None:
    """A profile without batching or custom headers has neither for functions."""

    async def test(world: World) -> None:
        await world.topic(tags={"recapito-profile": "2019-05"})
        for changed, field in (
            ({"maxEventsPerBatch": 2}, "maxEventsPerBatch"),
            ({"deliveryAttributeMappings": MAPPINGS[:1]}, "deliveryAttributeMappings"),
        ):
            answer = await world.arm("PUT", f"{NESTED}/mine", body(destination=function(**changed)))
            refused(answer, 400, "InvalidRequest", f"{WITHIN}.{field}")

    run(test, find_connection=everywhere)
