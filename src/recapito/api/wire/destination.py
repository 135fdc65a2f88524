"""A subscription's destination on the wire, with its batching and delivery attributes (spec §1.9, §6).

A destination that clients name by `resourceId` alone is read and shown by its row in `DESTINATION_KINDS`. One that has
properties of its own has a reader and a view here, in `_WIRES`. The query of an endpoint's URL comes in and is not
shown again, except in an answer to `getFullUrl`.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from recapito.api.wire.attributes import MAPPINGS, read_attributes, show_attributes
from recapito.api.wire.decode import (
    Body,
    Shown,
    Typed,
    check_choice,
    check_length,
    check_range,
    convert,
    invalid,
    read_resource_id,
    refuse_unbuilt,
)
from recapito.domain import limits
from recapito.domain.resources.destination import (
    DESTINATION_KINDS,
    NOT_BUILT,
    AzureResource,
    Destination,
    EventGrid,
    StorageQueue,
    WebHook,
    kind_of,
)
from recapito.domain.resources.resource_id import EVENT_GRID_NAMESPACE_TOPIC
from recapito.domain.resources.subscription import Batching, DeliveryAttribute, StaticAttribute, Subscription

TLS_VERSIONS = ("1.0", "1.1", "1.2")

_STRUCT_OF = {kind.endpoint_type: struct for struct, kind in DESTINATION_KINDS.items()}
_ENDPOINT_TYPES = (*_STRUCT_OF, *NOT_BUILT)
_BEARER = frozenset({"authorization"})  # the header that carries the token of a webhook with a tenant
_QUEUE = re.compile(r"[a-z0-9](?:[a-z0-9]|-(?!-)){1,61}[a-z0-9]")


class _ResourceDestination(Body):
    resource_id: str | None = None
    delivery_attribute_mappings: list[Any] | None = None


class _BatchedResource(_ResourceDestination):
    max_events_per_batch: int | None = None
    preferred_batch_size_in_kilobytes: int | None = None


class _WebHook(Body):
    endpoint_url: str | None = None
    max_events_per_batch: int | None = None
    preferred_batch_size_in_kilobytes: int | None = None
    azure_active_directory_tenant_id: str | None = None
    azure_active_directory_application_id_or_uri: str | None = None
    delivery_attribute_mappings: list[Any] | None = None
    minimum_tls_version_allowed: str | None = None
    endpoint_base_url: Any = None  # only the service writes it


class _StorageQueue(Body):
    resource_id: str | None = None
    queue_name: str | None = None
    queue_message_time_to_live_in_seconds: int | None = None


class _EventGrid(Body):
    resource_id: str | None = None
    endpoint_url: Any = None  # this and the next two: as Event Grid on IoT Edge had it
    sas_key: Any = None
    topic_name: Any = None


class ReadDestination(NamedTuple):
    """The contents of a destination on the wire; `kept` has no effect here and is shown back."""

    destination: Destination
    batching: Batching
    attributes: tuple[DeliveryAttribute, ...]
    kept: dict[str, Any]


class Hidden(NamedTuple):
    """Stored values that are never shown. An update that leaves one out, as az's do, leaves it as it is."""

    url: str | None
    secrets: dict[str, str]


NOTHING_HIDDEN = Hidden(None, {})


def hidden_of(destination: Destination, attributes: Sequence[DeliveryAttribute]) -> Hidden:
    """The values of a stored subscription that its clients do not see."""
    secrets = {
        attribute.name.lower(): attribute.value
        for attribute in attributes
        if isinstance(attribute, StaticAttribute) and attribute.secret
    }
    return Hidden(destination.url if isinstance(destination, WebHook) else None, secrets)


def read_destination(sent: Typed, within: str, hidden: Hidden = NOTHING_HIDDEN) -> ReadDestination:
    """The destination, or an error that names the field; `within` is its path in the request."""
    endpoint_type = check_choice(sent.endpoint_type, _ENDPOINT_TYPES, f"{within}.endpointType")
    refuse_unbuilt({f"{within}.endpointType": endpoint_type in NOT_BUILT})
    struct = _STRUCT_OF[endpoint_type]
    return _wire_of(struct).read(struct, sent.properties, f"{within}.properties", hidden)


