"""Every operation of Event Grid's management API for topics: the request it takes, the status that the SDKs accept, and
the shape of the answer, with data of our own."""

from typing import Any, NamedTuple

import pytest

from tests.api.arm.doubles import everywhere
from tests.api.client import GROUP, World, run

AZURE = "/subscriptions/5b4b650e"
RG = f"{AZURE}/resourceGroups/examplerg"
PROVIDER = "/providers/Microsoft.EventGrid"
TOPIC = f"{GROUP}/topics/blue-topic"
DOMAIN = f"{GROUP}/domains/blue-domain"
DOMAIN_TOPIC = f"{DOMAIN}/topics/north"
ACCOUNT = f"{RG}/providers/Microsoft.Storage/storageAccounts/bluestore"
SYSTEM = f"{GROUP}/systemTopics/blue-system"
TYPES = f"{PROVIDER}/topicTypes"
STORAGE_TYPE = "Microsoft.Storage.StorageAccounts"

RULES = [{"ipMask": "10.1.2.3", "action": "Allow"}, {"ipMask": "10.2.0.0/16", "action": "Allow"}]
TRACKED = {
    "location": "westus2",
    "tags": {"one": "1", "two": "2"},
    "properties": {"publicNetworkAccess": "Enabled", "inboundIpRules": RULES},
}
UPDATE = {"tags": {"one": "1"}, "properties": {"publicNetworkAccess": "Enabled", "inboundIpRules": RULES}}
SOURCE = {"location": "westus2", "properties": {"source": ACCOUNT, "topicType": STORAGE_TYPE}}
HOOK = {"endpointType": "WebHook", "properties": {"endpointUrl": "https://hooks.example/blue?code=1"}}
DEAD = {"endpointType": "StorageBlob", "properties": {"resourceId": ACCOUNT, "blobContainerName": "dead"}}
FILTER = {"isSubjectCaseSensitive": False, "subjectBeginsWith": "/a", "subjectEndsWith": "z"}
SUBSCRIPTION = {"properties": {"destination": HOOK, "filter": FILTER, "deadLetterDestination": DEAD}}
CHANGE = {"destination": HOOK, "filter": {**FILTER, "isSubjectCaseSensitive": True}, "labels": ["one", "two"]}

RESOURCE = {"id": str, "name": str, "type": str}
TOPIC_SHAPE = {
    **RESOURCE,
    "location": str,
    "tags": dict,
    "properties": {
        "provisioningState": str,
        "endpoint": str,
        "inputSchema": str,
        "publicNetworkAccess": str,
        "inboundIpRules": list,
        "disableLocalAuth": bool,
        "metricResourceId": str,
    },
}
SYSTEM_SHAPE = {
    **RESOURCE,
    "location": str,
    "properties": {"provisioningState": str, "source": str, "topicType": str, "metricResourceId": str},
}
SUBSCRIPTION_SHAPE = {
    **RESOURCE,
    "properties": {
        "topic": str,
        "provisioningState": str,
        "destination": {"endpointType": str, "properties": {"endpointBaseUrl": str}},
        "filter": {"isSubjectCaseSensitive": bool, "subjectBeginsWith": str, "subjectEndsWith": str},
        "eventDeliverySchema": str,
        "retryPolicy": {"maxDeliveryAttempts": int, "eventTimeToLiveInMinutes": int},
        "deadLetterDestination": {"endpointType": str, "properties": {"resourceId": str, "blobContainerName": str}},
    },
}
DOMAIN_TOPIC_SHAPE = {**RESOURCE, "properties": {"provisioningState": str}}
KEYS = {"key1": str, "key2": str}
EVENT_TYPE = {**RESOURCE, "properties": {"displayName": str, "description": str}}
TOPIC_TYPE = {
    **RESOURCE,
    "properties": {"provider": str, "displayName": str, "description": str, "resourceRegionType": str},
}
OPERATION = {"name": str, "display": {"provider": str, "resource": str, "operation": str}}
EXTENSION = {**RESOURCE, "properties": {"description": str, "systemTopic": str}}


