"""A topic on the wire: ARM's body into a draft, and a topic into ARM's body."""

import re
from typing import Any

from recapito.api.wire import Body, Shown, check_choice, check_length, decode, invalid, refuse_unbuilt
from recapito.domain import limits
from recapito.domain.instant import stamp
from recapito.domain.topic import Topic
from recapito.intake.draft import TopicDraft

_LOCATION = re.compile(r"[A-Za-z0-9 ._-]+")
_INPUT_SCHEMAS = ("EventGridSchema", "CustomEventSchema", "CloudEventSchemaV1_0")
_KEY_NAMES = ("key1", "key2")


class _TopicProperties(Body):
    input_schema: str | None = None
    input_schema_mapping: Any = None
    public_network_access: str | None = None
    inbound_ip_rules: list[Any] | None = None
    disable_local_auth: bool | None = None
    minimum_tls_version_allowed: str | None = None
    event_type_info: Any = None
    data_residency_boundary: str | None = None  # nothing of ours leaves the machine
    # What only the service writes; clients send it back to us.
    endpoint: Any = None
    provisioning_state: Any = None
    metric_resource_id: Any = None
    private_endpoint_connections: Any = None


class _Named(Body):
    name: str | None = None


class _Identity(Body):
    type: str | None = None
    user_assigned_identities: Any = None
    principal_id: Any = None
    tenant_id: Any = None


class _TopicBody(Body):
    location: str | None = None
    tags: dict[str, str] | None = None
    properties: _TopicProperties | None = None
    sku: _Named | None = None
    kind: str | None = None
    identity: _Identity | None = None
    extended_location: Any = None
    # What only the service writes.
    id: Any = None
    name: Any = None
    type: Any = None
    system_data: Any = None


class _RegenerateBody(Body):
    key_name: str


def read_topic(body: bytes, azure_subscription: str, resource_group: str, name: str) -> TopicDraft:
    """The draft of a topic, or an error that names the field."""
    sent = decode(body, _TopicBody)
    _refuse_unbuilt(sent)
    return TopicDraft(
        name=name,
        azure_subscription=azure_subscription,
        resource_group=resource_group,
        location=None if sent.location is None else _read_location(sent.location),
        tags=_read_tags(sent.tags or {}),
    )


def read_key_name(body: bytes) -> str:
    """Which key is to be regenerated."""
    return check_choice(decode(body, _RegenerateBody).key_name, _KEY_NAMES, "keyName")


def _read_location(location: str) -> str:
    check_length(location, limits.LOCATION_CHARS[1], "location", limits.LOCATION_CHARS[0])
    if not _LOCATION.fullmatch(location):
        raise invalid("'location' may hold letters, digits, blanks and the characters - . _ only.", "location")
    return location


def _read_tags(tags: dict[str, str]) -> dict[str, str]:
    if len(tags) > limits.TAGS:
        raise invalid(f"'tags' may have {limits.TAGS} members at most.", "tags")
    for name, value in tags.items():
        check_length(name, limits.TAG_CHARS, "tags", 1)
        check_length(value, limits.TAG_CHARS, "tags")
    return tags


def _refuse_unbuilt(sent: _TopicBody) -> None:
    properties = sent.properties or _TopicProperties()
    if properties.input_schema is not None:
        check_choice(properties.input_schema, _INPUT_SCHEMAS, "properties.inputSchema")
    refuse_unbuilt(
        {
            "properties.inputSchema": (properties.input_schema or "EventGridSchema").lower() != "eventgridschema",
            "properties.inputSchemaMapping": properties.input_schema_mapping,
            "properties.publicNetworkAccess": (properties.public_network_access or "Enabled").lower() != "enabled",
            "properties.inboundIpRules": properties.inbound_ip_rules,
            "properties.disableLocalAuth": properties.disable_local_auth,
            "properties.minimumTlsVersionAllowed": properties.minimum_tls_version_allowed,
            "properties.eventTypeInfo": properties.event_type_info,
            "sku.name": sent.sku and (sent.sku.name or "Basic").lower() != "basic",
            "kind": (sent.kind or "Azure").lower() != "azure",
            "identity": sent.identity and (sent.identity.type or "None").lower() != "none",
            "extendedLocation": sent.extended_location,
        }
    )


def show_topic(topic: Topic, public_url: str) -> Shown:
    """A topic as ARM shows it."""
    return {
        "id": topic.resource_id,
        "name": topic.name,
        "type": "Microsoft.EventGrid/topics",
        "location": topic.location,
        "tags": topic.tags,
        "sku": {"name": "Basic"},
        "kind": "Azure",
        "properties": {
            "provisioningState": "Succeeded",
            "endpoint": f"{public_url}/topics/{topic.name}/api/events",
            "inputSchema": "EventGridSchema",
            "publicNetworkAccess": "Enabled",
            "disableLocalAuth": False,
        },
        "systemData": {"createdAt": stamp(topic.created_at), "lastModifiedAt": stamp(topic.modified_at)},
    }


def show_keys(topic: Topic) -> Shown:
    """The answer of listKeys and regenerateKey."""
    return {"key1": topic.key1, "key2": topic.key2}