def show_destination(subscription: Subscription) -> Shown:
    """A destination as ARM shows it, with every default filled in and no secret."""
    struct = type(subscription.destination)
    properties = _wire_of(struct).show(subscription)
    if subscription.attributes:
        properties[MAPPINGS] = show_attributes(subscription.attributes)
    return {"endpointType": DESTINATION_KINDS[struct].endpoint_type, "properties": properties}


def _read_resource(struct: type[Any], sent: Any, within: str, hidden: Hidden) -> ReadDestination:
    kind = DESTINATION_KINDS[struct]
    assert kind.resources, f"{kind.endpoint_type} has no resource id: it needs a reader of its own"
    resource = convert(sent, _BatchedResource if kind.batches else _ResourceDestination, within)
    id = read_resource_id(resource.resource_id, kind.resources, kind.noun, f"{within}.resourceId")
    batching = _read_batching(resource, within) if isinstance(resource, _BatchedResource) else Batching()
    attributes = read_attributes(resource.delivery_attribute_mappings, kind, within, hidden.secrets)
    return ReadDestination(struct(resource_id=id), batching, attributes, {})


def _show_resource(subscription: Subscription) -> Shown:
    destination = subscription.destination
    assert isinstance(destination, AzureResource)
    batching = _show_batching(subscription.batching) if kind_of(destination).batches else {}
    return {"resourceId": destination.resource_id, **batching}


def _read_webhook(struct: type[Any], sent: Any, within: str, hidden: Hidden) -> ReadDestination:
    hook = convert(sent, _WebHook, within)
    url = hidden.url if hook.endpoint_url is None else hook.endpoint_url
    if url is None:
        raise invalid(f"'{within}.endpointUrl' is required.", f"{within}.endpointUrl")
    tenant = hook.azure_active_directory_tenant_id or None
    application = hook.azure_active_directory_application_id_or_uri or None
    for name, value in (("TenantId", tenant), ("ApplicationIdOrUri", application)):
        target = f"{within}.azureActiveDirectory{name}"
        check_length(value or "", limits.FILTER_CHARS, target)
        if value is None and (tenant or application):
            raise invalid(f"'{target}' is required: a tenant and an application come together.", target)
    kept: dict[str, Any] = {}
    if hook.minimum_tls_version_allowed:
        target = f"{within}.minimumTlsVersionAllowed"
        kept["minimumTlsVersionAllowed"] = check_choice(hook.minimum_tls_version_allowed, TLS_VERSIONS, target)
    batching = _read_batching(hook, within)
    kind, reserved = DESTINATION_KINDS[WebHook], _BEARER if tenant else frozenset()
    attributes = read_attributes(hook.delivery_attribute_mappings, kind, within, hidden.secrets, reserved)
    return ReadDestination(WebHook(url=url, tenant=tenant, application=application), batching, attributes, kept)


def _show_webhook(subscription: Subscription) -> Shown:
    hook = subscription.destination
    assert isinstance(hook, WebHook)
    properties: Shown = {"endpointBaseUrl": hook.base_url, **_show_batching(subscription.batching)}
    if hook.tenant is not None:
        properties["azureActiveDirectoryTenantId"] = hook.tenant
        properties["azureActiveDirectoryApplicationIdOrUri"] = hook.application
    if "minimumTlsVersionAllowed" in subscription.kept:
        properties["minimumTlsVersionAllowed"] = subscription.kept["minimumTlsVersionAllowed"]
    return properties


def _read_storage_queue(struct: type[Any], sent: Any, within: str, hidden: Hidden) -> ReadDestination:
    kind = DESTINATION_KINDS[StorageQueue]
    _refuse_attributes(sent, within)
    queue = convert(sent, _StorageQueue, within)
    destination = StorageQueue(
        account=read_resource_id(queue.resource_id, kind.resources, kind.noun, f"{within}.resourceId"),
        queue=_read_queue_name(queue.queue_name or "", f"{within}.queueName"),
        ttl_s=_read_ttl(queue.queue_message_time_to_live_in_seconds, f"{within}.queueMessageTimeToLiveInSeconds"),
    )
    return ReadDestination(destination, Batching(), (), {})


