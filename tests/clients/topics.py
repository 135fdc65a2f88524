"""Topics and subscriptions for Microsoft's publishers."""

from typing import Any, NamedTuple

from azure.mgmt.eventgrid import EventGridManagementClient
from azure.mgmt.eventgrid.models import (
    EventSubscription,
    JsonField,
    JsonFieldWithDefault,
    JsonInputSchemaMapping,
    Topic,
    WebHookEventSubscriptionDestination,
)

GROUP = "python"
MAPPING = JsonInputSchemaMapping(
    id=JsonField(source_field="number"),
    event_type=JsonFieldWithDefault(source_field="kind", default_value="Unknown"),
    subject=JsonFieldWithDefault(default_value="nothing"),
    data_version=JsonFieldWithDefault(default_value="3"),
)


class Made(NamedTuple):
    """The facts of a topic or a domain for publishers and subscribers."""

    id: str
    endpoint: str
    key: str


def make_topic(
    management: EventGridManagementClient, name: str, schema: str = "EventGridSchema", **properties: Any
) -> Made:
    """Create a topic."""
    topic = management.topics.begin_create_or_update(
        GROUP, name, Topic(location="local", input_schema=schema, **properties)
    ).result()
    key = management.topics.list_shared_access_keys(GROUP, name).key1
    assert topic.id and topic.endpoint and key
    return Made(topic.id, topic.endpoint, key)


def subscribe(
    management: EventGridManagementClient, topic_id: str, name: str, url: str, schema: str, **destination: Any
) -> None:
    """Subscribe a webhook."""
    management.event_subscriptions.begin_create_or_update(
        topic_id,
        name,
        EventSubscription(
            destination=WebHookEventSubscriptionDestination(endpoint_url=url, **destination),
            event_delivery_schema=schema,
        ),
    ).result()
