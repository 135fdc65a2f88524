"""azure-eventgrid publishes, with a key, a SAS token and a bearer token, and subscribers get what Azure would send."""

import datetime
import json
from typing import Any

import pytest
from azure.core.credentials import AzureKeyCredential, AzureSasCredential
from azure.core.exceptions import ClientAuthenticationError, HttpResponseError, ResourceNotFoundError
from azure.core.messaging import CloudEvent
from azure.eventgrid import EventGridEvent, EventGridPublisherClient, generate_sas
from azure.identity import ClientSecretCredential
from azure.mgmt.eventgrid import EventGridManagementClient
from azure.mgmt.eventgrid.models import (
    Domain,
    InboundIpRule,
    TopicRegenerateKeyRequest,
)

from tests.clients.topics import GROUP, MAPPING, Made, make_topic, subscribe
from tests.clients.webhook import Webhook

pytestmark = pytest.mark.xdist_group("python")
NOON = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)


def publish(endpoint: str, credential: Any, events: Any) -> None:
    """Publish with a client of its own."""
    with EventGridPublisherClient(endpoint, credential) as client:
        client.send(events)


@pytest.fixture(scope="module")
def orders(management: EventGridManagementClient, hook: Webhook) -> Made:
    """A topic of the Event Grid schema with one subscriber."""
    topic = make_topic(management, "py-orders")
    subscribe(management, topic.id, "py-orders", hook.url("py-orders"), "EventGridSchema")
    return topic


def sas(topic: Made, hours: int = 1) -> AzureSasCredential:
    """The SDK's own SAS token, valid for so long from now."""
    expires = datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=hours)
    return AzureSasCredential(generate_sas(topic.endpoint, topic.key, expires))


@pytest.mark.parametrize("way", ["key", "sas", "bearer"])
def test_event_grid_events_arrive(way: str, hook: Webhook, orders: Made, credential: ClientSecretCredential) -> None:
    """An event published with each kind of credential arrives as Event Grid sends it."""
    with_credential = {"key": AzureKeyCredential(orders.key), "sas": sas(orders), "bearer": credential}[way]
    event = EventGridEvent(
        subject=f"orders/{way}",
        event_type="Orders.New",
        data={"n": [1, {"é": None}]},
        data_version="2",
        id=way,
        event_time=NOON,
    )
    publish(orders.endpoint, with_credential, event)
    delivery = hook.delivery_of("py-orders", way)
    assert delivery.events == [
        {
            "id": way,
            "topic": orders.id,
            "subject": f"orders/{way}",
            "eventType": "Orders.New",
            "eventTime": "2026-01-01T12:00:00.000Z",
            "data": {"n": [1, {"é": None}]},
            "dataVersion": "2",
            "metadataVersion": "1",
        }
    ]
    expected = {
        "content-type": "application/json; charset=utf-8",
        "aeg-event-type": "Notification",
        "aeg-subscription-name": "PY-ORDERS",
        "aeg-delivery-count": "0",
        "aeg-data-version": "2",
        "aeg-metadata-version": "1",
    }
    assert expected.items() <= delivery.headers.items()
    assert "accept" not in delivery.headers


def test_endpoint_was_asked_first(hook: Webhook, orders: Made) -> None:
    """Before its first event, the webhook got Event Grid's validation event and answered with its code."""
    [handshake] = hook.handshakes("py-orders")
    [event] = handshake.events
    assert handshake.headers["aeg-event-type"] == "SubscriptionValidation"
    assert event["eventType"] == "Microsoft.EventGrid.SubscriptionValidationEvent"
    assert event["topic"].lower() == orders.id.lower()
    assert set(event["data"]) == {"validationCode", "validationUrl"}


