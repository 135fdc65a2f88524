"""Topics, domains and system topics on the wire: ARM's body into a draft, and a topic into ARM's body.

A field that a PATCH omits or sends as null stays as it is. Settings without an effect here, for example a managed
identity, are kept and returned; settings that would change deliveries and are not implemented are refused by name.
"""

import re
from collections.abc import Mapping
from ipaddress import ip_network
from typing import Any
from uuid import UUID

from msgspec.structs import replace

from recapito.api.wire.decode import Body, Shown, check_choice, check_length, decode, invalid, refuse_unbuilt
from recapito.api.wire.destination import TLS_VERSIONS
from recapito.api.wire.mapping import MappingBody, read_mapping, show_mapping
from recapito.domain import limits
from recapito.domain.events.schema import InputSchema
from recapito.domain.instant import stamp
from recapito.domain.resources.topic import Domain, Source, Topic, TopicKind
from recapito.intake.resources.drafts import TopicChange, TopicDraft

_LOCATION = re.compile(r"[A-Za-z0-9 ._-]+")
_KEY_NAMES = ("key1", "key2")
_ACCESS = ("Enabled", "Disabled", "SecuredByPerimeter")
_BOUNDARIES = ("WithinGeopair", "WithinRegion")
_IDENTITY_TYPES = ("None", "SystemAssigned", "UserAssigned", "SystemAssigned, UserAssigned")


class _IpRule(Body):
    ip_mask: str
    action: str | None = None


class _EventTypeInfo(Body):
    kind: str | None = None
    inline_event_types: dict[str, Any] | None = None


class _Written(Body):
    """Fields that only the service writes; clients send them back."""

    provisioning_state: Any = None
    metric_resource_id: Any = None
    endpoint: Any = None
    private_endpoint_connections: Any = None


class _TopicProperties(_Written):
    input_schema: str | None = None
    input_schema_mapping: MappingBody | None = None
    public_network_access: str | None = None
    inbound_ip_rules: list[_IpRule] | None = None
    disable_local_auth: bool | None = None
    minimum_tls_version_allowed: str | None = None
    event_type_info: _EventTypeInfo | None = None
    data_residency_boundary: str | None = None


class _DomainProperties(_TopicProperties):
    auto_create_topic_with_first_subscription: bool | None = None
    auto_delete_topic_with_last_subscription: bool | None = None


class _SystemTopicProperties(_Written):
    source: str | None = None
    topic_type: str | None = None


class _TopicSku(Body):
    name: str | None = None


class _TopicIdentity(Body):
    type: str | None = None
    user_assigned_identities: dict[str, Any] | None = None
    principal_id: Any = None
    tenant_id: Any = None


class _TopicResource(Body):
    location: str | None = None
    tags: dict[str, str] | None = None
    identity: _TopicIdentity | None = None
    sku: _TopicSku | None = None
    kind: str | None = None
    extended_location: Any = None
    # Fields that only the service writes.
    id: Any = None
    name: Any = None
    type: Any = None
    system_data: Any = None


class TopicBody(_TopicResource):
    """A topic as sent."""

    properties: _TopicProperties | None = None


class DomainBody(_TopicResource):
    """A domain as sent."""

    properties: _DomainProperties | None = None


class SystemTopicBody(_TopicResource):
    """A system topic as sent."""

    properties: _SystemTopicProperties | None = None


class RegenerateBody(Body):
    """The name of the key to regenerate."""

    key_name: str


BODIES: dict[TopicKind, type[TopicBody | DomainBody | SystemTopicBody]] = {
    TopicKind.CUSTOM: TopicBody,
    TopicKind.DOMAIN: DomainBody,
    TopicKind.SYSTEM: SystemTopicBody,
}


def read_topic(kind: TopicKind, body: bytes, azure_subscription: str, resource_group: str, name: str) -> TopicDraft:
    """The draft of a topic, or an error that names the field."""
    empty = TopicDraft.of(
        kind=kind,
        name=name,
        azure_subscription=azure_subscription,
        resource_group=resource_group,
        domain=Domain() if kind is TopicKind.DOMAIN else None,
    )
    return read_topic_change(kind, body)(empty)


