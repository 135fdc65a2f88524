"""A subscription's destination on the wire: its kind, its batching and attributes where it has them (spec §1.9, §6).

The query of an endpoint's URL and the value of a secret attribute are taken, and shown only to those who ask for them.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from recapito.api.wire.broker import KIND_OF, KINDS, check_broker_attributes, read_broker
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
from recapito.api.wire.storage_queue import read_storage_queue, show_storage_queue
from recapito.domain import limits
from recapito.domain.delivery.attributes import RESERVED, RESERVED_PREFIX, is_header_name, is_sendable
from recapito.domain.resources.resource_id import FUNCTION, HYBRID_CONNECTION
from recapito.domain.resources.subscription import (
    AzureFunction,
    Batching,
    DeliveryAttribute,
    Destination,
    DynamicAttribute,
    EventHub,
    HybridConnection,
    ServiceBusQueue,
    ServiceBusTopic,
    StaticAttribute,
    StorageQueue,
    Subscription,
    WebHook,
)

ENDPOINT_TYPES = (
    "WebHook",
    "AzureFunction",
    "EventHub",
    "ServiceBusQueue",
    "ServiceBusTopic",
    "StorageQueue",
    "HybridConnection",
    "NamespaceTopic",
    "MonitorAlert",
    "PartnerDestination",
)
TLS_VERSIONS = ("1.0", "1.1", "1.2")

_BUILT = ("WebHook", "StorageQueue", "AzureFunction", "HybridConnection", *KINDS)
_ATTRIBUTE_TYPES = ("Static", "Dynamic")
# Headers that only some destinations keep for the server.
_BEARERS = frozenset({"authorization"})
_RELAYS = frozenset({"servicebusauthorization"})


class _WebHook(Body):
    endpoint_url: str | None = None
    max_events_per_batch: int | None = None
    preferred_batch_size_in_kilobytes: int | None = None
    azure_active_directory_tenant_id: str | None = None
    azure_active_directory_application_id_or_uri: str | None = None
    delivery_attribute_mappings: list[Any] | None = None
    minimum_tls_version_allowed: str | None = None
    endpoint_base_url: Any = None  # only the service writes it


class _Function(Body):
    resource_id: str | None = None
    max_events_per_batch: int | None = None
    preferred_batch_size_in_kilobytes: int | None = None
    delivery_attribute_mappings: list[Any] | None = None


class _Hybrid(Body):
    resource_id: str | None = None
    delivery_attribute_mappings: list[Any] | None = None


class _Mapping(Body):
    name: str
    type: str
    properties: Any = None


class _Static(Body):
    value: str | None = None
    is_secret: bool | None = None


class _Dynamic(Body):
    source_field: str


class Delivery(NamedTuple):
    """What a destination on the wire says; `kept` has no effect here and is shown back."""

    destination: Destination
    batching: Batching
    attributes: tuple[DeliveryAttribute, ...]
    kept: dict[str, Any]


class Hidden(NamedTuple):
    """What is there and never shown: an update that leaves it out, as az's do, leaves it as it is."""

    url: str | None
    secrets: dict[str, str]


NOTHING_HIDDEN = Hidden(None, {})


def hidden_of(destination: Destination, attributes: Sequence[DeliveryAttribute]) -> Hidden:
    """What those who see a destination do not see of it."""
    secrets = {one.name.lower(): one.value for one in attributes if isinstance(one, StaticAttribute) and one.secret}
    return Hidden(destination.url if isinstance(destination, WebHook) else None, secrets)


def read_destination(sent: Typed, within: str, hidden: Hidden = NOTHING_HIDDEN) -> Delivery:
    """The destination, or an error that names the field; `within` is where in the request it lies."""
    kind = check_choice(sent.endpoint_type, ENDPOINT_TYPES, f"{within}.endpointType")
    refuse_unbuilt({f"{within}.endpointType": kind not in _BUILT})
    within = f"{within}.properties"
    match kind:
        case "StorageQueue":
            return Delivery(read_storage_queue(sent, within), Batching(), (), {})
        case _ if kind in KINDS:
            broker = read_broker(kind, sent, within)
            attributes = _read_attributes(broker.mappings, frozenset(), within, hidden.secrets)
            check_broker_attributes(broker.destination, attributes, within)
            return Delivery(broker.destination, Batching(), attributes, {})
        case "AzureFunction":
            return _read_function(sent, within, hidden)
        case "HybridConnection":
            return _read_hybrid(sent, within, hidden)
        case _:
            return _read_webhook(sent, within, hidden)


def _read_function(sent: Typed, within: str, hidden: Hidden) -> Delivery:
    function = convert(sent.properties, _Function, within)
    return Delivery(
        AzureFunction(
            resource_id=read_resource_id(function.resource_id, FUNCTION, "a function", f"{within}.resourceId")
        ),
        _read_batching(function, within),
        _read_attributes(function.delivery_attribute_mappings or [], frozenset(), within, hidden.secrets),
        {},
    )


def _read_hybrid(sent: Typed, within: str, hidden: Hidden) -> Delivery:
    hybrid = convert(sent.properties, _Hybrid, within)
    return Delivery(
        HybridConnection(
            resource_id=read_resource_id(
                hybrid.resource_id, HYBRID_CONNECTION, "a hybrid connection", f"{within}.resourceId"
            )
        ),
        Batching(),
        _read_attributes(hybrid.delivery_attribute_mappings or [], _RELAYS, within, hidden.secrets),
        {},
    )


def _read_webhook(sent: Typed, within: str, hidden: Hidden) -> Delivery:
    hook = convert(sent.properties, _WebHook, within)
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
    return Delivery(
        WebHook(url=url, tenant=tenant, application=application),
        _read_batching(hook, within),
        _read_attributes(
            hook.delivery_attribute_mappings or [], _BEARERS if tenant else frozenset(), within, hidden.secrets
        ),
        kept,
    )


