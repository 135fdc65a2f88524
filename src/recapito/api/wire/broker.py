"""A Service Bus queue or topic, or an event hub, as a destination on the wire (spec §6): its id and its properties."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from recapito.api.wire.decode import Body, Typed, convert, invalid, read_resource_id
from recapito.domain import limits
from recapito.domain.delivery.attributes import is_key
from recapito.domain.delivery.broker_message import MESSAGE_ID, PARTITION_KEY, SESSION_ID, keys_of
from recapito.domain.resources.resource_id import EVENT_HUB, SERVICE_BUS_QUEUE, SERVICE_BUS_TOPIC
from recapito.domain.resources.subscription import (
    Broker,
    DeliveryAttribute,
    EventHub,
    ServiceBusQueue,
    ServiceBusTopic,
    StaticAttribute,
)


class _Kind(NamedTuple):
    resource: str
    words: str
    destination: type[Broker]


KINDS = {
    "ServiceBusQueue": _Kind(SERVICE_BUS_QUEUE, "a Service Bus queue", ServiceBusQueue),
    "ServiceBusTopic": _Kind(SERVICE_BUS_TOPIC, "a Service Bus topic", ServiceBusTopic),
    "EventHub": _Kind(EVENT_HUB, "an event hub", EventHub),
}


KIND_OF = {kind.destination: name for name, kind in KINDS.items()}


class _Broker(Body):
    resource_id: str | None = None
    delivery_attribute_mappings: list[Any] | None = None


class Read(NamedTuple):
    """The destination, and its delivery attributes, still as they were sent."""

    destination: Broker
    mappings: list[Any]


def read_broker(kind: str, sent: Typed, within: str) -> Read:
    """The destination, or an error that names the field; `within` is where in the request its properties lie."""
    broker, expected = convert(sent.properties, _Broker, within), KINDS[kind]
    id = read_resource_id(broker.resource_id, expected.resource, expected.words, f"{within}.resourceId")
    return Read(expected.destination(resource_id=id), broker.delivery_attribute_mappings or [])


def check_broker_attributes(destination: Broker, attributes: Sequence[DeliveryAttribute], within: str) -> None:
    """What a broker sorts messages by is short. Service Bus takes a message id from the event, not beside a session."""
    keys = keys_of(destination)
    for n, one in enumerate(attributes):
        if isinstance(one, StaticAttribute) and one.name.lower() in keys and not is_key(one.value):
            target = f"{within}.deliveryAttributeMappings[{n}].properties.value"
            raise invalid(f"'{target}' must have 1 to {limits.BROKER_KEY_CHARS} characters.", target)
    if isinstance(destination, EventHub):
        return
    _check_partition(attributes, within)
    names = [one.name.lower() for one in attributes]
    if MESSAGE_ID.lower() not in names:
        return
    at = names.index(MESSAGE_ID.lower())
    target = f"{within}.deliveryAttributeMappings[{at}]"
    if isinstance(attributes[at], StaticAttribute):
        raise invalid(
            f"'{target}.type' must be Dynamic: messages must not all have one {MESSAGE_ID}.", f"{target}.type"
        )
    if SESSION_ID.lower() in names:
        raise invalid(f"'{target}.name' is {MESSAGE_ID}, which can not be set beside {SESSION_ID}.", f"{target}.name")


def _check_partition(attributes: Sequence[DeliveryAttribute], within: str) -> None:
    """Service Bus takes no message whose partition is not that of its session; what is static is known by now."""
    fixed = {one.name.lower(): (n, one.value) for n, one in enumerate(attributes) if isinstance(one, StaticAttribute)}
    partition, session = fixed.get(PARTITION_KEY.lower()), fixed.get(SESSION_ID.lower())
    if partition is not None and session is not None and partition[1] != session[1]:
        target = f"{within}.deliveryAttributeMappings[{partition[0]}].properties.value"
        raise invalid(f"'{target}' must be that of {SESSION_ID}, or {PARTITION_KEY} be left out.", target)