def read_topic_change(kind: TopicKind, body: bytes) -> TopicChange:
    """The change that a body makes, from the current draft to the wanted one."""
    sent = decode(body, BODIES[kind])
    changes, kept = _read_resource(sent)
    match sent.properties:
        case _SystemTopicProperties() as properties:
            changes |= _read_source(properties)
        case _TopicProperties() as properties:
            more, more_kept = _read_properties(properties)
            changes |= more
            kept |= more_kept
    flags = _read_flags(sent.properties) if isinstance(sent.properties, _DomainProperties) else {}

    def change(current: TopicDraft) -> TopicDraft:
        domain, stays = current.wanted.domain, current.wanted.kept
        domain = None if domain is None else replace(domain, **flags)
        return current.changed(**changes, domain=domain, kept={**stays, **kept})

    return change


def read_key_name(body: bytes) -> str:
    return check_choice(decode(body, RegenerateBody).key_name, _KEY_NAMES, "keyName")


def read_location(location: str) -> str:
    """The location, if its length and characters are allowed."""
    check_length(location, limits.LOCATION_CHARS[1], "location", limits.LOCATION_CHARS[0])
    if not _LOCATION.fullmatch(location):
        raise invalid("'location' may contain only letters, digits, blanks and the characters - . _", "location")
    return location


def read_tags(tags: dict[str, str]) -> dict[str, str]:
    """The tags, if their number and lengths are allowed."""
    if len(tags) > limits.TAGS:
        raise invalid(f"'tags' may have {limits.TAGS} members at most.", "tags")
    for name, value in tags.items():
        check_length(name, limits.TAG_CHARS, "tags", 1)
        check_length(value, limits.TAG_CHARS, "tags")
    return tags


def _read_resource(sent: _TopicResource) -> tuple[dict[str, Any], dict[str, Any]]:
    """The fields of a draft that all kinds share, and settings without an effect here, which are kept."""
    refuse_unbuilt(
        {
            "sku.name": sent.sku and (sent.sku.name or "Basic").lower() != "basic",
            "kind": (sent.kind or "Azure").lower() != "azure",
            "extendedLocation": sent.extended_location,
        }
    )
    changes: dict[str, Any] = {}
    if sent.location is not None:
        changes["location"] = read_location(sent.location)
    if sent.tags is not None:
        changes["tags"] = read_tags(sent.tags)
    if sent.identity is None:
        return changes, {}
    kind = check_choice(sent.identity.type or "None", _IDENTITY_TYPES, "identity.type")
    users = sorted(sent.identity.user_assigned_identities or {})
    return changes, {"identity": {"type": kind, "userAssignedIdentities": {user: {} for user in users} or None}}


def _read_properties(sent: _TopicProperties) -> tuple[dict[str, Any], dict[str, Any]]:
    changes: dict[str, Any] = {}
    if sent.input_schema:
        chosen = check_choice(sent.input_schema, tuple(InputSchema), "properties.inputSchema")
        changes["input_schema"] = InputSchema(chosen)
    if sent.input_schema_mapping is not None:
        changes["mapping"] = read_mapping(sent.input_schema_mapping, "properties.inputSchemaMapping")
    if sent.public_network_access:
        access = check_choice(sent.public_network_access, _ACCESS, "properties.publicNetworkAccess")
        refuse_unbuilt({"properties.publicNetworkAccess": access == "SecuredByPerimeter"})
        changes["public_access"] = access == "Enabled"
    if sent.inbound_ip_rules is not None:
        changes["ip_rules"] = _read_ip_rules(sent.inbound_ip_rules)
    if sent.disable_local_auth is not None:
        changes["local_auth"] = not sent.disable_local_auth
    kept: dict[str, Any] = {}
    for field, value, choices in (
        ("minimumTlsVersionAllowed", sent.minimum_tls_version_allowed, TLS_VERSIONS),
        ("dataResidencyBoundary", sent.data_residency_boundary, _BOUNDARIES),
    ):
        if value:
            kept[field] = check_choice(value, choices, f"properties.{field}")
    if sent.event_type_info is not None:
        kind = check_choice(sent.event_type_info.kind or "Inline", ("Inline",), "properties.eventTypeInfo.kind")
        kept["eventTypeInfo"] = {"kind": kind, "inlineEventTypes": sent.event_type_info.inline_event_types}
    return changes, kept


