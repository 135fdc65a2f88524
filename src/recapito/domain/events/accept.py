"""Accepts publish requests: the topic's input schema alone decides how the body is read."""

from collections.abc import Callable, Mapping

from recapito.domain.events import cloud_event, custom_event, event_grid
from recapito.domain.events.json_text import Fault
from recapito.domain.events.schema import InputSchema
from recapito.domain.events.segment import StampedEvent
from recapito.domain.resources.topic import Topic, TopicKind
from recapito.domain.resources.topic_type import topic_type

NAMES = {InputSchema.EVENT_GRID: "EventGridEvent", InputSchema.CUSTOM: "CustomEvent"}


def accept(
    topic: Topic, headers: Mapping[bytes, bytes], body: bytes, now: int, new_id: Callable[[], str]
) -> list[StampedEvent]:
    """The events of one request that is published at `now`, as they are stored; InvalidInput or TooLarge otherwise.

    The names of the headers are in lower case; `new_id` makes ids for custom events that have none.
    """
    domain = topic.kind is TopicKind.DOMAIN
    if topic.input_schema is InputSchema.CLOUD_EVENT:
        return cloud_event.accept(body, headers, domain)
    if cloud_event.media_of(headers.get(b"content-type")).type in (cloud_event.SINGLE, cloud_event.BATCH):
        fault = Fault("The content type says that the body is in the CloudEvents schema.")
        raise event_grid.refused(NAMES[topic.input_schema], fault)
    if topic.input_schema is InputSchema.EVENT_GRID:
        events = event_grid.accept(body, topic.event_topic, domain)
        _check_types(topic, events)
        return events
    return custom_event.accept(body, topic.resource_id, topic.mapping, now, new_id, domain)


def _check_types(topic: Topic, events: list[StampedEvent]) -> None:
    """A system topic takes only events of its type."""
    kind = None if topic.source is None else topic_type(topic.source.topic_type)
    if kind is None:
        return
    names = {event.name for event in kind.events}
    for n, event in enumerate(events):
        if event.type not in names:
            fault = Fault(f"Event {n}: 'eventType' must be an event type of {kind.name}.")
            raise event_grid.refused(NAMES[InputSchema.EVENT_GRID], fault)
