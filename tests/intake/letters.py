"""Dead letters as files of a vault."""

import json
from typing import Any

from recapito.domain.resources.topic import Topic


def letter(topic: Topic, event: dict[str, Any]) -> bytes:
    """A record; what the event does not say is the same for all."""
    whole = {
        "id": "1",
        "eventTime": "2030-01-02T03:04:05Z",
        "eventType": "Made",
        "dataVersion": "",
        "metadataVersion": "1",
        "topic": topic.resource_id,
        "subject": "orders/1",
        "data": {"n": 1},
        "deadLetterReason": "MaxDeliveryAttemptsExceeded",
        "deliveryAttempts": 30,
        "lastDeliveryOutcome": "NotFound",
        "publishTime": "2030-01-02T03:04:05.0000000Z",
    }
    return json.dumps({**whole, **event}, separators=(",", ":")).encode()
