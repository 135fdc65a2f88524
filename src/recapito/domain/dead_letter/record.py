"""The dead-letter record: the event as it was sent, with the reason and the last attempt added at top level.

The event's data is neither parsed nor encoded again: the record is spliced around it (spec §1.8).
"""

from collections.abc import Iterable

import msgspec

from recapito.domain.delivery.delivery import Delivery
from recapito.domain.delivery.outcome import Result
from recapito.domain.events.conversion import DATA, split_data
from recapito.domain.events.schema import DeliverySchema, InputSchema, LetterForm
from recapito.domain.events.schema_table import DELIVERY_SCHEMAS, conversion
from recapito.domain.instant import stamp, utc


def record(
    delivery: Delivery,
    reason: str,
    published: InputSchema = InputSchema.EVENT_GRID,
    delivered: DeliverySchema = DeliverySchema.EVENT_GRID,
    extra_fields: bool = False,
) -> bytes:
    """The record of one dead delivery in its subscription's schema, with the names and order of Event Grid's samples.

    A custom event is in its envelope, with the added properties before its data. `extra_fields` adds properties that
    records in the field had and the samples do not.
    """
    form = DELIVERY_SCHEMAS[delivered].letter
    if form is LetterForm.ENVELOPE:
        envelope, data = split_data(delivery.body)
        return envelope + b"," + _properties(delivery, reason, extra_fields)[1:-1] + DATA + data + b"}"
    convert = conversion(published, delivered)
    event = delivery.body if convert is None else convert(delivery.body)
    if form is LetterForm.EXTENSIONS:
        properties = _attributes(delivery, reason, extra_fields)
    else:
        properties = _properties(delivery, reason, extra_fields)
    return event[: event.rindex(b"}")] + b"," + properties[1:]


def _properties(delivery: Delivery, reason: str, extra_fields: bool) -> bytes:
    """The added properties in the Event Grid schema.

    A delivery that was never tried spent its life in a hold, whose outcome Event Grid calls `Probation`.
    """
    properties: dict[str, str | int] = {
        "deadLetterReason": reason,
        "deliveryAttempts": delivery.attempts,
        "lastDeliveryOutcome": delivery.last_result or Result.PROBATION,
        "publishTime": stamp(delivery.published_at),
    }
    if delivery.last_attempt_at is not None:
        properties["lastDeliveryAttemptTime"] = stamp(delivery.last_attempt_at)
    if extra_fields and delivery.last_status is not None:
        properties["lastHttpStatusCode"] = delivery.last_status
    return msgspec.json.encode(properties)


def _attributes(delivery: Delivery, reason: str, extra_fields: bool) -> bytes:
    """The added properties in the CloudEvents schema: extensions, whose names are in lower case."""
    attributes: dict[str, str | int] = {
        "deadletterreason": reason,
        "deliveryattempts": delivery.attempts,
        "lastdeliveryoutcome": delivery.last_result or Result.PROBATION,
        "publishtime": stamp(delivery.published_at),
    }
    if extra_fields and delivery.last_attempt_at is not None:
        attributes["lastdeliveryattempttime"] = stamp(delivery.last_attempt_at)
    if extra_fields and delivery.last_status is not None:
        attributes["lasthttpstatuscode"] = delivery.last_status
    return msgspec.json.encode(attributes)


def array(records: Iterable[bytes]) -> bytes:
    """The content of one dead-letter file: a JSON array, even for a single record."""
    return b"[" + b",".join(records) + b"]"


def path(subscription: str, now: int, guid: str) -> str:
    """The path of a dead-letter file in its container: by subscription and UTC hour, nothing zero-padded."""
    at = utc(now)
    return f"{subscription.upper()}/{at.year}/{at.month}/{at.day}/{at.hour}/{guid}.json"