def _show_storage_queue(subscription: Subscription) -> Shown:
    queue = subscription.destination
    assert isinstance(queue, StorageQueue)
    return {
        "resourceId": queue.account,
        "queueName": queue.queue,
        "queueMessageTimeToLiveInSeconds": queue.ttl_s,
    }


def _read_event_grid(struct: type[Any], sent: Any, within: str, hidden: Hidden) -> ReadDestination:
    kind = DESTINATION_KINDS[EventGrid]
    target = convert(sent, _EventGrid, within)
    for name, value in (("endpointUrl", target.endpoint_url), ("sasKey", target.sas_key)):
        if value is not None:
            raise invalid(
                f"'{within}.{name}' belongs to a connection, which keeps the secret: recapito connection set"
                " RESOURCE-ID --connection-string 'Endpoint=URL;SharedAccessKey=KEY'. Name the target by 'resourceId'.",
                f"{within}.{name}",
            )
    if target.topic_name is not None:
        raise invalid(
            f"'{within}.topicName' is a part of the resource id: …/domains/NAME/topics/TOPIC.", f"{within}.topicName"
        )
    id = read_resource_id(target.resource_id, kind.resources, kind.noun, f"{within}.resourceId")
    destination = EventGrid(resource_id=id)
    in_namespace = destination.resource_kind == EVENT_GRID_NAMESPACE_TOPIC
    events = limits.FORWARD_NAMESPACE_EVENTS if in_namespace else limits.FORWARD_EVENTS
    return ReadDestination(destination, Batching(events, limits.FORWARD_KILOBYTES), (), {})


class _Wire(NamedTuple):
    """`read` gets the struct, the properties as sent, their path in the request, and the hidden values."""

    read: Callable[[type[Any], Any, str, Hidden], ReadDestination]
    show: Callable[[Subscription], Shown]


_WIRES: dict[type[Destination], _Wire] = {
    WebHook: _Wire(_read_webhook, _show_webhook),
    StorageQueue: _Wire(_read_storage_queue, _show_storage_queue),
    EventGrid: _Wire(_read_event_grid, _show_resource),
}
_RESOURCE_WIRE = _Wire(_read_resource, _show_resource)


def _wire_of(struct: type[Destination]) -> _Wire:
    return _WIRES.get(struct, _RESOURCE_WIRE)


def _read_batching(sent: _WebHook | _BatchedResource, within: str) -> Batching:
    events, kilobytes = sent.max_events_per_batch, sent.preferred_batch_size_in_kilobytes
    if events is not None:
        check_range(events, limits.BATCH_EVENTS, f"{within}.maxEventsPerBatch")
    if kilobytes is not None:
        check_range(kilobytes, limits.BATCH_KILOBYTES, f"{within}.preferredBatchSizeInKilobytes")
    return Batching(events, kilobytes)


def _show_batching(batching: Batching) -> Shown:
    return {
        "maxEventsPerBatch": batching.event_limit,
        "preferredBatchSizeInKilobytes": batching.preferred_kilobytes or limits.BATCH_KILOBYTES_DEFAULT,
    }


def _read_queue_name(name: str, target: str) -> str:
    if not _QUEUE.fullmatch(name):
        least, most = limits.QUEUE_NAME_CHARS
        raise invalid(
            f"'{target}' must be {least} to {most} lower-case letters, digits and single hyphens, with none at either"
            " end.",
            target,
        )
    return name


def _read_ttl(ttl_s: int | None, target: str) -> int:
    if ttl_s is None:
        return limits.QUEUE_MESSAGE_TTL_S_DEFAULT
    if ttl_s == limits.QUEUE_MESSAGE_FOREVER:
        return ttl_s
    least, most = limits.QUEUE_MESSAGE_TTL_S
    if not least <= ttl_s <= most:
        raise invalid(f"'{target}' must be between {least} and {most}, or -1: forever.", target)
    return ttl_s


def _refuse_attributes(properties: object, within: str) -> None:
    """Other destinations have them, so the error gives the reason (spec §1.9)."""
    for name in properties if isinstance(properties, dict) else ():
        if str(name).lower() == MAPPINGS.lower():
            why = "a message of a storage queue has no headers or properties"
            raise invalid(f"'{within}.{MAPPINGS}' cannot be set: {why}.", f"{within}.{MAPPINGS}")