def _read_ip_rules(sent: list[_IpRule]) -> tuple[str, ...]:
    within = "properties.inboundIpRules"
    if len(sent) > limits.IP_RULES:
        raise invalid(f"'{within}' may have {limits.IP_RULES} members at most.", within)
    for n, rule in enumerate(sent):
        target = f"{within}[{n}].ipMask"
        check_choice(rule.action or "Allow", ("Allow",), f"{within}[{n}].action")
        check_length(rule.ip_mask, limits.LOCATION_CHARS[1], target, 1)
        try:
            ip_network(rule.ip_mask)
        except ValueError:
            raise invalid(f"'{target}' must be an address or a network, like 10.1.0.0/16.", target) from None
    return tuple(rule.ip_mask for rule in sent)


def _read_flags(sent: _DomainProperties) -> dict[str, bool]:
    create, delete = sent.auto_create_topic_with_first_subscription, sent.auto_delete_topic_with_last_subscription
    flags = {"auto_create": create, "auto_delete": delete}
    return {name: value for name, value in flags.items() if value is not None}


def _read_source(sent: _SystemTopicProperties) -> dict[str, Source]:
    if sent.source is None and sent.topic_type is None:
        return {}
    source = check_length(sent.source or "", limits.RESOURCE_ID_CHARS, "properties.source", 1)
    kind = check_length(sent.topic_type or "", limits.TAG_CHARS, "properties.topicType", 1)
    return {"source": Source(source, kind)}


def show_topic(topic: Topic, public_url: str, state: str = "Succeeded") -> Shown:
    body: Shown = {
        "id": topic.resource_id,
        "name": topic.name,
        "type": f"Microsoft.EventGrid/{topic.kind}",
        "location": topic.location,
        "tags": topic.tags,
        "properties": {
            "provisioningState": state,
            "metricResourceId": str(UUID(int=topic.id)),
            **_show_properties(topic, public_url),
        },
        "systemData": {"createdAt": stamp(topic.created_at), "lastModifiedAt": stamp(topic.modified_at)},
    }
    if topic.kind is not TopicKind.SYSTEM:
        body["sku"] = {"name": "Basic"}
    if topic.kind is TopicKind.CUSTOM:
        body["kind"] = "Azure"
    if "identity" in topic.kept:
        body["identity"] = topic.kept["identity"]
    return body


def _show_properties(topic: Topic, public_url: str) -> Shown:
    if topic.source is not None:
        return {"source": topic.source.resource_id, "topicType": topic.source.topic_type}
    body: Shown = {
        "endpoint": f"{public_url}/{topic.kind}/{topic.name}/api/events",
        "inputSchema": topic.input_schema.value,
        "publicNetworkAccess": "Enabled" if topic.public_access else "Disabled",
        "inboundIpRules": [{"ipMask": mask, "action": "Allow"} for mask in topic.ip_rules],
        "disableLocalAuth": not topic.local_auth,
    }
    if topic.mapping is not None:
        body["inputSchemaMapping"] = show_mapping(topic.mapping)
    if topic.domain is not None:
        body["autoCreateTopicWithFirstSubscription"] = topic.domain.auto_create
        body["autoDeleteTopicWithLastSubscription"] = topic.domain.auto_delete
    return body | {name: value for name, value in topic.kept.items() if name != "identity"}


def show_keys(topic: Topic) -> Mapping[str, str]:
    """The answer of listKeys and regenerateKey."""
    return {"key1": topic.key1, "key2": topic.key2}
