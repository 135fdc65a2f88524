"""azure-mgmt-eventgrid, signed in by azure-identity: what it returns is what was asked."""

import datetime
import io
import json
import urllib.request
from typing import Any

import pytest
from azure.core.exceptions import HttpResponseError, ResourceNotFoundError
from azure.mgmt.eventgrid import EventGridManagementClient
from azure.mgmt.eventgrid.models import (
    BoolEqualsAdvancedFilter,
    Domain,
    DomainRegenerateKeyRequest,
    DynamicDeliveryAttributeMapping,
    EventSubscription,
    EventSubscriptionFilter,
    EventSubscriptionUpdateParameters,
    InboundIpRule,
    IsNotNullAdvancedFilter,
    JsonField,
    JsonFieldWithDefault,
    JsonInputSchemaMapping,
    NumberInAdvancedFilter,
    NumberInRangeAdvancedFilter,
    RetryPolicy,
    StaticDeliveryAttributeMapping,
    StorageBlobDeadLetterDestination,
    StringBeginsWithAdvancedFilter,
    SystemTopic,
    Topic,
    TopicUpdateParameters,
    WebHookEventSubscriptionDestination,
)

from tests.clients.service import SUBSCRIPTION, Service, run
from tests.clients.webhook import Webhook

pytestmark = pytest.mark.xdist_group("python")
GROUP = "managed"
HOME = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/{GROUP}/providers"
STORAGE = f"{HOME}/Microsoft.Storage/storageAccounts/pystore"
FUTURE = datetime.datetime(2100, 1, 1, tzinfo=datetime.UTC)


def test_topic_lives(management: EventGridManagementClient) -> None:
    """A topic is created, read, listed, updated and deleted; each answer shows what was asked."""
    mapping = JsonInputSchemaMapping(
        id=JsonField(source_field="number"), subject=JsonFieldWithDefault(source_field="about", default_value="none")
    )
    asked = Topic(
        location="local",
        tags={"team": "red"},
        input_schema="CustomEventSchema",
        input_schema_mapping=mapping,
        public_network_access="Enabled",
        inbound_ip_rules=[InboundIpRule(ip_mask="127.0.0.0/8", action="Allow")],
    )
    made = management.topics.begin_create_or_update(GROUP, "mg-topic", asked).result()
    read = management.topics.get(GROUP, "mg-topic")
    for topic in (made, read):
        assert topic.id == f"{HOME}/Microsoft.EventGrid/topics/mg-topic"
        assert topic.name == "mg-topic"
        assert topic.type == "Microsoft.EventGrid/topics"
        assert topic.location == "local"
        assert topic.provisioning_state == "Succeeded"
        assert topic.tags == {"team": "red"}
        assert topic.input_schema == "CustomEventSchema"
        assert isinstance(topic.input_schema_mapping, JsonInputSchemaMapping)
        assert topic.input_schema_mapping.id and topic.input_schema_mapping.id.source_field == "number"
        assert topic.input_schema_mapping.subject and topic.input_schema_mapping.subject.default_value == "none"
        assert topic.inbound_ip_rules and topic.inbound_ip_rules[0].ip_mask == "127.0.0.0/8"
        assert topic.disable_local_auth is False
        assert topic.endpoint and topic.endpoint.startswith("https://")
    changes = TopicUpdateParameters(tags={"team": "blue"}, disable_local_auth=True)
    updated = management.topics.begin_update(GROUP, "mg-topic", changes).result()
    assert updated.tags == {"team": "blue"}
    assert updated.disable_local_auth
    assert updated.input_schema == "CustomEventSchema"
    for listed in (management.topics.list_by_resource_group(GROUP), management.topics.list_by_subscription()):
        assert [topic.tags for topic in listed if topic.name == "mg-topic"] == [{"team": "blue"}]
    management.topics.begin_delete(GROUP, "mg-topic").result()
    with pytest.raises(ResourceNotFoundError):
        management.topics.get(GROUP, "mg-topic")