def test_cloud_events_arrive(hook: Webhook, management: EventGridManagementClient) -> None:
    """CloudEvents arrive one by one as objects, with their extensions and their bytes."""
    topic = make_topic(management, "py-cloud", "CloudEventSchemaV1_0")
    subscribe(management, topic.id, "py-cloud", hook.url("py-cloud"), "CloudEventSchemaV1_0")
    plain = CloudEvent(
        source="/cars", type="Car.Sold", data={"price": 1}, subject="vw", id="a", time=NOON, extensions={"trace": "x1"}
    )
    binary = CloudEvent(source="/cars", type="Car.Scan", data=b"\x00\xff", id="b", datacontenttype="image/png")
    publish(topic.endpoint, AzureKeyCredential(topic.key), [plain, binary])
    deliveries = {d.events[0]["id"]: d for d in hook.deliveries("py-cloud", 2)}
    sold = json.loads(deliveries["a"].body)
    assert isinstance(sold, dict)
    assert sold["specversion"] == "1.0"
    assert sold["source"] == "/cars"
    assert sold["type"] == "Car.Sold"
    assert sold["subject"] == "vw"
    assert sold["trace"] == "x1"
    assert sold["data"] == {"price": 1}
    assert sold["time"].startswith("2026-01-01T12:00:00")
    scan = json.loads(deliveries["b"].body)
    assert scan["data_base64"] == "AP8="
    assert scan["datacontenttype"] == "image/png"
    headers = deliveries["a"].headers
    assert headers["content-type"] == "application/cloudevents+json; charset=utf-8"
    assert headers["aeg-metadata-version"] == "1.0"
    assert "aeg-data-version" not in headers
    [handshake] = hook.handshakes("py-cloud")
    assert handshake.method == "OPTIONS"


def test_event_grid_events_arrive_as_cloud_events(
    hook: Webhook, orders: Made, management: EventGridManagementClient
) -> None:
    """A subscription may ask for CloudEvents where the topic takes Event Grid events; batches come as arrays."""
    subscribe(
        management, orders.id, "py-converted", hook.url("py-converted"), "CloudEventSchemaV1_0", max_events_per_batch=10
    )
    event = EventGridEvent(subject="s", event_type="T", data={"k": 1}, data_version="1", id="c1", event_time=NOON)
    publish(orders.endpoint, AzureKeyCredential(orders.key), event)
    [delivery] = hook.deliveries("py-converted", 1)
    assert delivery.headers["content-type"] == "application/cloudevents-batch+json; charset=utf-8"
    assert json.loads(delivery.body) == [
        {
            "id": "c1",
            "source": orders.id,
            "type": "T",
            "subject": "s",
            "time": "2026-01-01T12:00:00.000Z",
            "specversion": "1.0",
            "data": {"k": 1},
        }
    ]


def test_custom_events_arrive_in_three_schemas(hook: Webhook, management: EventGridManagementClient) -> None:
    """An event of the publisher's own schema arrives unchanged, mapped to Event Grid's, and as a CloudEvent."""
    topic = make_topic(
        management,
        "py-custom",
        "CustomEventSchema",
        input_schema_mapping=MAPPING,
    )
    for name, schema in (
        ("py-custom", "CustomInputSchema"),
        ("py-mapped", "EventGridSchema"),
        ("py-ce", "CloudEventSchemaV1_0"),
    ):
        subscribe(management, topic.id, name, hook.url(name), schema)
    sent = {"number": "n-7", "kind": "Sale", "nested": {"deep": [1, 2]}}
    publish(topic.endpoint, AzureKeyCredential(topic.key), sent)
    assert hook.events("py-custom", 1) == [sent]
    [mapped] = hook.events("py-mapped", 1)
    assert datetime.datetime.fromisoformat(mapped.pop("eventTime"))
    assert mapped == {
        "id": "n-7",
        "topic": topic.id,
        "subject": "nothing",
        "eventType": "Sale",
        "data": sent,
        "dataVersion": "3",
        "metadataVersion": "1",
    }
    [cloud] = hook.events("py-ce", 1)
    assert cloud["id"] == "n-7"
    assert cloud["type"] == "Sale"
    assert cloud["source"] == topic.id
    assert cloud["data"] == sent


