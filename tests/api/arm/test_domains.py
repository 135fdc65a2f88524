"""Domains and their topics over ARM: settings, keys, and topics that come and go with their subscriptions."""

from typing import Any

import pytest

from recapito.domain.resources.topic import Topic, TopicKind
from tests.api.client import GROUP, World, run, webhook
from tests.kit.arm_errors import refused

DOMAIN = f"{GROUP}/domains/shop"
TOPICS = f"{DOMAIN}/topics"
EXTENSION = "/providers/Microsoft.EventGrid/eventSubscriptions"
BODY = {"properties": {"destination": webhook()}}


async def domain(world: World, **properties: Any) -> Topic:
    answer = await world.arm("PUT", DOMAIN, {"location": "westus2", "properties": properties})
    assert answer.status == 201, answer.body
    found = await world.log.topic("shop", TopicKind.DOMAIN)
    assert found is not None
    return found


async def names(world: World, path: str) -> list[str]:
    answer = await world.arm("GET", path)
    assert answer.status == 200, answer.body
    return [one["name"] for one in answer.json["value"]]


def test_a_domain_and_its_keys() -> None:
    """A domain is put, shown, changed, listed and deleted as a topic is; it has an endpoint and keys of its own."""

    async def test(world: World) -> None:
        made = await domain(world, inputSchema="CloudEventSchemaV1_0")
        shown = (await world.arm("GET", DOMAIN)).json
        assert (shown["id"], shown["type"]) == (DOMAIN, "Microsoft.EventGrid/domains")
        assert shown["properties"] == {
            "provisioningState": "Succeeded",
            "metricResourceId": "00000000-0000-0000-0000-000000000001",
            "endpoint": "http://127.0.0.1:8585/domains/shop/api/events",
            "inputSchema": "CloudEventSchemaV1_0",
            "publicNetworkAccess": "Enabled",
            "inboundIpRules": [],
            "disableLocalAuth": False,
            "autoCreateTopicWithFirstSubscription": True,
            "autoDeleteTopicWithLastSubscription": True,
        }
        flags = {"autoCreateTopicWithFirstSubscription": False}
        assert (await world.arm("PATCH", DOMAIN, {"properties": flags})).status == 201
        shown = (await world.arm("GET", DOMAIN)).json["properties"]
        assert shown["autoCreateTopicWithFirstSubscription"] is False
        assert shown["autoDeleteTopicWithLastSubscription"] is True
        keys = (await world.arm("POST", f"{DOMAIN}/listKeys")).json
        assert keys == {"key1": made.key1, "key2": made.key2}
        fresh = (await world.arm("POST", f"{DOMAIN}/regenerateKey", {"keyName": "key1"})).json
        assert fresh["key1"] != made.key1
        assert await names(world, f"{GROUP}/domains") == ["shop"]
        assert await names(world, "/subscriptions/5b4b650e/providers/Microsoft.EventGrid/domains") == ["shop"]
        assert await names(world, f"{GROUP}/topics") == []
        assert (await world.arm("DELETE", DOMAIN)).status == 204
        refused(await world.arm("GET", DOMAIN), 404, "ResourceNotFound")

    run(test)


def test_a_topic_and_a_domain_may_have_one_name() -> None:
    """They are of different kinds, and neither is taken for the other."""

    async def test(world: World) -> None:
        await domain(world)
        assert (await world.arm("PUT", f"{GROUP}/topics/shop", {})).status == 201
        assert (await world.arm("DELETE", f"{GROUP}/topics/shop")).status == 204
        assert (await world.arm("GET", DOMAIN)).status == 200

    run(test)


