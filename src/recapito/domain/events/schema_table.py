"""The table of event schemas: everything that a schema *is*, in one row (spec §2).

The API, intake, dispatch, the command line, the portal and the pytest plugin read these rows; none of them tests for a
member of the two enums. `INPUT_SCHEMAS` has the schemas of topics, `DELIVERY_SCHEMAS` those of subscriptions.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from recapito.domain.events import cloud_event, custom_event, event_grid
from recapito.domain.events.conversion import Convert, refuse, to_cloud_event, to_custom_event
from recapito.domain.events.json_text import Fault
from recapito.domain.events.schema import BodyForm, DeliverySchema, EventParts, InputSchema, LetterForm
from recapito.domain.events.segment import StampedEvent
from recapito.domain.resources.topic import Topic, TopicKind
from recapito.domain.resources.topic_type import topic_type

Headers = Mapping[bytes, bytes]
Accept = Callable[[Topic, Headers, bytes, int, Callable[[], str]], list[StampedEvent]]

JSON = "application/json"


class InputSchemaRow(NamedTuple):
    """One schema of topics.

    - `title`: its name in the portal; `name`: in sentences; `event_name`: the name of its events in errors.
    - `accept`: the parser of a publish request.
    - `conversions`: the delivery schemas of its events, the default first; None sends events as they are stored.
    - `array_type`: the content type of an array of events; `lone_type`: of an event without an array, if any.
    - `compose`: makes an event from its parts; None where only the publisher knows the members.
    - `mapped`: the topic has a mapping, and the publisher's event is the `data` of the stored one.
    - `in_headers`: whether a request has its event in headers, so that its content type is that of the data.
    """

    title: str
    name: str
    event_name: str
    accept: Accept
    conversions: Mapping[DeliverySchema, Convert | None]
    array_type: str = JSON
    lone_type: str | None = None
    compose: Callable[[EventParts], dict[str, Any]] | None = None
    mapped: bool = False
    in_headers: Callable[[Headers, cloud_event.Media], bool] | None = None

    @property
    def stores_cloud_events(self) -> bool:
        """True when events are stored as CloudEvents, False when they are stored in the envelope of Event Grid."""
        return self.conversions.get(DeliverySchema.CLOUD_EVENT, refuse) is None

    def request(self, event: bytes) -> tuple[str, bytes]:
        """The content type and the body of a request that publishes one event."""
        return (self.array_type, b"[" + event + b"]") if self.lone_type is None else (self.lone_type, event)


class DeliverySchemaRow(NamedTuple):
    """One schema of subscriptions.

    - `title`: its name in the portal.
    - `array`: the form of a request; `alone`: the form where batching is off, if a single event goes without an array.
    - `asks_by_options`: whether its handshake is an OPTIONS request, not a validation event.
    - `letter`: the form of its dead letters.
    """

    title: str
    array: BodyForm = BodyForm.EVENTS
    alone: BodyForm | None = None
    asks_by_options: bool = False
    letter: LetterForm = LetterForm.PROPERTIES

    def form(self, batching: bool) -> BodyForm:
        """The form of a subscription's requests: only CloudEvents go without an array, where batching is off (A9)."""
        return self.array if batching or self.alone is None else self.alone


def _accept_event_grid(
    topic: Topic, headers: Headers, body: bytes, now: int, new_id: Callable[[], str]
) -> list[StampedEvent]:
    events = event_grid.accept(body, topic.event_topic, topic.kind is TopicKind.DOMAIN)
    _check_types(topic, events)
    return events


def _check_types(topic: Topic, events: list[StampedEvent]) -> None:
    """A system topic takes only events of its type."""
    kind = None if topic.source is None else topic_type(topic.source.topic_type)
    if kind is None:
        return
    names = {event.name for event in kind.events}
    for n, event in enumerate(events):
        if event.type not in names:
            fault = Fault(f"Event {n}: 'eventType' must be an event type of {kind.name}.")
            raise event_grid.refused(INPUT_SCHEMAS[InputSchema.EVENT_GRID].event_name, fault)


