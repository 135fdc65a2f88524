"""The schemas in which topics take events and subscriptions get them (spec §2).

The two lists have different names for the custom schema, as Event Grid's have.
"""

from enum import StrEnum

import msgspec


class InputSchema(StrEnum):
    """The schema that publishers send to a topic; it cannot change once the topic exists."""

    EVENT_GRID = "EventGridSchema"
    CUSTOM = "CustomEventSchema"
    CLOUD_EVENT = "CloudEventSchemaV1_0"


class DeliverySchema(StrEnum):
    EVENT_GRID = "EventGridSchema"
    CUSTOM = "CustomInputSchema"
    CLOUD_EVENT = "CloudEventSchemaV1_0"


# The conversion matrix of spec §2.4; the first is the default of a subscription that does not choose.
DELIVERABLE = {
    InputSchema.EVENT_GRID: (DeliverySchema.EVENT_GRID, DeliverySchema.CLOUD_EVENT),
    InputSchema.CUSTOM: (DeliverySchema.EVENT_GRID, DeliverySchema.CLOUD_EVENT, DeliverySchema.CUSTOM),
    InputSchema.CLOUD_EVENT: (DeliverySchema.CLOUD_EVENT,),
}


class MappedField(msgspec.Struct, frozen=True, omit_defaults=True):
    """The source of a field of the envelope of a custom event: a path into it, else the default, else nothing."""

    source: str | None = None
    default: str | None = None


class InputMapping(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The mapping from a custom event to its envelope. Only type, subject and data version may have defaults."""

    id: MappedField = MappedField()
    topic: MappedField = MappedField()
    event_time: MappedField = MappedField()
    event_type: MappedField = MappedField()
    subject: MappedField = MappedField()
    data_version: MappedField = MappedField()
