"""Forwarding to another Event Grid: the schemas that its four kinds of targets take, and the `topic` of an event there.

Ids, times and data stay as they are. Only events in the Event Grid schema have a `topic`, which the target writes
itself, or by which a domain tells its topics apart.
"""

from recapito.domain.events.conversion import Convert, to_domain, to_domain_topic, to_topic
from recapito.domain.events.schema import DeliverySchema
from recapito.domain.resources.destination import EventGrid
from recapito.domain.resources.resource_id import (
    EVENT_GRID_DOMAIN,
    EVENT_GRID_DOMAIN_TOPIC,
    EVENT_GRID_NAMESPACE_TOPIC,
    parse_resource_id,
)
from recapito.domain.resources.topic import Topic, TopicKind
from recapito.errors import InvalidInput


def check_forward(target: EventGrid, schema: DeliverySchema, topic: Topic) -> None:
    """Raise InvalidInput if the target never takes the events of this topic in this schema."""
    kind, has_topic = target.resource_kind, schema is DeliverySchema.EVENT_GRID
    if kind == EVENT_GRID_NAMESPACE_TOPIC and schema is not DeliverySchema.CLOUD_EVENT:
        raise _invalid(
            f"A namespace topic takes CloudEvents: eventDeliverySchema must be {DeliverySchema.CLOUD_EVENT}."
        )
    if kind == EVENT_GRID_DOMAIN and has_topic and topic.kind is not TopicKind.DOMAIN:
        raise _invalid(
            "The events of a topic do not tell to which topic of the domain they go: name it in the resource id,"
            " …/domains/NAME/topics/TOPIC."
        )
    if kind == EVENT_GRID_DOMAIN_TOPIC and not has_topic:
        raise _invalid(
            f"Events in the schema {schema} name their domain topic themselves, and are not changed: name the domain in"
            " the resource id, without the topic."
        )


def conversion_for(target: EventGrid, schema: DeliverySchema) -> Convert | None:
    """The conversion of events that are sent in this schema, after any other; None if they go as they are."""
    if schema is not DeliverySchema.EVENT_GRID:
        return None
    kind = target.resource_kind
    if kind == EVENT_GRID_DOMAIN:
        return to_domain
    return to_domain_topic(parse_resource_id(target.resource_id).name) if kind == EVENT_GRID_DOMAIN_TOPIC else to_topic


def _invalid(message: str) -> InvalidInput:
    return InvalidInput("InvalidRequest", message, "resourceId")