def _accept_cloud_event(
    topic: Topic, headers: Headers, body: bytes, now: int, new_id: Callable[[], str]
) -> list[StampedEvent]:
    return cloud_event.accept(body, headers, topic.kind is TopicKind.DOMAIN)


def _accept_custom(
    topic: Topic, headers: Headers, body: bytes, now: int, new_id: Callable[[], str]
) -> list[StampedEvent]:
    return custom_event.accept(body, topic.resource_id, topic.mapping, now, new_id, topic.kind is TopicKind.DOMAIN)


INPUT_SCHEMAS: Mapping[InputSchema, InputSchemaRow] = {
    InputSchema.EVENT_GRID: InputSchemaRow(
        "Event Grid schema",
        "Event Grid",
        event_grid.EVENT_NAME,
        _accept_event_grid,
        {DeliverySchema.EVENT_GRID: None, DeliverySchema.CLOUD_EVENT: to_cloud_event},
        compose=event_grid.compose,
    ),
    InputSchema.CLOUD_EVENT: InputSchemaRow(
        "CloudEvents v1.0",
        "CloudEvents",
        cloud_event.EVENT_NAME,
        _accept_cloud_event,
        {DeliverySchema.CLOUD_EVENT: None},
        array_type=cloud_event.BATCH.decode(),
        lone_type=cloud_event.SINGLE.decode(),
        compose=cloud_event.compose,
        in_headers=cloud_event.in_binary_mode,
    ),
    InputSchema.CUSTOM: InputSchemaRow(
        "Custom input schema",
        "custom",
        custom_event.EVENT_NAME,
        _accept_custom,
        {
            DeliverySchema.EVENT_GRID: None,
            DeliverySchema.CLOUD_EVENT: to_cloud_event,
            DeliverySchema.CUSTOM: to_custom_event,
        },
        mapped=True,
    ),
}

DELIVERY_SCHEMAS: Mapping[DeliverySchema, DeliverySchemaRow] = {
    DeliverySchema.EVENT_GRID: DeliverySchemaRow("Event Grid schema"),
    DeliverySchema.CLOUD_EVENT: DeliverySchemaRow(
        "CloudEvents v1.0",
        array=BodyForm.CLOUD_EVENTS,
        alone=BodyForm.CLOUD_EVENT,
        asks_by_options=True,
        letter=LetterForm.EXTENSIONS,
    ),
    DeliverySchema.CUSTOM: DeliverySchemaRow("Custom input schema", letter=LetterForm.ENVELOPE),
}

# The schemas that a content type of their own announces.
_ANNOUNCED = {
    media.encode(): schema
    for schema, row in INPUT_SCHEMAS.items()
    for media in (row.array_type, row.lone_type)
    if media not in (JSON, None)
}


def accept(topic: Topic, headers: Headers, body: bytes, now: int, new_id: Callable[[], str]) -> list[StampedEvent]:
    """The events of one request that is published at `now`, as they are stored; InvalidInput or TooLarge otherwise.

    The topic's input schema alone decides how the body is read. The names of the headers are in lower case; `new_id`
    makes ids for custom events that have none.
    """
    row = INPUT_SCHEMAS[topic.input_schema]
    announced = _ANNOUNCED.get(cloud_event.media_of(headers.get(b"content-type")).type, topic.input_schema)
    if announced is not topic.input_schema:
        fault = Fault(f"The content type says that the body is in the {INPUT_SCHEMAS[announced].name} schema.")
        raise event_grid.refused(row.event_name, fault)
    return row.accept(topic, headers, body, now, new_id)


def conversion(published: InputSchema, delivered: DeliverySchema) -> Convert | None:
    """The conversion from stored to delivered events; None if they are delivered as they are stored."""
    return INPUT_SCHEMAS[published].conversions.get(delivered, refuse)