def full_subscription(url: str) -> EventSubscription:
    """A subscription that uses every option of a webhook."""
    return EventSubscription(
        destination=WebHookEventSubscriptionDestination(
            endpoint_url=url,
            max_events_per_batch=10,
            preferred_batch_size_in_kilobytes=128,
            delivery_attribute_mappings=[
                StaticDeliveryAttributeMapping(name="x-plain", value="shown", is_secret=False),
                StaticDeliveryAttributeMapping(name="x-secret", value="hidden", is_secret=True),
                DynamicDeliveryAttributeMapping(name="x-key", source_field="data.key"),
            ],
        ),
        filter=EventSubscriptionFilter(
            subject_begins_with="/red/",
            subject_ends_with=".jpg",
            included_event_types=["Made", "Lost"],
            is_subject_case_sensitive=True,
            enable_advanced_filtering_on_arrays=True,
            advanced_filters=[
                NumberInRangeAdvancedFilter(key="data.n", values=[[1.0, 2.0], [3.0, 4.5]]),
                NumberInAdvancedFilter(key="data.m", values=[7.0]),
                StringBeginsWithAdvancedFilter(key="subject", values=["/red", "/green"]),
                BoolEqualsAdvancedFilter(key="data.b", value=True),
                IsNotNullAdvancedFilter(key="data.key"),
            ],
        ),
        labels=["one", "two"],
        expiration_time_utc=FUTURE,
        event_delivery_schema="CloudEventSchemaV1_0",
        retry_policy=RetryPolicy(max_delivery_attempts=5, event_time_to_live_in_minutes=60),
        dead_letter_destination=StorageBlobDeadLetterDestination(resource_id=STORAGE, blob_container_name="dead"),
    )


def assert_full(shown: EventSubscription, url: str) -> None:
    """The answer has the requested values, without the URL's query and the secret."""
    assert shown.provisioning_state == "Succeeded"
    destination = shown.destination
    assert isinstance(destination, WebHookEventSubscriptionDestination)
    assert destination.endpoint_url is None
    assert destination.endpoint_base_url == url.split("?")[0]
    assert destination.max_events_per_batch == 10
    assert destination.preferred_batch_size_in_kilobytes == 128
    plain, secret, dynamic = destination.delivery_attribute_mappings or []
    assert isinstance(plain, StaticDeliveryAttributeMapping) and isinstance(secret, StaticDeliveryAttributeMapping)
    assert plain.name == "x-plain"
    assert plain.value == "shown"
    assert not plain.is_secret
    assert secret.name == "x-secret"
    assert secret.is_secret
    assert secret.value != "hidden"
    assert isinstance(dynamic, DynamicDeliveryAttributeMapping) and dynamic.source_field == "data.key"
    asked = full_subscription(url)
    assert shown.filter and asked.filter
    assert shown.filter.serialize() == asked.filter.serialize()
    assert shown.labels == ["one", "two"]
    assert shown.expiration_time_utc == FUTURE
    assert shown.event_delivery_schema == "CloudEventSchemaV1_0"
    assert shown.retry_policy and shown.retry_policy.max_delivery_attempts == 5
    assert shown.retry_policy.event_time_to_live_in_minutes == 60
    dead = shown.dead_letter_destination
    assert isinstance(dead, StorageBlobDeadLetterDestination)
    assert dead.resource_id == STORAGE
    assert dead.blob_container_name == "dead"


def test_event_subscription_lives_under_two_names(management: EventGridManagementClient, hook: Webhook) -> None:
    """A subscription with every option is one object under its scope's URL and its topic's."""
    topic = management.topics.begin_create_or_update(GROUP, "mg-subs", Topic(location="local")).result()
    assert topic.id
    url = hook.url("mg-full") + "?code=s3cret"
    made = management.event_subscriptions.begin_create_or_update(topic.id, "mg-full", full_subscription(url)).result()
    by_scope = management.event_subscriptions.get(topic.id, "mg-full")
    by_topic = management.topic_event_subscriptions.get(GROUP, "mg-subs", "mg-full")
    for shown in (made, by_scope, by_topic):
        assert_full(shown, url)
        assert shown.topic and shown.topic.lower() == topic.id.lower()
    assert by_scope.id == f"{topic.id}/providers/Microsoft.EventGrid/eventSubscriptions/mg-full"
    assert by_scope.type == "Microsoft.EventGrid/eventSubscriptions"
    assert by_topic.id == f"{topic.id}/eventSubscriptions/mg-full"
    assert by_topic.type == "Microsoft.EventGrid/topics/eventSubscriptions"

    assert management.event_subscriptions.get_full_url(topic.id, "mg-full").endpoint_url == url
    nested = management.topic_event_subscriptions
    assert nested.get_full_url(GROUP, "mg-subs", "mg-full").endpoint_url == url
    attributes = management.event_subscriptions.get_delivery_attributes(topic.id, "mg-full").value or []
    assert [a.value for a in attributes if isinstance(a, StaticDeliveryAttributeMapping)] == ["shown", "hidden"]

    changes = EventSubscriptionUpdateParameters(
        labels=["three"], filter=EventSubscriptionFilter(subject_ends_with=".png")
    )
    management.event_subscriptions.begin_update(topic.id, "mg-full", changes).result()
    updated = nested.get(GROUP, "mg-subs", "mg-full")
    assert updated.labels == ["three"]
    assert updated.filter and updated.filter.subject_ends_with == ".png"
    assert updated.retry_policy and updated.retry_policy.max_delivery_attempts == 5
    assert nested.get_full_url(GROUP, "mg-subs", "mg-full").endpoint_url == url

    second = EventSubscription(destination=WebHookEventSubscriptionDestination(endpoint_url=hook.url("mg-second")))
    nested.begin_create_or_update(GROUP, "mg-subs", "mg-second", second).result()
    for listed in (
        nested.list(GROUP, "mg-subs"),
        management.event_subscriptions.list_by_resource(GROUP, "Microsoft.EventGrid", "topics", "mg-subs"),
        management.event_subscriptions.list_by_resource(GROUP, "Microsoft.EventGrid", "topics", "mg-subs", top=1),
        management.event_subscriptions.list_regional_by_resource_group(GROUP, "local"),
    ):
        assert [one.name for one in listed if one.name.startswith("mg-")] == ["mg-full", "mg-second"]
    filtered = nested.list(GROUP, "mg-subs", filter="contains(name, 'second')")
    assert [one.name for one in filtered] == ["mg-second"]

    management.event_subscriptions.begin_delete(topic.id, "mg-full").result()
    nested.begin_delete(GROUP, "mg-subs", "mg-second").result()
    with pytest.raises(ResourceNotFoundError):
        nested.get(GROUP, "mg-subs", "mg-full")
    assert list(nested.list(GROUP, "mg-subs")) == []


