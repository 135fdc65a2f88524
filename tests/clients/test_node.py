"""@azure/eventgrid and @azure/arm-eventgrid on node, signed in by @azure/identity, do what was asked."""

from typing import Any

import pytest
from azure.mgmt.eventgrid import EventGridManagementClient

from tests.clients.javascript import Node
from tests.clients.topics import MAPPING, make_topic, subscribe
from tests.clients.webhook import Webhook

pytestmark = pytest.mark.xdist_group("python")


@pytest.fixture(scope="module")
def published(node: Node, management: EventGridManagementClient, hook: Webhook) -> dict[str, Any]:
    """The output of the publishing script."""
    topics = {}
    for name, schema, delivery, mapping in (
        ("eventGrid", "EventGridSchema", "EventGridSchema", None),
        ("cloud", "CloudEventSchemaV1_0", "CloudEventSchemaV1_0", None),
        ("custom", "CustomEventSchema", "CustomInputSchema", MAPPING),
    ):
        topic = make_topic(management, f"js-{name}", schema, input_schema_mapping=mapping)
        subscribe(management, topic.id, f"js-{name}", hook.url(f"js-{name}"), delivery)
        topics[name] = topic._asdict()
    answered: dict[str, Any] = node("publish", topics=topics)
    return answered


def test_event_grid_events_arrive(published: dict[str, Any], hook: Webhook) -> None:
    """Events published with a key, a SAS token of .NET's date format and a bearer token arrive."""
    events = {event["id"]: event for event in hook.events("js-eventGrid", 4)}
    assert set(events) == {"key", "second", "sas", "bearer"}
    for id, event in events.items():
        assert event["data"] == {"way": id}
        assert event["eventType"] == "Orders.New"
        assert event["dataVersion"] == "2"
        assert event["eventTime"].startswith("2026-01-01T12:00:00")


def test_cloud_events_arrive(published: dict[str, Any], hook: Webhook) -> None:
    """CloudEvents arrive with their extensions and their bytes."""
    events = {event["id"]: event for event in hook.events("js-cloud", 2)}
    assert events["a"]["data"] == {"price": 1}
    assert events["a"]["trace"] == "x1"
    assert events["b"]["data_base64"] == "AP8="


def test_custom_events_arrive(published: dict[str, Any], hook: Webhook) -> None:
    """An event of the publisher's own schema arrives unchanged."""
    assert hook.events("js-custom", 1) == [{"number": "n-7", "kind": "Sale", "nested": {"deep": [1, 2]}}]


def test_refusals_are_errors_of_the_sdk(published: dict[str, Any]) -> None:
    """A wrong key and an event of another schema are refused with Event Grid's codes."""
    assert published["wrongKey"]["status"] == 401
    assert published["wrongSchema"]["status"] == 400
    assert published["wrongSchema"]["code"] == "BadRequest"


def test_management(node: Node, hook: Webhook) -> None:
    """The management client creates, reads, lists, updates and deletes; its answers show what was asked."""
    url = hook.url("js-hook") + "?code=s3cret"
    done = node("manage", endpoint=url)
    assert done["topic"]["provisioningState"] == "Succeeded"
    assert done["topic"]["tags"] == {"team": "red"}
    assert done["renewed"]["key1"] != done["keys"]["key1"]
    assert done["renewed"]["key2"] == done["keys"]["key2"]
    assert done["tagged"]["tags"] == {"team": "blue"}
    for shown in (done["made"], done["read"]):
        destination = shown["destination"]
        assert destination["endpointType"] == "WebHook"
        assert destination["endpointBaseUrl"] == hook.url("js-hook")
        assert destination["maxEventsPerBatch"] == 7
        assert destination["preferredBatchSizeInKilobytes"] == 32
        secret, dynamic = destination["deliveryAttributeMappings"]
        assert secret["name"] == "x-secret"
        assert secret["isSecret"]
        assert secret.get("value") != "hidden"
        assert dynamic["sourceField"] == "data.key"
        assert shown["filter"]["subjectBeginsWith"] == "/red/"
        assert [f["operatorType"] for f in shown["filter"]["advancedFilters"]] == ["NumberInRange", "StringNotContains"]
        assert shown["filter"]["advancedFilters"][0]["values"] == [[1, 2]]
        assert shown["retryPolicy"] == {"maxDeliveryAttempts": 3, "eventTimeToLiveInMinutes": 5}
        assert shown["labels"] == ["one"]
    assert done["url"] == {"endpointUrl": url}
    assert [one.get("value") for one in done["attributes"]["value"]] == ["hidden", None]
    assert done["updated"]["labels"] == ["two"]
    assert [one["name"] for one in done["listed"]] == ["js-hook"]
    assert [one["type"] for one in done["nested"]] == ["Microsoft.EventGrid/topics/eventSubscriptions"]
    assert done["gone"]["status"] == 404
    assert done["domain"]["name"] == "js-domain"
    assert [one["name"] for one in done["domainTopics"]] == ["north"]
    assert "js-topic" in [one["name"] for one in done["topics"]]
