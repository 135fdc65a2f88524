"""System topics and storage accounts over ARM: registered, subscribed to by scope, made and gone implicitly."""

from typing import Any

import pytest

from recapito.domain.resources.topic import TopicKind
from tests.api.client import GROUP, World, run, webhook
from tests.kit.arm_errors import refused

RG = "/subscriptions/5b4b650e/resourceGroups/examplerg"
ACCOUNT = f"{RG}/providers/Microsoft.Storage/storageAccounts/pictures"
SYSTEM = f"{GROUP}/systemTopics/pictures-events"
EXTENSION = f"{ACCOUNT}/providers/Microsoft.EventGrid/eventSubscriptions"
TYPE = "Microsoft.Storage.StorageAccounts"
BODY = {"properties": {"destination": webhook()}}


async def register(world: World) -> None:
    answer = await world.arm("PUT", ACCOUNT, {"location": "westus2", "sku": {"name": "Standard_LRS"}, "properties": {}})
    assert answer.status == 200, answer.body


async def system_topics(world: World) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await world.arm("GET", f"{GROUP}/systemTopics")).json["value"]
    return found


def test_storage_accounts() -> None:
    """An account is registered by PUT, shown, listed, changed and deleted; its name can be asked for first."""

    async def test(world: World) -> None:
        check = "/subscriptions/5b4b650e/providers/Microsoft.Storage/checkNameAvailability"
        question = {"name": "pictures", "type": "Microsoft.Storage/storageAccounts"}
        assert (await world.arm("POST", check, question)).json == {"nameAvailable": True}
        await register(world)
        answer = (await world.arm("POST", check, question)).json
        assert (answer["nameAvailable"], answer["reason"]) == (False, "AlreadyExists")
        answer = (await world.arm("POST", check, {"name": "No!"})).json
        assert (answer["nameAvailable"], answer["reason"]) == (False, "AccountNameInvalid")
        shown = (await world.arm("GET", ACCOUNT)).json
        assert (shown["id"], shown["location"], shown["kind"]) == (ACCOUNT, "westus2", "StorageV2")
        assert (await world.arm("PATCH", ACCOUNT, {"tags": {"a": "1"}})).json["tags"] == {"a": "1"}
        for path in (
            f"{RG}/providers/Microsoft.Storage/storageAccounts",
            "/subscriptions/5b4b650e/providers/Microsoft.Storage/storageAccounts",
        ):
            assert [one["name"] for one in (await world.arm("GET", path)).json["value"]] == ["pictures"]
        elsewhere = ACCOUNT.replace("examplerg", "otherrg")
        refused(await world.arm("PUT", elsewhere, {}), 409, "StorageAccountAlreadyTaken", "accountName")
        refused(await world.arm("GET", elsewhere), 404, "ResourceNotFound")
        refused(await world.arm("PUT", f"{ACCOUNT}-x", {}), 400, "InvalidResourceName", "accountName")
        assert [(await world.arm("DELETE", ACCOUNT)).status for _ in range(2)] == [200, 204]

    run(test)


def test_a_subscription_makes_the_system_topic_of_its_account() -> None:
    """The first subscription of an account makes a system topic with a name of its own; with the last it goes."""

    async def test(world: World) -> None:
        await register(world)
        assert (await world.arm("GET", EXTENSION)).json == {"value": []}
        for name in ("mine", "yours"):
            assert (await world.arm("PUT", f"{EXTENSION}/{name}", BODY)).status == 201
        shown = (await world.arm("GET", f"{EXTENSION}/mine")).json
        assert (shown["id"], shown["type"]) == (f"{EXTENSION}/mine", "Microsoft.EventGrid/eventSubscriptions")
        assert shown["properties"]["topic"] == ACCOUNT
        (made,) = await system_topics(world)
        assert made["name"].startswith("pictures-")
        assert made["properties"] == {
            "provisioningState": "Succeeded",
            "metricResourceId": "00000000-0000-0000-0000-000000000001",
            "source": ACCOUNT,
            "topicType": TYPE,
        }
        nested = (await world.arm("GET", f"{made['id']}/eventSubscriptions/mine")).json
        assert nested["type"] == "Microsoft.EventGrid/systemTopics/eventSubscriptions"
        assert nested["properties"]["topic"] == made["id"]
        extension = (await world.arm("GET", f"{ACCOUNT}/providers/Microsoft.EventGrid/extensionTopics/default")).json
        assert extension["properties"]["systemTopic"] == made["id"]
        for name in ("mine", "yours"):
            assert len(await system_topics(world)) == 1
            assert (await world.arm("DELETE", f"{EXTENSION}/{name}")).status == 200
        assert await system_topics(world) == []
        await world.arm("PUT", f"{EXTENSION}/mine", BODY)
        await world.arm("DELETE", ACCOUNT)
        assert await system_topics(world) == []

    run(test)


def test_a_refused_subscription_leaves_no_system_topic() -> None:
    """A system topic that was made on demand goes again when the subscription is refused."""

    async def test(world: World) -> None:
        await register(world)
        bad = {"properties": {"destination": webhook("ftp://x.example/")}}
        assert (await world.arm("PUT", f"{EXTENSION}/mine", bad)).status == 400
        assert await system_topics(world) == []

    run(test)


def test_a_refused_subscription_leaves_the_others() -> None:
    """An implicit system topic stays when a second subscription is refused, and so does the first."""

    async def test(world: World) -> None:
        await register(world)
        assert (await world.arm("PUT", f"{EXTENSION}/mine", BODY)).status == 201
        bad = {"properties": {"destination": webhook("ftp://x.example/")}}
        assert (await world.arm("PUT", f"{EXTENSION}/yours", bad)).status == 400
        assert len(await system_topics(world)) == 1
        assert (await world.arm("GET", f"{EXTENSION}/mine")).status == 200

    run(test)


