"""The az command line, from `az cloud register` to the last delete: what it prints is what was asked."""

import json
from typing import Any

import pytest
from azure.core.credentials import AzureKeyCredential
from azure.eventgrid import EventGridPublisherClient

from tests.clients.az import Az
from tests.clients.service import SUBSCRIPTION
from tests.clients.webhook import Webhook

pytestmark = [pytest.mark.xdist_group("az"), pytest.mark.slow]
HOME = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/az-group/providers"
TOPIC = f"{HOME}/Microsoft.EventGrid/topics/az-topic"
DOMAIN = f"{HOME}/Microsoft.EventGrid/domains/az-domain"
CUSTOM = "Microsoft.EventGrid.Topics"
CONTAINER = f"{HOME}/Microsoft.Storage/storageAccounts/azstore/blobServices/default/containers/dead"


def publish(endpoint: str, key: str, *events: dict[str, Any]) -> None:
    """Publish events with Microsoft's SDK."""
    with EventGridPublisherClient(endpoint, AzureKeyCredential(key)) as client:
        client.send([{"eventTime": "2026-01-01T00:00:00Z", "dataVersion": "1", **event} for event in events])


@pytest.fixture(scope="module")
def topic(signed_in: Az) -> tuple[str, str]:
    """A topic made by az; its endpoint and its first key."""
    made = signed_in("eventgrid topic create -g az-group -n az-topic -l local --tags team=red")
    assert made["id"] == TOPIC
    assert made["location"] == "local"
    assert made["tags"] == {"team": "red"}
    assert made["inputSchema"] == "EventGridSchema"
    assert made["provisioningState"] == "Succeeded"
    return made["endpoint"], signed_in("eventgrid topic key list -g az-group -n az-topic")["key1"]


def test_topic(signed_in: Az, topic: tuple[str, str]) -> None:
    """Topics are shown, listed and updated, keys regenerated; a topic without a location gets the server's."""
    az = signed_in
    shown = az("eventgrid topic show -g az-group -n az-topic")
    assert shown["endpoint"] == topic[0]
    assert shown["disableLocalAuth"] is False
    updated = az("eventgrid topic update -g az-group -n az-topic --tags team=blue")
    assert updated["tags"] == {"team": "blue"}
    other = az(
        "eventgrid topic create -g az-group -n az-other --input-schema customeventschema"
        " --input-mapping-fields id=number eventType=kind --input-mapping-default-values subject=none dataVersion=1"
        " --inbound-ip-rules 127.0.0.0/8 Allow --public-network-access enabled"
    )
    assert other["inputSchema"] == "CustomEventSchema"
    assert other["inputSchemaMapping"]["id"]["sourceField"] == "number"
    assert other["inputSchemaMapping"]["subject"]["defaultValue"] == "none"
    assert other["inboundIpRules"] == [{"action": "Allow", "ipMask": "127.0.0.0/8"}]
    assert other["location"]
    keys = az("eventgrid topic key list -g az-group -n az-other")
    renewed = az("eventgrid topic key regenerate -g az-group -n az-other --key-name key2")
    assert renewed["key1"] == keys["key1"]
    assert renewed["key2"] != keys["key2"]
    assert {one["name"] for one in az("eventgrid topic list -g az-group")} == {"az-topic", "az-other"}
    az("eventgrid topic delete -g az-group -n az-other")
    assert "az-other" in az.fails("eventgrid topic show -g az-group -n az-other")


