"""Delivery attributes on the wire: the custom headers, or a broker's properties, of a subscription (spec §1.9).

The value of a secret attribute comes in, and goes out only in an answer to `getDeliveryAttributes`.
"""

from collections.abc import Sequence
from typing import Any

from recapito.api.wire.decode import Body, Shown, check_choice, check_length, convert, invalid
from recapito.domain import limits
from recapito.domain.delivery.attributes import RESERVED, is_header_name, is_key, is_sendable
from recapito.domain.delivery.broker_message import MESSAGE_ID, PARTITION_KEY, SESSION_ID
from recapito.domain.delivery.headers import PREFIX
from recapito.domain.resources.destination import DestinationKind
from recapito.domain.resources.subscription import DeliveryAttribute, DynamicAttribute, StaticAttribute

MAPPINGS = "deliveryAttributeMappings"
_TYPES = ("Static", "Dynamic")


class _Mapping(Body):
    name: str
    type: str
    properties: Any = None


class _Static(Body):
    value: str | None = None
    is_secret: bool | None = None


class _Dynamic(Body):
    source_field: str


def read_attributes(
    sent: list[Any] | None,
    kind: DestinationKind,
    within: str,
    secrets: dict[str, str],
    reserved: frozenset[str] = frozenset(),
) -> tuple[DeliveryAttribute, ...]:
    """The attributes, or an error that names the field.

    `within` is the path of the destination's properties in the request. `secrets` are the stored values by name in
    lower case, for attributes that are sent without theirs. `reserved` adds names to those that the kind reserves.
    """
    within = f"{within}.{MAPPINGS}"
    sent = sent or []
    if len(sent) > limits.DELIVERY_ATTRIBUTES:
        raise invalid(f"'{within}' may have {limits.DELIVERY_ATTRIBUTES} members at most.", within)
    reserved = reserved | kind.reserved
    attributes = tuple(_read_attribute(mapping, reserved, f"{within}[{n}]", secrets) for n, mapping in enumerate(sent))
    names = [attribute.name.lower() for attribute in attributes]
    for n, name in enumerate(names):
        if name in names[:n]:
            raise invalid(f"'{within}[{n}].name' is there twice.", f"{within}[{n}].name")
    _check_sort_keys(attributes, kind.sort_keys, within)
    return attributes


def _read_attribute(sent: Any, reserved: frozenset[str], within: str, secrets: dict[str, str]) -> DeliveryAttribute:
    mapping = convert(sent, _Mapping, within)
    name = _read_name(mapping.name, reserved, f"{within}.name")
    type = check_choice(mapping.type, _TYPES, f"{within}.type")
    properties = {} if mapping.properties is None else mapping.properties
    within = f"{within}.properties"
    if type == "Dynamic":
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


def _read_name(name: str, reserved: frozenset[str], target: str) -> str:
    check_length(name, limits.ATTRIBUTE_NAME_CHARS, target, 1)
    if not is_header_name(name):
        raise invalid(f"'{target}' must be a header's name: letters, digits and !#$%&'*+.^_`|~- only.", target)
    if name.lower().startswith(PREFIX):
        raise invalid(f"'{target}' must not start with '{PREFIX}', which Event Grid keeps for itself.", target)
    if name.lower() in RESERVED | reserved:
        raise invalid(f"'{target}' is '{name}', a header that the server writes itself.", target)
    return name


def _check_sort_keys(attributes: Sequence[DeliveryAttribute], sort_keys: frozenset[str], within: str) -> None:
    """A broker sorts by short values. Service Bus takes a message id from the event only, and not beside a session."""
    for n, attribute in enumerate(attributes):
        if not isinstance(attribute, StaticAttribute) or attribute.name.lower() not in sort_keys:
            continue
        if not is_key(attribute.value):
            target = f"{within}[{n}].properties.value"
            raise invalid(f"'{target}' must have 1 to {limits.BROKER_KEY_CHARS} characters.", target)
    if MESSAGE_ID.lower() not in sort_keys:
        return
    _check_partition(attributes, within)
    names = [attribute.name.lower() for attribute in attributes]
    if MESSAGE_ID.lower() not in names:
        return
    at = names.index(MESSAGE_ID.lower())
    target = f"{within}[{at}]"
    if isinstance(attributes[at], StaticAttribute):
        raise invalid(
            f"'{target}.type' must be Dynamic: messages must not all have one {MESSAGE_ID}.", f"{target}.type"
        )
    if SESSION_ID.lower() in names:
        raise invalid(f"'{target}.name' is {MESSAGE_ID}, which cannot be set beside {SESSION_ID}.", f"{target}.name")


def _check_partition(attributes: Sequence[DeliveryAttribute], within: str) -> None:
    """Service Bus refuses a message whose partition differs from its session; static values are compared here."""
    static = {
        attribute.name.lower(): (n, attribute.value)
        for n, attribute in enumerate(attributes)
        if isinstance(attribute, StaticAttribute)
    }
    partition, session = static.get(PARTITION_KEY.lower()), static.get(SESSION_ID.lower())
    if partition is not None and session is not None and partition[1] != session[1]:
        target = f"{within}[{partition[0]}].properties.value"
        raise invalid(f"'{target}' must be that of {SESSION_ID}, or {PARTITION_KEY} be left out.", target)


def show_attributes(attributes: Sequence[DeliveryAttribute], secrets: bool = False) -> list[Shown]:
    """Delivery attributes as ARM shows them; `secrets` includes the values of secret ones."""
    return [_show_attribute(attribute, secrets) for attribute in attributes]


def _show_attribute(attribute: DeliveryAttribute, secrets: bool) -> Shown:
    match attribute:
        case StaticAttribute(name, value, secret):
            visible = value if secrets or not secret else None
            return {"name": name, "type": "Static", "properties": {"value": visible, "isSecret": secret}}
        case DynamicAttribute(name, source):
            return {"name": name, "type": "Dynamic", "properties": {"sourceField": source}}