def test_a_system_topic_by_its_own_name() -> None:
    """It is put with its source, keeps it, outlives its subscriptions, and serves the account's scope too."""

    async def test(world: World) -> None:
        await register(world)
        body = {"location": "westus2", "properties": {"source": ACCOUNT, "topicType": TYPE.lower()}}
        answer = await world.arm("PUT", SYSTEM, body)
        assert (answer.status, answer.json["type"]) == (201, "Microsoft.EventGrid/systemTopics")
        assert (await world.arm("PUT", SYSTEM, body)).status == 201
        assert (await world.arm("PATCH", SYSTEM, {"tags": {"a": "1"}})).json["tags"] == {"a": "1"}
        assert (await world.arm("PUT", f"{EXTENSION}/mine", BODY)).status == 201
        assert (await world.arm("GET", f"{SYSTEM}/eventSubscriptions/mine")).status == 200
        assert (await world.arm("DELETE", f"{SYSTEM}/eventSubscriptions/mine")).status == 200
        assert [one["name"] for one in await system_topics(world)] == ["pictures-events"]
        refused(await world.arm("PUT", f"{SYSTEM}-2", body), 409, "SystemTopicExists", "properties.source")
        moved = {"properties": {"source": ACCOUNT + "2", "topicType": TYPE}}
        refused(await world.arm("PUT", SYSTEM, moved), 400, "InvalidRequest", "properties.source")
        refused(await world.arm("POST", f"{SYSTEM}/listKeys"), 404, "InvalidResourceType")

    run(test)


def test_an_account_that_nobody_registered() -> None:
    """Who subscribes to it is told how to make it known; a system topic does that too."""

    async def test(world: World) -> None:
        await world.topic()
        said = refused(await world.arm("PUT", f"{EXTENSION}/mine", BODY), 404, "ResourceNotFound")
        assert "az storage account create -g examplerg -n pictures -l local" in said
        assert f"recapito system-topic create pictures --topic-type {TYPE} --source {ACCOUNT}" in said
        body = {"location": "westus2", "properties": {"source": ACCOUNT, "topicType": TYPE}}
        assert (await world.arm("PUT", SYSTEM, body)).status == 201
        assert (await world.arm("PUT", f"{EXTENSION}/mine", BODY)).status == 201
        assert (await world.arm("GET", f"{SYSTEM}/eventSubscriptions/mine")).status == 200

    run(test)


@pytest.mark.parametrize(
    ("properties", "code", "target"),
    [
        ({}, "InvalidRequest", "source"),
        ({"topicType": TYPE}, "InvalidRequest", "source"),
        ({"source": ACCOUNT}, "InvalidRequest", "topicType"),
        ({"source": ACCOUNT, "topicType": "Microsoft.Pigeons.Lofts"}, "NotSupported", "topicType"),
        ({"source": "/subscriptions/x", "topicType": TYPE}, "InvalidRequest", "source"),
        ({"source": ACCOUNT, "topicType": TYPE, "inputSchema": "x"}, "InvalidRequest", "inputSchema"),
    ],
)
def test_bad_system_topics(properties: Any, code: str, target: str) -> None:
    """A system topic needs a source of a type that publishes events."""

    async def test(world: World) -> None:
        answer = await world.arm("PUT", SYSTEM, {"properties": properties})
        refused(answer, 400, code, f"properties.{target}")
        assert await world.log.topic("pictures-events", TopicKind.SYSTEM) is None

    run(test)


def test_event_types_of_a_system_topic_are_known() -> None:
    """A filter may name those of the source, in any case, and no others."""

    async def test(world: World) -> None:
        await register(world)
        good = {"filter": {"includedEventTypes": ["microsoft.storage.blobcreated"]}}
        bad = {"filter": {"includedEventTypes": ["Microsoft.Storage.BlobEaten"]}}
        assert (
            await world.arm("PUT", f"{EXTENSION}/mine", {"properties": {**BODY["properties"], **good}})
        ).status == 201
        answer = await world.arm("PUT", f"{EXTENSION}/mine", {"properties": {**BODY["properties"], **bad}})
        refused(answer, 400, "InvalidRequest", "properties.filter.includedEventTypes")

    run(test)


@pytest.mark.parametrize(
    ("scope", "status", "code", "target"),
    [
        (RG, 400, "NotSupported", "scope"),
        ("/subscriptions/5b4b650e", 400, "NotSupported", "scope"),
        (f"{RG}/providers/Microsoft.EventHub/namespaces/n", 400, "NotSupported", "scope"),
        ("/nowhere", 400, "InvalidRequest", "scope"),
        (f"{GROUP}/topics/none", 404, "ParentResourceNotFound", None),
        (f"{RG}/providers/Microsoft.Storage/storageAccounts/none", 404, "ResourceNotFound", None),
        (f"{GROUP.replace('examplerg', 'none')}/topics/t", 404, "ResourceGroupNotFound", None),
    ],
)
def test_scopes_that_publish_nothing(scope: str, status: int, code: str, target: str | None) -> None:
    """A subscription on anything else is refused clearly."""

    async def test(world: World) -> None:
        await world.topic()
        path = f"{scope}/providers/Microsoft.EventGrid/eventSubscriptions/mine"
        refused(await world.arm("PUT", path, BODY), status, code, target)
        if status == 404:
            refused(await world.arm("GET", path.removesuffix("/mine")), status, code, target)
        elif target == "scope" and code == "NotSupported":
            refused(await world.arm("GET", path), 404, "ResourceNotFound")
            assert (await world.arm("DELETE", path)).status == 204

    run(test)