def test_event_subscription(signed_in: Az, topic: tuple[str, str], hook: Webhook) -> None:
    """A subscription with every option is printed as asked, and delivers what passes its filters."""
    az, url = signed_in, hook.url("az-full") + "?code=s3cret"
    made = az(
        "eventgrid event-subscription create --name az-full --source-resource-id {} --endpoint {}"
        " --endpoint-type webhook --max-events-per-batch 20 --preferred-batch-size-in-kilobytes 128"
        " --deadletter-endpoint {} --max-delivery-attempts 7 --event-ttl 90 --expiration-date 2100-01-01"
        " --labels one two --subject-begins-with /red/ --subject-ends-with .jpg --subject-case-sensitive true"
        " --included-event-types Made Lost --enable-advanced-filtering-on-arrays true"
        " --advanced-filter data.n NumberInRange 1,2 5,9 --advanced-filter data.b BoolEquals true"
        " --advanced-filter data.s StringNotBeginsWith x y --advanced-filter data.none IsNullOrUndefined"
        " --advanced-filter data.m NumberIn 3 4"
        " --delivery-attribute-mapping x-plain static shown"
        " --delivery-attribute-mapping x-secret static hidden true"
        " --delivery-attribute-mapping x-key dynamic data.key",
        TOPIC,
        url,
        CONTAINER,
    )
    shown = az("eventgrid event-subscription show --name az-full --source-resource-id {}", TOPIC)
    for one in (made, shown):
        assert one["id"] == f"{TOPIC}/providers/Microsoft.EventGrid/eventSubscriptions/az-full"
        assert one["provisioningState"] == "Succeeded"
        assert one["topic"].lower() == TOPIC.lower()
        destination = one["destination"]
        assert destination["endpointType"] == "WebHook"
        assert destination["endpointBaseUrl"] == hook.url("az-full")
        assert destination["endpointUrl"] is None
        assert destination["maxEventsPerBatch"] == 20
        assert destination["preferredBatchSizeInKilobytes"] == 128
        plain, secret, dynamic = destination["deliveryAttributeMappings"]
        assert plain["name"] == "x-plain"
        assert plain["type"] == "Static"
        assert plain["value"] == "shown"
        assert secret["isSecret"]
        assert secret["value"] != "hidden"
        assert dynamic["type"] == "Dynamic"
        assert dynamic["sourceField"] == "data.key"
        dead = one["deadLetterDestination"]
        assert dead["endpointType"] == "StorageBlob"
        assert dead["blobContainerName"] == "dead"
        assert dead["resourceId"] == CONTAINER.partition("/blobServices")[0]
        assert one["retryPolicy"] == {"eventTimeToLiveInMinutes": 90, "maxDeliveryAttempts": 7}
        assert one["expirationTimeUtc"].startswith("2100-01-01T00:00:00")
        assert one["labels"] == ["one", "two"]
        kept = one["filter"]
        assert kept["subjectBeginsWith"] == "/red/"
        assert kept["subjectEndsWith"] == ".jpg"
        assert kept["isSubjectCaseSensitive"]
        assert kept["includedEventTypes"] == ["Made", "Lost"]
        assert kept["enableAdvancedFilteringOnArrays"] is True
        assert [(f["operatorType"], f["key"], f.get("values", f.get("value"))) for f in kept["advancedFilters"]] == [
            ("NumberInRange", "data.n", [[1.0, 2.0], [5.0, 9.0]]),
            ("BoolEquals", "data.b", True),
            ("StringNotBeginsWith", "data.s", ["x", "y"]),
            ("IsNullOrUndefined", "data.none", None),
            ("NumberIn", "data.m", [3.0, 4.0]),
        ]
    full = az(
        "eventgrid event-subscription show --name az-full --source-resource-id {} --include-full-endpoint-url true"
        " --include-attrib-secret true",
        TOPIC,
    )
    assert full["destination"]["endpointUrl"] == url
    assert "hidden" in json.dumps(full["destination"]["deliveryAttributeMappings"])

    data = {"n": 6, "b": True, "s": ["abc"], "m": [1, 4], "key": "K"}
    event = {"eventType": "Made", "subject": "/red/1.jpg", "data": data}
    publish(
        *topic,
        {**event, "id": "taken"},
        {**event, "id": "subject", "subject": "/RED/1.jpg"},
        {**event, "id": "type", "eventType": "Sold"},
        {**event, "id": "range", "data": {**data, "n": 3}},
        {**event, "id": "present", "data": {**data, "none": 1}},
        {**event, "id": "also-taken"},
    )
    deliveries = hook.deliveries("az-full", 2)
    assert sorted(e["id"] for d in deliveries for e in d.events) == ["also-taken", "taken"]
    headers = {"x-plain": "shown", "x-secret": "hidden", "x-key": "K", "aeg-subscription-name": "AZ-FULL"}
    assert headers.items() <= deliveries[0].headers.items()