def test_topics_of_a_domain() -> None:
    """They are put, shown, listed page by page and deleted with their subscriptions."""

    async def test(world: World) -> None:
        made = await domain(world)
        for n in range(5):
            answer = await world.arm("PUT", f"{TOPICS}/topic-{n}")
            assert (answer.status, answer.json["properties"]) == (201, {"provisioningState": "Creating"})
        shown = (await world.arm("GET", f"{TOPICS}/TOPIC-1")).json
        assert (shown["id"], shown["name"]) == (f"{TOPICS}/topic-1", "topic-1")
        assert shown["type"] == "Microsoft.EventGrid/domains/topics"
        assert shown["properties"] == {"provisioningState": "Succeeded"}
        first = (await world.arm("GET", f"{TOPICS}?$top=3&$filter=name ne 'topic-1'")).json
        second = (await world.call("GET", first["nextLink"].removeprefix("http://127.0.0.1:8585"))).json
        assert [one["name"] for one in first["value"]] == ["topic-0", "topic-2", "topic-3"]
        assert [one["name"] for one in second["value"]] == ["topic-4"]
        await world.arm("PUT", f"{TOPICS}/topic-1/eventSubscriptions/mine", BODY)
        assert [(await world.arm("DELETE", f"{TOPICS}/topic-1")).status for _ in range(2)] == [200, 204]
        assert await world.log.subscription(made.id, "mine", "topic-1") is None
        refused(await world.arm("GET", f"{TOPICS}/topic-1"), 404, "ResourceNotFound")
        refused(await world.arm("PUT", f"{TOPICS}/a_b"), 400, "InvalidRequest", "name")
        refused(await world.arm("PUT", f"{GROUP}/domains/none/topics/a-b"), 404, "ParentResourceNotFound")

    run(test)


@pytest.mark.parametrize("form", ["/eventSubscriptions", EXTENSION])
def test_a_topic_comes_and_goes_with_its_subscriptions(form: str) -> None:
    """The first subscription makes the topic and the last one takes it away; names are free in each topic."""

    async def test(world: World) -> None:
        made = await domain(world)
        for topic, name in (("north", "mine"), ("north", "yours"), ("south", "mine")):
            assert (await world.arm("PUT", f"{TOPICS}/{topic}{form}/{name}", BODY)).status == 201
        await world.arm("PUT", f"{DOMAIN}{form}/mine", BODY)
        assert await names(world, TOPICS) == ["north", "south"]
        assert await names(world, f"{TOPICS}/north{form}") == ["mine", "yours"]
        assert await names(world, f"{DOMAIN}{form}") == ["mine"]
        stored = await world.log.subscription(made.id, "mine", "north")
        assert stored is not None
        assert (stored.domain_topic, stored.filter.domain_topic) == ("north", "north")
        shown = (await world.arm("GET", f"{TOPICS}/north{form}/mine")).json
        assert shown["id"] == f"{TOPICS}/north{form}/mine"
        assert shown["properties"]["topic"] == f"{TOPICS}/north"
        kind = "eventSubscriptions" if form == EXTENSION else "domains/topics/eventSubscriptions"
        assert shown["type"] == f"Microsoft.EventGrid/{kind}"
        assert (await world.arm("PATCH", f"{TOPICS}/north{form}/mine", {"labels": ["x"]})).status == 201
        again = await world.log.subscription(made.id, "mine", "north")
        assert again is not None
        assert (again.domain_topic, again.filter.domain_topic) == ("north", "north")
        await world.arm("DELETE", f"{TOPICS}/north{form}/mine")
        assert await names(world, TOPICS) == ["north", "south"]
        await world.arm("DELETE", f"{TOPICS}/north{form}/yours")
        assert await names(world, TOPICS) == ["south"]

    run(test)


def test_a_domain_that_makes_no_topics() -> None:
    """Without auto-create a subscription needs a topic that is there; without auto-delete it stays."""

    async def test(world: World) -> None:
        await domain(world, autoCreateTopicWithFirstSubscription=False, autoDeleteTopicWithLastSubscription=False)
        path = f"{TOPICS}/north/eventSubscriptions/mine"
        refused(await world.arm("PUT", path, BODY), 404, "ParentResourceNotFound")
        await world.arm("PUT", f"{TOPICS}/North")
        assert (await world.arm("PUT", path, BODY)).status == 201
        assert (await world.arm("GET", path)).json["properties"]["topic"] == f"{TOPICS}/North"
        assert (await world.arm("DELETE", path)).status == 200
        assert await names(world, TOPICS) == ["North"]

    run(test)


def test_what_goes_with_a_domain() -> None:
    """A domain that is made again under its old name has none of its old topics and subscriptions."""

    async def test(world: World) -> None:
        await domain(world)
        await world.arm("PUT", f"{TOPICS}/north/eventSubscriptions/mine", BODY)
        await world.arm("DELETE", DOMAIN)
        await domain(world)
        assert await names(world, TOPICS) == []
        refused(await world.arm("GET", f"{TOPICS}/north/eventSubscriptions/mine"), 404, "ResourceNotFound")

    run(test)
