"""Copies the topics of a resource group, with their event subscriptions, between Azure and Recapito, both ways.

    python examples/copy_topics.py --subscription ID --group shop --from azure --to https://localhost:8585

It needs azure-identity and azure-mgmt-eventgrid. To Azure it signs in as `az login` did, to Recapito by what
`recapito serve --tls` prints: AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_CLIENT_SECRET. Keys and events are not copied.
"""

import argparse
import os
import sys
from collections.abc import Iterator

from azure.core.exceptions import HttpResponseError
from azure.identity import AzureCliCredential, ClientSecretCredential
from azure.mgmt.eventgrid import EventGridManagementClient
from azure.mgmt.eventgrid.models import EventSubscription, Topic, WebHookEventSubscriptionDestination


def connect(place: str, subscription: str) -> EventGridManagementClient:
    """Microsoft's management client of Azure itself, or of a Recapito at a URL."""
    if place == "azure":
        return EventGridManagementClient(AzureCliCredential(), subscription)
    names = ("AZURE_TENANT_ID", "AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET")
    credential = ClientSecretCredential(
        *(os.environ[name] for name in names), authority=place, disable_instance_discovery=True
    )
    return EventGridManagementClient(credential, subscription, base_url=place, credential_scopes=[f"{place}/.default"])


def copy(
    source: EventGridManagementClient, target: EventGridManagementClient, group: str, target_group: str
) -> Iterator[str]:
    """Copy all topics of a group; a line for each thing that was copied, or was not."""
    for topic in source.topics.list_by_resource_group(group):
        target.topics.begin_create_or_update(target_group, topic.name, _as_asked(topic)).result()
        yield f"topic {topic.name}"
        for shown in source.topic_event_subscriptions.list(group, topic.name):
            asked = _with_secrets(source, group, topic.name, shown)
            try:
                target.topic_event_subscriptions.begin_create_or_update(
                    target_group, topic.name, shown.name, asked
                ).result()
            except HttpResponseError as error:
                yield f"NOT COPIED: event subscription {topic.name}/{shown.name}: {error.message}"
            else:
                yield f"event subscription {topic.name}/{shown.name}"


def _as_asked(topic: Topic) -> Topic:
    """A topic as one asks for it, from how it is shown."""
    return Topic(
        location=topic.location,
        tags=topic.tags,
        input_schema=topic.input_schema,
        input_schema_mapping=topic.input_schema_mapping,
        public_network_access=topic.public_network_access,
        inbound_ip_rules=topic.inbound_ip_rules,
        disable_local_auth=topic.disable_local_auth,
    )


def _with_secrets(
    source: EventGridManagementClient, group: str, topic: str, shown: EventSubscription
) -> EventSubscription:
    """An event subscription with what is not shown of it: the query of its URL, the values of its headers."""
    destination = shown.destination
    if isinstance(destination, WebHookEventSubscriptionDestination):
        destination.endpoint_url = source.topic_event_subscriptions.get_full_url(group, topic, shown.name).endpoint_url
        if destination.delivery_attribute_mappings:
            whole = source.topic_event_subscriptions.get_delivery_attributes(group, topic, shown.name)
            destination.delivery_attribute_mappings = whole.value
    return EventSubscription(
        destination=destination,
        filter=shown.filter,
        labels=shown.labels,
        expiration_time_utc=shown.expiration_time_utc,
        event_delivery_schema=shown.event_delivery_schema,
        retry_policy=shown.retry_policy,
        dead_letter_destination=shown.dead_letter_destination,
    )


def main() -> int:
    """Copy, and say what was copied; the exit code says whether all was."""
    parser = argparse.ArgumentParser(description="Copies topics between Azure and Recapito.")
    parser.add_argument("--subscription", required=True, help="the Azure subscription, a GUID")
    parser.add_argument("--group", required=True, help="the resource group")
    parser.add_argument("--to-group", help="the resource group to copy to (default: the same name)")
    parser.add_argument("--from", dest="source", required=True, help="'azure', or the URL of a Recapito")
    parser.add_argument("--to", dest="target", required=True, help="'azure', or the URL of a Recapito")
    options = parser.parse_args()
    source, target = (connect(place, options.subscription) for place in (options.source, options.target))
    missing = False
    for line in copy(source, target, options.group, options.to_group or options.group):
        print(line, flush=True)
        missing |= line.startswith("NOT COPIED")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