def test_event_subscription_update(signed_in: Az, topic: tuple[str, str], hook: Webhook) -> None:
    """An update changes what it names; the URL's query and the secret, which az never sees, stay."""
    az, old, new = signed_in, hook.url("az-old") + "?code=s3cret", hook.url("az-new")
    az(
        "eventgrid event-subscription create --name az-changed --source-resource-id {} --endpoint {}"
        " --subject-begins-with /blue/ --max-delivery-attempts 7 --event-ttl 90"
        " --delivery-attribute-mapping x-secret static hidden true",
        TOPIC,
        old,
    )
    changed = az(
        "eventgrid event-subscription update --name az-changed --source-resource-id {} --subject-ends-with .png"
        " --labels three --advanced-filter data.n NumberGreaterThan 1",
        TOPIC,
    )
    assert changed["filter"]["subjectBeginsWith"] == "/blue/"
    assert changed["filter"]["subjectEndsWith"] == ".png"
    assert changed["labels"] == ["three"]
    assert changed["filter"]["advancedFilters"][0]["operatorType"] == "NumberGreaterThan"
    assert changed["retryPolicy"] == {"eventTimeToLiveInMinutes": 90, "maxDeliveryAttempts": 7}
    event = {"eventType": "T", "subject": "/blue/1.png", "data": {"n": 2}}
    publish(*topic, {**event, "id": "first"}, {**event, "id": "small", "data": {"n": 1}})
    [delivery] = hook.deliveries("az-old", 1)
    assert delivery.events[0]["id"] == "first"
    assert delivery.headers["x-secret"] == "hidden"

    moved = az(
        "eventgrid event-subscription update --name az-changed --source-resource-id {} --endpoint {}", TOPIC, new
    )
    assert moved["destination"]["endpointBaseUrl"] == new
    assert len(hook.handshakes("az-new")) == 1
    publish(*topic, {**event, "id": "second"})
    assert [one["id"] for one in hook.events("az-new", 1)] == ["second"]

    listed = az("eventgrid event-subscription list --source-resource-id {}", TOPIC)
    assert "az-changed" in [one["name"] for one in listed]
    listed = az("eventgrid event-subscription list --location local -g az-group --topic-type-name {}", CUSTOM)
    assert "az-changed" in [one["name"] for one in listed]
    az("eventgrid event-subscription delete --name az-changed --source-resource-id {}", TOPIC)
    assert "az-changed" in az.fails(
        "eventgrid event-subscription show --name az-changed --source-resource-id {}", TOPIC
    )
    [notice] = hook.deletions("az-new")
    assert notice.events[0]["eventType"] == "Microsoft.EventGrid.SubscriptionDeletedEvent"


def test_the_script_of_the_documentation(signed_in: Az, hook: Webhook) -> None:
    """Microsoft's own script for batched delivery from a storage account runs as it stands."""
    az = signed_in
    az("storage account create -n azstore -g az-group -l local --sku Standard_LRS")
    storage = az("storage account show --name azstore --resource-group az-group --query id --output json")
    assert storage == f"{HOME}/Microsoft.Storage/storageAccounts/azstore"
    made = az(
        "eventgrid event-subscription create --source-resource-id {} --name az-batched --endpoint {}"
        " --max-events-per-batch 1000 --preferred-batch-size-in-kilobytes 512",
        storage,
        hook.url("az-batched"),
    )
    assert made["destination"]["maxEventsPerBatch"] == 1000
    assert made["destination"]["preferredBatchSizeInKilobytes"] == 512
    assert made["topic"].lower() == storage.lower()
    [system] = az("eventgrid system-topic list -g az-group")
    assert system["source"] == storage
    assert system["topicType"].lower() == "microsoft.storage.storageaccounts"
    assert [one["name"] for one in az("eventgrid event-subscription list --source-resource-id {}", storage)] == [
        "az-batched"
    ]
    az("eventgrid event-subscription delete --source-resource-id {} --name az-batched", storage)


def test_system_topic(signed_in: Az, hook: Webhook) -> None:
    """A system topic over a storage account is made by hand, with a subscription of its own."""
    az = signed_in
    az("storage account create -n azother -g az-group -l local --sku Standard_LRS")
    source = f"{HOME}/Microsoft.Storage/storageAccounts/azother"
    made = az(
        "eventgrid system-topic create -g az-group -n az-system -l local --topic-type {} --source {}",
        "microsoft.storage.storageaccounts",
        source,
    )
    assert made["source"] == source
    assert made["provisioningState"] == "Succeeded"
    blobs = az(
        "eventgrid system-topic event-subscription create -g az-group --system-topic-name az-system -n az-blobs"
        " --included-event-types Microsoft.Storage.BlobCreated --endpoint {}",
        hook.url("az-blobs"),
    )
    assert blobs["filter"]["includedEventTypes"] == ["Microsoft.Storage.BlobCreated"]
    assert blobs["destination"]["endpointType"] == "WebHook"
    az("eventgrid system-topic event-subscription delete -g az-group --system-topic-name az-system -n az-blobs -y")
    az("eventgrid system-topic delete -g az-group -n az-system -y")