class Call(NamedTuple):
    """One operation: what is sent, which statuses the SDKs accept, and what comes back."""

    name: str
    method: str
    path: str
    accepted: tuple[int, ...]
    shape: Any = None
    body: Any = b""


def many(shape: Any) -> dict[str, Any]:
    return {"value": [shape]}


def tracked(name: str, path: str, body: Any, update: Any, shape: Any) -> list[Call]:
    """The operations that topics, domains and system topics have in common."""
    kind = path.rsplit("/", 2)[1]
    return [
        Call(f"{name}_CreateOrUpdate", "PUT", path, (201,), shape, body),
        Call(f"{name}_Get", "GET", path, (200,), shape),
        Call(f"{name}_Update", "PATCH", path, (200, 201), shape, update),
        Call(f"{name}_ListByResourceGroup", "GET", f"{GROUP}/{kind}", (200,), many(shape)),
        Call(f"{name}_ListBySubscription", "GET", f"{AZURE}{PROVIDER}/{kind}", (200,), many(shape)),
        Call(f"{name}_Delete", "DELETE", path, (202, 204)),
    ]


def keyed(name: str, path: str) -> list[Call]:
    return [
        Call(f"{name}_ListSharedAccessKeys", "POST", f"{path}/listKeys", (200,), KEYS),
        Call(f"{name}_RegenerateKey", "POST", f"{path}/regenerateKey", (200,), KEYS, {"keyName": "key1"}),
    ]


def subscribed(name: str, path: str) -> list[Call]:
    """The operations of event subscriptions under one of their names."""
    one = f"{path}/blue"
    return [
        Call(f"{name}_CreateOrUpdate", "PUT", one, (201,), SUBSCRIPTION_SHAPE, SUBSCRIPTION),
        Call(f"{name}_Get", "GET", one, (200,), SUBSCRIPTION_SHAPE),
        Call(f"{name}_Update", "PATCH", one, (201,), SUBSCRIPTION_SHAPE, CHANGE),
        Call(f"{name}_GetFullUrl", "POST", f"{one}/getFullUrl", (200,), {"endpointUrl": str}),
        Call(f"{name}_GetDeliveryAttributes", "POST", f"{one}/getDeliveryAttributes", (200,), {"value": list}),
        Call(f"{name}_List", "GET", path, (200,), many(SUBSCRIPTION_SHAPE)),
        Call(f"{name}_Delete", "DELETE", one, (200, 202, 204)),
    ]