def _read_batching(sent: _WebHook | _Function, within: str) -> Batching:
    events, kilobytes = sent.max_events_per_batch, sent.preferred_batch_size_in_kilobytes
    if events is not None:
        check_range(events, limits.BATCH_EVENTS, f"{within}.maxEventsPerBatch")
    if kilobytes is not None:
        check_range(kilobytes, limits.BATCH_KILOBYTES, f"{within}.preferredBatchSizeInKilobytes")
    return Batching(events, kilobytes)


def _read_attributes(
    sent: list[Any], kept: frozenset[str], within: str, secrets: dict[str, str]
) -> tuple[DeliveryAttribute, ...]:
    within = f"{within}.deliveryAttributeMappings"
    if len(sent) > limits.DELIVERY_ATTRIBUTES:
        raise invalid(f"'{within}' may have {limits.DELIVERY_ATTRIBUTES} members at most.", within)
    attributes = tuple(_read_attribute(one, kept, f"{within}[{n}]", secrets) for n, one in enumerate(sent))
    names = [attribute.name.lower() for attribute in attributes]
    for n, name in enumerate(names):
        if name in names[:n]:
            raise invalid(f"'{within}[{n}].name' is there twice.", f"{within}[{n}].name")
    return attributes


def _read_attribute(sent: Any, kept: frozenset[str], within: str, secrets: dict[str, str]) -> DeliveryAttribute:
    mapping = convert(sent, _Mapping, within)
    name = _read_name(mapping.name, kept, f"{within}.name")
    kind = check_choice(mapping.type, _ATTRIBUTE_TYPES, f"{within}.type")
    properties = {} if mapping.properties is None else mapping.properties
    within = f"{within}.properties"
    if kind == "Dynamic":
        field = convert(properties, _Dynamic, within).source_field
        return DynamicAttribute(name, check_length(field, limits.FILTER_CHARS, f"{within}.sourceField", 1))
    static = convert(properties, _Static, within)
    target = f"{within}.value"
    value = secrets.get(name.lower()) if static.value is None and static.is_secret else static.value
    if value is None:
        raise invalid(f"'{target}' is required; a secret is never shown, so it must be sent again.", target)
    if len(value.encode()) > limits.ATTRIBUTE_VALUE_BYTES:
        raise invalid(f"'{target}' must have {limits.ATTRIBUTE_VALUE_BYTES} bytes at most.", target)
    if not is_sendable(value):
        raise invalid(f"'{target}' may hold printable ASCII characters only, because it becomes a header.", target)
    return StaticAttribute(name, value, bool(static.is_secret))


def _read_name(name: str, kept: frozenset[str], target: str) -> str:
    check_length(name, limits.ATTRIBUTE_NAME_CHARS, target, 1)
    if not is_header_name(name):
        raise invalid(f"'{target}' must be a header's name: letters, digits and !#$%&'*+.^_`|~- only.", target)
    if name.lower().startswith(RESERVED_PREFIX):
        raise invalid(f"'{target}' must not start with '{RESERVED_PREFIX}', which Event Grid keeps for itself.", target)
    if name.lower() in RESERVED | kept:
        raise invalid(f"'{target}' is '{name}', a header that the server writes itself.", target)
    return name


def show_destination(subscription: Subscription) -> Shown:
    """A destination as ARM shows it, with every default filled in and no secret."""
    kind: str
    properties: Shown
    match subscription.destination:
        case StorageQueue() as queue:
            return show_storage_queue(queue)
        case ServiceBusQueue() | ServiceBusTopic() | EventHub() as broker:
            kind, properties = KIND_OF[type(broker)], {"resourceId": broker.resource_id}
        case AzureFunction(resource_id=id):
            kind, properties = "AzureFunction", {"resourceId": id, **_show_batching(subscription.batching)}
        case HybridConnection(resource_id=id):
            kind, properties = "HybridConnection", {"resourceId": id}
        case WebHook() as hook:
            kind, properties = "WebHook", _show_webhook(hook, subscription)
    if subscription.attributes:
        properties["deliveryAttributeMappings"] = show_attributes(subscription.attributes)
    return {"endpointType": kind, "properties": properties}


def _show_webhook(hook: WebHook, subscription: Subscription) -> Shown:
    properties: Shown = {"endpointBaseUrl": hook.base_url, **_show_batching(subscription.batching)}
    if hook.tenant is not None:
        properties["azureActiveDirectoryTenantId"] = hook.tenant
        properties["azureActiveDirectoryApplicationIdOrUri"] = hook.application
    if "minimumTlsVersionAllowed" in subscription.kept:
        properties["minimumTlsVersionAllowed"] = subscription.kept["minimumTlsVersionAllowed"]
    return properties


def _show_batching(batching: Batching) -> Shown:
    return {
        "maxEventsPerBatch": batching.event_limit,
        "preferredBatchSizeInKilobytes": batching.preferred_kilobytes or limits.BATCH_KILOBYTES_DEFAULT,
    }


def show_attributes(attributes: Sequence[DeliveryAttribute], secrets: bool = False) -> list[Shown]:
    """Delivery attributes as ARM shows them; the values of secret ones only to those who asked for them."""
    return [_show_attribute(attribute, secrets) for attribute in attributes]


def _show_attribute(attribute: DeliveryAttribute, secrets: bool) -> Shown:
    match attribute:
        case StaticAttribute(name, value, secret):
            shown = value if secrets or not secret else None
            return {"name": name, "type": "Static", "properties": {"value": shown, "isSecret": secret}}
        case DynamicAttribute(name, source):
            return {"name": name, "type": "Dynamic", "properties": {"sourceField": source}}