def test_refusals_are_the_errors_that_the_sdk_knows(orders: Made, management: EventGridManagementClient) -> None:
    """A wrong key, an unknown topic, a bad event and too large a request raise the SDK's own errors, at once."""
    good = EventGridEvent(subject="s", event_type="T", data={}, data_version="1")
    endpoint, key = orders.endpoint, AzureKeyCredential(orders.key)
    with pytest.raises(ClientAuthenticationError) as unknown_key:
        publish(endpoint, AzureKeyCredential("d3Jvbmc="), good)
    assert unknown_key.value.status_code == 401
    with pytest.raises(ClientAuthenticationError):
        publish(endpoint, sas(orders, hours=-1), good)
    with pytest.raises(ResourceNotFoundError):
        publish(endpoint.replace("py-orders", "no-such-topic"), key, good)
    with pytest.raises(HttpResponseError) as bad:
        publish(endpoint, key, {"subject": "s", "eventType": "T", "data": {}, "colour": "red"})
    assert bad.value.status_code == 400
    assert bad.value.error is not None and bad.value.error.code == "BadRequest"
    large = EventGridEvent(subject="s", event_type="T", data="x" * 1_100_000, data_version="1")
    with pytest.raises(HttpResponseError) as too_large:
        publish(endpoint, key, large)
    assert too_large.value.status_code == 413


def test_a_topic_may_refuse_keys_and_addresses(
    management: EventGridManagementClient, credential: ClientSecretCredential
) -> None:
    """Without local authentication only a bearer token publishes; an address that no rule allows is refused."""
    good = EventGridEvent(subject="s", event_type="T", data={}, data_version="1")
    tokens_only = make_topic(management, "py-tokens", disable_local_auth=True)
    for key in (AzureKeyCredential(tokens_only.key), sas(tokens_only)):
        with pytest.raises(ClientAuthenticationError):
            publish(tokens_only.endpoint, key, good)
    publish(tokens_only.endpoint, credential, good)
    elsewhere = make_topic(management, "py-elsewhere", inbound_ip_rules=[InboundIpRule(ip_mask="10.0.0.0/8")])
    with pytest.raises(HttpResponseError) as refused:
        publish(elsewhere.endpoint, AzureKeyCredential(elsewhere.key), good)
    assert refused.value.status_code == 403


def test_a_regenerated_key_cuts_off_the_old_one(management: EventGridManagementClient) -> None:
    """After regeneration the old key is refused at once; the other key and the new one go on."""
    topic = make_topic(management, "py-keys")
    key2 = management.topics.list_shared_access_keys(GROUP, "py-keys").key2
    assert key2 is not None
    renewed = management.topics.begin_regenerate_key(
        GROUP, "py-keys", TopicRegenerateKeyRequest(key_name="key1")
    ).result()
    assert renewed.key1 not in (None, topic.key)
    assert renewed.key2 == key2
    good = EventGridEvent(subject="s", event_type="T", data={}, data_version="1")
    with pytest.raises(ClientAuthenticationError):
        publish(topic.endpoint, AzureKeyCredential(topic.key), good)
    for key in (renewed.key1, key2):
        publish(topic.endpoint, AzureKeyCredential(key), good)


def test_domain_routes_by_topic(hook: Webhook, management: EventGridManagementClient) -> None:
    """Events of a domain reach the subscribers of their domain topic and those of the whole domain."""
    domain = management.domains.begin_create_or_update(GROUP, "py-domain", Domain(location="local")).result()
    key = management.domains.list_shared_access_keys(GROUP, "py-domain").key1
    assert domain.id and domain.endpoint and key
    subscribe(management, domain.id, "py-all", hook.url("py-all"), "EventGridSchema")
    subscribe(management, f"{domain.id}/topics/north", "py-north", hook.url("py-north"), "EventGridSchema")
    events = [
        EventGridEvent(topic=topic, subject="s", event_type="T", data={}, data_version="1", id=topic)
        for topic in ("north", "south")
    ]
    publish(domain.endpoint, AzureKeyCredential(key), events)
    assert {event["id"] for event in hook.events("py-all", 2)} == {"north", "south"}
    [north] = hook.events("py-north", 1)
    assert north["topic"] == f"{domain.id}/topics/north"
    assert [topic.name for topic in management.domain_topics.list_by_domain(GROUP, "py-domain")] == ["north"]
