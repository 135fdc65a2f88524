"""The dead-letter record: the event as it was sent, with why and how it was given up appended at top level.

The event's bytes are never parsed or written anew: the record is spliced into them before the final brace.
"""

from collections.abc import Iterable

import msgspec

from recapito.domain.delivery import Delivery
from recapito.domain.instant import stamp, utc
from recapito.domain.outcome import Result


def record(delivery: Delivery, reason: str, extra_fields: bool = False) -> bytes:
    """The record of one dead delivery in the Event Grid schema, names and order as Event Grid's samples.

    A delivery that was never tried spent its life in a hold, which Event Grid calls the outcome `Probation`.
    `extra_fields` adds the last HTTP status, which the samples do not have but records in the field did.
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
    brace = delivery.body.rindex(b"}")
    return delivery.body[:brace] + b"," + msgspec.json.encode(properties)[1:]


def array(records: Iterable[bytes]) -> bytes:
    """The content of one dead-letter file: a JSON array, even for a single record."""
    return b"[" + b",".join(records) + b"]"


def path(subscription: str, now: int, guid: str) -> str:
    """Where a dead-letter file goes in its container: by subscription and UTC hour, nothing zero-padded."""
    at = utc(now)
    return f"{subscription.upper()}/{at.year}/{at.month}/{at.day}/{at.hour}/{guid}.json"
