"""Failures in the format of Azure's diagnostic logs (spec §9): one record for each event that could not be delivered.

A record has the fields of Azure's, as far as they exist here; never the query of a URL, which may be a secret.
"""

from typing import Any

import msgspec

from recapito.domain.delivery.delivery import Delivery
from recapito.domain.delivery.hold import Hold
from recapito.domain.delivery.outcome import Outcome
from recapito.domain.instant import MILLISECOND, stamp, utc
from recapito.domain.resources.destination import WebHook
from recapito.domain.resources.subscription import Subscription

DiagnosticRecord = dict[str, str]


class _EventId(msgspec.Struct):
    id: Any = ""


_decode = msgspec.json.Decoder(_EventId).decode


def delivery_failure(
    resource_id: str,
    subscription: Subscription,
    delivery: Delivery,
    system_id: str,
    outcome: Outcome,
    sent_at: int,
    now: int,
    hold: Hold,
) -> DiagnosticRecord:
    """A delivery that failed; `delivery` is as it was before this attempt, `hold` as it is after it."""
    destination = subscription.destination
    url = destination.base_url if isinstance(destination, WebHook) else destination.resource_id
    facts = {
        "outcome": outcome.failure,
        "latencyInMs": (now - sent_at) // MILLISECOND,
        "id": _one_line(_event_id(delivery.body)),
        "systemId": system_id,
        "state": "FilteredFailingDelivery",
        "deliveryTime": _written(sent_at),
        "deliveryCount": delivery.attempts,
        "probationCount": int(hold.on),
        "deliverySchema": subscription.delivery_schema,
        "publishTime": _written(delivery.published_at),
        "size": len(delivery.body),
        "url": url,
        "deliveryResponse": f"{'' if outcome.status is None else outcome.status}: {_one_line(outcome.detail)}",
    }
    return {
        "time": stamp(now),
        "resourceId": resource_id.upper(),
        "eventSubscriptionName": subscription.name.upper(),
        "category": "DeliveryFailures",
        "operationName": "Deliver",
        "message": _message(facts),
    }


def publish_failure(resource_id: str, outcome: str, report: str, url: str, response: str, now: int) -> DiagnosticRecord:
    """A publish that was refused or could not be stored; `report` is the failure id that its sender got."""
    facts = {"outcome": outcome, "id": report, "url": url, "publishResponse": _one_line(response)}
    return {
        "time": stamp(now),
        "resourceId": resource_id.upper(),
        "category": "PublishFailures",
        "operationName": "Publish",
        "message": _message(facts),
    }


def _message(facts: dict[str, Any]) -> str:
    return "Message:" + ", ".join(f"{name}={value}" for name, value in facts.items())


def _written(instant: int) -> str:
    """An instant in the format of Azure's messages: `11/1/2019 12:17:10 AM`."""
    at = utc(instant)
    return f"{at.month}/{at.day}/{at.year} {at.hour % 12 or 12}:{at:%M:%S %p}"


def _event_id(event: bytes) -> str:
    try:
        return str(_decode(event).id)
    except msgspec.MsgspecError:
        return ""


def _one_line(text: str) -> str:
    return " ".join(text.split())