def test_domain_lives(management: EventGridManagementClient, hook: Webhook) -> None:
    """A domain's topics come and go with their first and last subscription, or are made by hand."""
    asked = Domain(location="local", tags={"a": "b"}, input_schema="CloudEventSchemaV1_0")
    domain = management.domains.begin_create_or_update(GROUP, "mg-domain", asked).result()
    assert domain.id == f"{HOME}/Microsoft.EventGrid/domains/mg-domain"
    assert domain.type == "Microsoft.EventGrid/domains"
    assert domain.tags == {"a": "b"}
    assert domain.auto_create_topic_with_first_subscription is True
    keys = management.domains.list_shared_access_keys(GROUP, "mg-domain")
    renewed = management.domains.regenerate_key(GROUP, "mg-domain", DomainRegenerateKeyRequest(key_name="key2"))
    assert renewed.key1 == keys.key1 and renewed.key2 != keys.key2

    by_hand = management.domain_topics.begin_create_or_update(GROUP, "mg-domain", "by-hand").result()
    assert by_hand.id == f"{domain.id}/topics/by-hand"
    nested = management.domain_topic_event_subscriptions
    subscription = EventSubscription(
        destination=WebHookEventSubscriptionDestination(endpoint_url=hook.url("mg-domain")),
        event_delivery_schema="CloudEventSchemaV1_0",
    )
    made = nested.begin_create_or_update(GROUP, "mg-domain", "by-itself", "mg-in-topic", subscription).result()
    assert made.topic and made.topic.lower() == f"{domain.id}/topics/by-itself".lower()
    assert [one.name for one in nested.list(GROUP, "mg-domain", "by-itself")] == ["mg-in-topic"]
    listed = management.event_subscriptions.list_by_domain_topic(GROUP, "mg-domain", "by-itself")
    assert [one.name for one in listed] == ["mg-in-topic"]
    topics = management.domain_topics.list_by_domain
    assert sorted(str(one.name) for one in topics(GROUP, "mg-domain")) == ["by-hand", "by-itself"]
    nested.begin_delete(GROUP, "mg-domain", "by-itself", "mg-in-topic").result()
    assert [one.name for one in topics(GROUP, "mg-domain")] == ["by-hand"]

    whole = management.domain_event_subscriptions
    whole.begin_create_or_update(GROUP, "mg-domain", "mg-whole", subscription).result()
    assert [one.name for one in whole.list(GROUP, "mg-domain")] == ["mg-whole"]
    management.domain_topics.begin_delete(GROUP, "mg-domain", "by-hand").result()
    management.domains.begin_delete(GROUP, "mg-domain").result()
    with pytest.raises(ResourceNotFoundError):
        management.domains.get(GROUP, "mg-domain")


