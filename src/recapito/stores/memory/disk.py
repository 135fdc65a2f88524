"""The content of the stores in memory: it outlives them as a disk outlives a process.

Each verb changes it in one step, without an await, so the next store on it finds exactly the committed content.
"""

import secrets
from dataclasses import dataclass, field

from recapito.contracts.damage import Damage
from recapito.contracts.ledger import Burial, LaneRow
from recapito.contracts.log import Entry
from recapito.domain.delivery.delivery import DeliveryId, Parked
from recapito.domain.resources.subscription import Subscription
from recapito.domain.resources.topic import Topic

DueKey = tuple[int, DeliveryId]  # an instant and a delivery: the order of due times
TOPIC_ITSELF = 0  # stands for a subscription's id where a change is about the topic


@dataclass
class StoredTopic:
    """A topic with its log. A deleted one stays until its last subscription is forgotten."""

    topic: Topic
    deleted: bool = False
    entries: list[Entry] = field(default_factory=list)
    first: int = 1  # the position of entries[0], or of the next one
    grown_in: int = 0  # the mark of the last commit that appended to it

    @property
    def end(self) -> int:
        """The last position, trimmed or not."""
        return self.first + len(self.entries) - 1


@dataclass
class StoredLane:
    """A lane with its parked deliveries and dead letters. `order` has the parked deliveries by due time."""

    lane: LaneRow
    parked: dict[DeliveryId, Parked] = field(default_factory=dict)
    order: list[DueKey] = field(default_factory=list)
    burials: dict[DeliveryId, Burial] = field(default_factory=dict)
    path_of: dict[DeliveryId, str] = field(default_factory=dict)
    first_tried_at: dict[str, int] = field(default_factory=dict)  # by path
    spoilt: set[DeliveryId] = field(default_factory=set)  # rows that a test damaged, parked or buried
    set_aside: set[DeliveryId] = field(default_factory=set)
    rotten: bool = False  # a test damaged the row itself


@dataclass
class MemoryDisk:
    """The whole content of a store. `free` is the room that a simulation leaves on it."""

    log_id: str = field(default_factory=lambda: secrets.token_hex(16))
    free: int = 1 << 40
    mark: int = 0
    topic_ids: int = 0
    subscription_ids: int = 0
    topics: dict[int, StoredTopic] = field(default_factory=dict)
    topic_keys: dict[str, int] = field(default_factory=dict)  # of the living
    subscriptions: dict[int, Subscription] = field(default_factory=dict)
    subscription_keys: dict[tuple[int, str], int] = field(default_factory=dict)
    documents: dict[tuple[str, str], bytes] = field(default_factory=dict)  # by kind and key
    changes: list[tuple[int, int, int]] = field(default_factory=list)  # mark, topic, subscription
    lanes: dict[int, StoredLane] = field(default_factory=dict)
    notices: dict[int, bytes] = field(default_factory=dict)  # by number
    rotten_notices: set[int] = field(default_factory=set)  # those that a test damaged
    damaged: list[Damage] = field(default_factory=list)
    rotten: dict[tuple[str, object], Damage] = field(default_factory=dict)  # records that a test damaged