def test_domain(signed_in: Az, hook: Webhook) -> None:
    """A domain, its topics, keys and subscriptions work through az, and its events are routed."""
    az = signed_in
    domain = az("eventgrid domain create -g az-group -n az-domain -l local")
    assert domain["id"] == DOMAIN
    assert domain["provisioningState"] == "Succeeded"
    made = az("eventgrid domain topic create -g az-group --domain-name az-domain -n north")
    assert made["id"] == f"{DOMAIN}/topics/north"
    key = az("eventgrid domain key list -g az-group -n az-domain")["key1"]
    scope = f"{DOMAIN}/topics/south"
    az(
        "eventgrid event-subscription create --name az-south --source-resource-id {} --endpoint {}",
        scope,
        hook.url("az-south"),
    )
    az(
        "eventgrid domain event-subscription create -g az-group --domain-name az-domain -n az-whole --endpoint {}",
        hook.url("az-whole"),
    )
    listed = az("eventgrid domain topic list -g az-group --domain-name az-domain")
    assert sorted(one["name"] for one in listed) == ["north", "south"]
    event = {"eventType": "T", "subject": "s", "data": {}}
    publish(
        domain["endpoint"],
        key,
        {**event, "id": "n", "topic": "north"},
        {**event, "id": "s", "topic": "south"},
    )
    assert sorted(one["id"] for one in hook.events("az-whole", 2)) == ["n", "s"]
    assert [(one["id"], one["topic"]) for one in hook.events("az-south", 1)] == [("s", scope)]
    assert [one["name"] for one in az("eventgrid event-subscription list --source-resource-id {}", scope)] == [
        "az-south"
    ]
    renewed = az("eventgrid domain key regenerate -g az-group -n az-domain --key-name key1")
    assert renewed["key1"] != key
    az("eventgrid domain delete -g az-group -n az-domain")
    assert az("eventgrid domain list -g az-group") == []


def test_the_rest(signed_in: Az, topic: tuple[str, str], hook: Webhook) -> None:
    """Nested commands, topic types, locations and `az rest` work; a refusal says what is wrong; a group is deleted."""
    az = signed_in
    nested = az(
        "eventgrid topic event-subscription create -g az-group --topic-name az-topic -n az-nested --endpoint {}"
        " --event-delivery-schema cloudeventschemav1_0",
        hook.url("az-nested"),
    )
    assert nested["id"] == f"{TOPIC}/eventSubscriptions/az-nested"
    assert nested["type"] == "Microsoft.EventGrid/topics/eventSubscriptions"
    assert nested["eventDeliverySchema"] == "CloudEventSchemaV1_0"
    types = az("eventgrid topic-type list")
    assert "Microsoft.Storage.StorageAccounts" in [one["name"] for one in types]
    assert [one["name"] for one in az("account list-locations")] == ["local"]
    assert az("provider show -n Microsoft.EventGrid")["registrationState"] == "Registered"
    assert TOPIC in [one["id"] for one in az("resource list -g az-group")]
    rest = az("rest --method get --url {}", f"{TOPIC}?api-version=2022-06-15")
    assert rest["name"] == "az-topic"
    said = az.fails(
        "eventgrid event-subscription create --name az-bad --source-resource-id {} --endpoint {}"
        " --advanced-filter data.n NumberIn " + " ".join(str(n) for n in range(26)),
        TOPIC,
        hook.url("az-bad"),
    )
    assert "advancedFilters" in said
    said = az.fails(
        "eventgrid event-subscription create --name az-bad --source-resource-id {} --endpoint {}",
        f"{HOME}/Microsoft.Web/sites/az-site",
        hook.url("az-bad"),
    )
    assert "microsoft.web/sites" in said
    said = az.fails(
        "eventgrid event-subscription create --name az-bad --source-resource-id {} --endpoint {}",
        TOPIC,
        hook.url("closed-az"),
    )
    assert "The attempt to validate the provided endpoint" in said
    assert "403" in said
    az("group create -n az-gone -l local")
    az("group delete -n az-gone -y")
    assert az("group exists -n az-gone") is False
