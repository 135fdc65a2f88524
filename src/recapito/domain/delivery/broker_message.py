"""The message that a broker gets for an event, with Event Grid's metadata and the subscriber's properties.

Names that a broker understands become its own fields (spec §1.9); all others are application properties.
"""

from typing import NamedTuple

from recapito.domain.delivery import headers
from recapito.domain.delivery.batch import Batch

MESSAGE_ID = "MessageId"
PARTITION_KEY = "PartitionKey"
SESSION_ID = "SessionId"
SERVICE_BUS_FIELDS = {
    name.lower(): name
    for name in (
        MESSAGE_ID,
        PARTITION_KEY,
        SESSION_ID,
        "CorrelationId",
        "Label",
        "ReplyTo",
        "ReplyToSessionId",
        "To",
        "ViaPartitionKey",
    )
}
EVENT_HUB_FIELDS = {PARTITION_KEY.lower(): PARTITION_KEY}


class Message(NamedTuple):
    """One event as a message. `fields` has the broker's own fields, by Event Grid's names for them."""

    body: bytes
    content_type: str
    properties: dict[str, str]
    fields: dict[str, str]

    @property
    def group(self) -> tuple[str | None, ...]:
        """The fields that all messages of one batch share: they go to one partition and one session."""
        return tuple(self.fields.get(name) for name in (PARTITION_KEY, SESSION_ID, "ViaPartitionKey"))

    def __repr__(self) -> str:
        return f"<Message of {len(self.body)} bytes>"


def service_bus_message(batch: Batch) -> Message:
    """The bare event, without an array; its message id is the same at each delivery, for duplicate detection."""
    message = _message(batch, batch.lone_event, SERVICE_BUS_FIELDS)
    if batch.output_id is not None:
        message.fields.setdefault(MESSAGE_ID, batch.output_id)
    return message


def event_hub_message(batch: Batch) -> Message:
    """The event as a webhook would get it: in the Event Grid schema an array of one."""
    return _message(batch, batch.body, EVENT_HUB_FIELDS)


def _message(batch: Batch, body: bytes, fields: dict[str, str]) -> Message:
    message = Message(body, str(batch.form), _metadata(batch), {})
    for header in batch.headers:
        field = fields.get(header.name.lower())
        if field is None:
            message.properties[header.name] = header.value
        else:
            message.fields[field] = header.value
    return message


def _metadata(batch: Batch) -> dict[str, str]:
    """The values of the `aeg-` headers of a webhook request."""
    properties = {
        headers.SUBSCRIPTION_NAME: batch.subscription.upper(),
        headers.DELIVERY_COUNT: str(batch.attempts_before),
        headers.EVENT_TYPE: headers.NOTIFICATION,
        headers.METADATA_VERSION: batch.form.metadata_version,
    }
    if batch.data_version is not None:
        properties[headers.DATA_VERSION] = batch.data_version
    if batch.output_id is not None:
        properties[headers.OUTPUT_EVENT_ID] = batch.output_id
    if batch.traceparent:
        properties["traceparent"] = batch.traceparent
    return properties
