"""The names of the schemas in which topics take events and subscriptions get them (spec §2).

The two lists have different names for the custom schema, as Event Grid's have. `schema_table` has
the facts of each. Commands load this vocabulary for their help, so it needs no library.
"""

from enum import Enum, StrEnum, auto
from typing import Any, NamedTuple


class InputSchema(StrEnum):
    """The schema that publishers send to a topic; it cannot change once the topic exists."""

    EVENT_GRID = "EventGridSchema"
    CUSTOM = "CustomEventSchema"
    CLOUD_EVENT = "CloudEventSchemaV1_0"


class DeliverySchema(StrEnum):
    EVENT_GRID = "EventGridSchema"
    CUSTOM = "CustomInputSchema"
    CLOUD_EVENT = "CloudEventSchemaV1_0"


class BodyForm(StrEnum):
    """The three forms of a request, by content type: an array of events, a CloudEvent, an array of CloudEvents."""

    EVENTS = "application/json; charset=utf-8"
    CLOUD_EVENT = "application/cloudevents+json; charset=utf-8"
    CLOUD_EVENTS = "application/cloudevents-batch+json; charset=utf-8"

    @property
    def is_array(self) -> bool:
        return self is not BodyForm.CLOUD_EVENT

    @property
    def has_cloud_events(self) -> bool:
        return self is not BodyForm.EVENTS

    @property
    def metadata_version(self) -> str:
        """The value of the header of that name."""
        return "1.0" if self.has_cloud_events else "1"


def listed(schemas: type[InputSchema] | type[DeliverySchema]) -> str:
    """The names of all schemas as az spells them, for help texts."""
    *names, last = (schema.lower() for schema in schemas)
    return f"{', '.join(names)} or {last}"


class LetterForm(Enum):
    """The form of a dead letter: the event with more properties, the same as extensions, or the stored envelope."""

    PROPERTIES = auto()
    EXTENSIONS = auto()
    ENVELOPE = auto()


class EventParts(NamedTuple):
    """The parts of an event that is made here: from flags, in a form of the portal or in a test.

    In a domain `domain_topic` names the topic. `source` is for CloudEvents, `data_version` for Event Grid's envelope.
    """

    id: str
    type: str
    subject: str
    time: str
    data: Any
    source: str
    data_version: str
    domain_topic: str | None = None
