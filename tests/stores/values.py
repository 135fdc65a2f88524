"""Values for the tests of the stores: topics, subscriptions, segments, deliveries, and settlements of them."""

from typing import Any

from recapito.contracts.ledger import Burial, LaneRow, Settlement
from recapito.contracts.log import NewSegment
from recapito.domain.delivery.cursor import Cursor
from recapito.domain.delivery.delivery import Delivery, DeliveryId, Parked
from recapito.domain.delivery.hold import CLEAR
from recapito.domain.delivery.outcome import Result
from recapito.domain.filters.filter import TAKE_ALL, Filter
from recapito.domain.resources.destination import WebHook
from recapito.domain.resources.subscription import FilterSince, Subscription
from recapito.domain.resources.topic import Topic


def new_topic(name: str = "orders", **fields: Any) -> Topic:
    return Topic(
        name=name,
        azure_subscription="s",
        resource_group="g",
        location="local",
        key1="one",
        key2="two",
        created_at=1,
        modified_at=1,
        **fields,
    )


def new_subscription(topic: int, name: str = "shop", filter: Filter = TAKE_ALL, **fields: Any) -> Subscription:
    return Subscription(
        topic=topic,
        name=name,
        destination=WebHook(url="http://127.0.0.1/hook"),
        filters=(FilterSince(0, filter),),
        created_at=1,
        modified_at=1,
        **fields,
    )


def segment(topic: int, body: bytes = b"body", columns: bytes = b"columns", events: int = 1) -> NewSegment:
    return NewSegment(topic, events, columns, body)


def parked(position: int, offset: int = 0, due_at: int = 10, body: bytes = b"event", **history: Any) -> Parked:
    return Parked(due_at, Delivery(DeliveryId(position, offset), 5, body, **history))


TRIED = {
    "attempts": 2,
    "skipped": 1,
    "last_attempt_at": 1_700_000_000_000_000_001,
    "last_result": Result.BUSY,
    "last_status": 503,
}


def burial(position: int, offset: int = 0, write_at: int = 10, container: str = "dead", size: int = 6) -> Burial:
    return Burial(DeliveryId(position, offset), write_at, container, b"r" * size)


def settlement(lane: LaneRow, **parts: Any) -> Settlement:
    """A settlement of a lane as it is now; the cursor and the hold stay unless they are given."""
    return Settlement(lane.id, lane.version, **{"cursor": lane.cursor, "hold": lane.hold, **parts})


AT_START = Cursor((1, 0))
__all__ = ["AT_START", "CLEAR", "TRIED", "burial", "new_subscription", "new_topic", "parked", "segment", "settlement"]