LIST = "/eventSubscriptions"
CALLS = [
    *tracked("Topics", TOPIC, TRACKED, UPDATE, TOPIC_SHAPE),
    *tracked("Domains", DOMAIN, TRACKED, UPDATE, TOPIC_SHAPE),
    *tracked("SystemTopics", SYSTEM, SOURCE, {"tags": {"one": "1"}}, SYSTEM_SHAPE),
    *keyed("Topics", TOPIC),
    *keyed("Domains", DOMAIN),
    Call("DomainTopics_CreateOrUpdate", "PUT", DOMAIN_TOPIC, (201,), DOMAIN_TOPIC_SHAPE),
    Call("DomainTopics_Get", "GET", DOMAIN_TOPIC, (200,), DOMAIN_TOPIC_SHAPE),
    Call("DomainTopics_ListByDomain", "GET", f"{DOMAIN}/topics", (200,), many(DOMAIN_TOPIC_SHAPE)),
    Call("DomainTopics_Delete", "DELETE", DOMAIN_TOPIC, (200, 202, 204)),
    *subscribed("TopicEventSubscriptions", TOPIC + LIST),
    *subscribed("DomainEventSubscriptions", DOMAIN + LIST),
    *subscribed("DomainTopicEventSubscriptions", DOMAIN_TOPIC + LIST),
    *subscribed("SystemTopicEventSubscriptions", SYSTEM + LIST),
    *subscribed("EventSubscriptions_ForCustomTopic", TOPIC + PROVIDER + LIST),
    *subscribed("EventSubscriptions_ForDomain", DOMAIN + PROVIDER + LIST),
    *subscribed("EventSubscriptions_ForDomainTopic", DOMAIN_TOPIC + PROVIDER + LIST),
    *subscribed("EventSubscriptions_ForResource", ACCOUNT + PROVIDER + LIST),
    *(
        Call(
            f"EventSubscriptions_List{what}", "GET", f"{place}{PROVIDER}{path}{LIST}", (200,), many(SUBSCRIPTION_SHAPE)
        )
        for place in (AZURE, RG)
        for what, path in (
            ("Global", ""),
            ("GlobalForTopicType", f"/topicTypes/{STORAGE_TYPE}"),
            ("Regional", "/locations/westus2"),
            ("RegionalForTopicType", f"/locations/westus2/topicTypes/{STORAGE_TYPE}"),
        )
    ),
    Call("Topics_ListEventTypes", "GET", f"{ACCOUNT}{PROVIDER}/eventTypes", (200,), many(EVENT_TYPE)),
    Call("TopicTypes_List", "GET", TYPES, (200,), many(TOPIC_TYPE)),
    Call("TopicTypes_Get", "GET", f"{TYPES}/{STORAGE_TYPE}", (200,), TOPIC_TYPE),
    Call("TopicTypes_ListEventTypes", "GET", f"{TYPES}/{STORAGE_TYPE}/eventTypes", (200,), many(EVENT_TYPE)),
    Call("ExtensionTopics_Get", "GET", f"{ACCOUNT}{PROVIDER}/extensionTopics/default", (200,), EXTENSION),
    Call("Operations_List", "GET", f"{PROVIDER}/operations", (200,), many(OPERATION)),
]


def check(shape: Any, value: Any, where: str = "$") -> None:
    """Everything that the shape has is in the value, of the type that the shape says."""
    match shape:
        case dict():
            assert isinstance(value, dict), where
            for name, inner in shape.items():
                assert name in value, f"{where}.{name}"
                check(inner, value[name], f"{where}.{name}")
        case list():
            assert isinstance(value, list), where
            assert value, where
            check(shape[0], value[0], f"{where}[0]")
        case _:
            assert isinstance(value, shape), where


async def furnish(world: World) -> None:
    """One resource of every kind, each with a subscription."""
    assert (await world.arm("PUT", ACCOUNT, {"location": "westus2"})).status == 200
    for path, body in ((TOPIC, TRACKED), (DOMAIN, TRACKED), (SYSTEM, SOURCE)):
        assert (await world.arm("PUT", path, body)).status == 201
    for path in (TOPIC, DOMAIN, DOMAIN_TOPIC, SYSTEM):
        assert (await world.arm("PUT", f"{path}{LIST}/blue", SUBSCRIPTION)).status == 201


@pytest.mark.parametrize("call", CALLS, ids=lambda call: f"{call.name}-{call.method}")
def test_operation(call: Call) -> None:
    """The request is taken, the status is one that the SDKs accept, and the answer has its shape."""

    async def test(world: World) -> None:
        await furnish(world)
        answer = await world.arm(call.method, call.path, call.body)
        assert answer.status in call.accepted, answer.body
        if call.shape is not None:
            check(call.shape, answer.json)

    run(test, find_connection=everywhere)


@pytest.mark.parametrize(
    "version", ["2018-01-01", "2020-06-01", "2021-10-15-preview", "2025-02-15", "2025-07-15-preview"]
)
def test_the_shapes_are_those_of_every_version(version: str) -> None:
    """No version of the API that a client may ask for changes the answer."""

    async def test(world: World) -> None:
        await furnish(world)
        for path in (TOPIC, DOMAIN, SYSTEM, f"{TOPIC}{LIST}/blue"):
            newest = await world.arm("GET", path)
            assert (await world.call("GET", f"{path}?api-version={version}")).json == newest.json

    run(test, find_connection=everywhere)