def test_system_topic_lives(management: EventGridManagementClient, hook: Webhook) -> None:
    """A system topic over a storage account takes subscriptions; topic types are listed with their event types."""
    asked = SystemTopic(location="local", source=STORAGE, topic_type="Microsoft.Storage.StorageAccounts")
    made = management.system_topics.begin_create_or_update(GROUP, "mg-system", asked).result()
    assert made.id == f"{HOME}/Microsoft.EventGrid/systemTopics/mg-system"
    assert made.source == STORAGE
    assert made.topic_type == "Microsoft.Storage.StorageAccounts"
    nested = management.system_topic_event_subscriptions
    subscription = EventSubscription(
        destination=WebHookEventSubscriptionDestination(endpoint_url=hook.url("mg-system")),
        filter=EventSubscriptionFilter(included_event_types=["Microsoft.Storage.BlobCreated"]),
    )
    nested.begin_create_or_update(GROUP, "mg-system", "mg-blobs", subscription).result()
    [shown] = nested.list_by_system_topic(GROUP, "mg-system")
    assert shown.filter and shown.filter.included_event_types == ["Microsoft.Storage.BlobCreated"]
    assert [one.name for one in management.system_topics.list_by_resource_group(GROUP)] == ["mg-system"]
    types = {one.name: one for one in management.topic_types.list()}
    assert "Microsoft.Storage.StorageAccounts" in types
    events = [one.name for one in management.topic_types.list_event_types("Microsoft.Storage.StorageAccounts")]
    assert "Microsoft.Storage.BlobCreated" in events
    nested.begin_delete(GROUP, "mg-system", "mg-blobs").result()
    management.system_topics.begin_delete(GROUP, "mg-system").result()


def test_refusals_name_the_field(management: EventGridManagementClient, hook: Webhook) -> None:
    """An impossible value is refused with an ARM error that names the wrong field."""
    topic = management.topics.begin_create_or_update(GROUP, "mg-bad", Topic(location="local")).result()
    assert topic.id
    webhook = WebHookEventSubscriptionDestination(endpoint_url=hook.url("mg-bad"))
    past = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    for wrong, word in (
        (EventSubscription(destination=webhook, retry_policy=RetryPolicy(max_delivery_attempts=31)), "maxDelivery"),
        (EventSubscription(destination=webhook, expiration_time_utc=past), "expiration"),
        (EventSubscription(destination=webhook, event_delivery_schema="CustomInputSchema"), "eventDeliverySchema"),
        (EventSubscription(destination=WebHookEventSubscriptionDestination()), "endpointUrl"),
    ):
        with pytest.raises(HttpResponseError) as refused:
            management.event_subscriptions.begin_create_or_update(topic.id, "mg-bad", wrong).result()
        assert refused.value.status_code == 400
        assert refused.value.error is not None
        assert word in f"{refused.value.error.message} {refused.value.error.target}", refused.value.message


def test_validation_by_hand(management: EventGridManagementClient, hook: Webhook) -> None:
    """A subscription whose endpoint does not echo the code waits until a person opens the validation URL."""
    topic = management.topics.begin_create_or_update(GROUP, "mg-hand", Topic(location="local")).result()
    assert topic.id
    asked = EventSubscription(destination=WebHookEventSubscriptionDestination(endpoint_url=hook.url("mute-mg")))
    management.event_subscriptions.begin_create_or_update(topic.id, "mg-hand", asked, polling=False)
    assert management.event_subscriptions.get(topic.id, "mg-hand").provisioning_state == "AwaitingManualAction"
    [handshake] = hook.handshakes("mute-mg")
    with urllib.request.urlopen(handshake.events[0]["data"]["validationUrl"]) as page:
        assert page.status == 200
    assert management.event_subscriptions.get(topic.id, "mg-hand").provisioning_state == "Succeeded"


def test_forwarding_to_another_event_grid(recapito: Service, management: EventGridManagementClient) -> None:
    """The destination that the library has no name for is made from JSON; an update by the library keeps it."""
    cloud = f"{HOME}/Microsoft.EventGrid/topics/cloud"
    to = {"endpointType": "EventGrid", "properties": {"resourceId": cloud}}
    connection = "Endpoint=https://orders.westeurope-1.eventgrid.azure.net/api/events;SharedAccessKey=a2V5"
    trust = ("--server", recapito.url, "--ca-file", str(next(iter(recapito.trust.values()))))
    run("connection", "set", cloud, "--connection-string", connection, *trust)
    topic = management.topics.begin_create_or_update(GROUP, "mg-edge", Topic(location="local")).result().id
    body = io.BytesIO(json.dumps({"properties": {"destination": to}}).encode())
    made = management.event_subscriptions.begin_create_or_update(topic, "to-the-cloud", body).result()
    assert made.provisioning_state == "Succeeded"
    labels = EventSubscriptionUpdateParameters(labels=["kept"])
    management.event_subscriptions.begin_update(topic, "to-the-cloud", labels).result()
    answers: list[Any] = []
    keep = {"raw_response_hook": lambda answer: answers.append(answer.http_response.json())}
    management.event_subscriptions.get(topic, "to-the-cloud", **keep)
    assert (answers[0]["properties"]["destination"], answers[0]["properties"]["labels"]) == (to, ["kept"])
