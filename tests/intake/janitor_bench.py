"""A janitor on memory stores."""

from typing import Any

from recapito.contracts.ledger import Settlement
from recapito.contracts.log import NewSegment
from recapito.domain.delivery.cursor import Cursor
from recapito.domain.delivery.hold import CLEAR
from recapito.domain.events.segment import Publish, pack
from recapito.domain.filters.filter import TAKE_ALL
from recapito.domain.resources.destination import WebHook
from recapito.domain.resources.subscription import FilterSince, Subscription
from recapito.domain.resources.topic import Topic
from recapito.intake.maintenance.janitor import Janitor
from recapito.stores.memory import MemoryDisk, MemoryLedger, MemoryLog
from tests.intake.doubles import StillClock, events, topic_named


class Bench:
    """A janitor on a store in memory, with one topic."""

    def __init__(self, log: MemoryLog | None = None, **options: Any) -> None:
        self.log = log or MemoryLog()
        self.ledger = MemoryLedger(MemoryDisk())
        self.janitor = Janitor(self.log, self.log, self.ledger, StillClock(), **options)

    async def topic(self, name: str = "orders") -> Topic:
        return await self.log.put_topic(topic_named(name))

    async def publish(self, topic: Topic, segments: int) -> int:
        """Append N segments of one event, each in a commit of its own; the last position."""
        columns, body = pack([Publish(1, events(b"{}"))])
        for _ in range(segments):
            (position,) = await self.log.append([NewSegment(topic.id, 1, columns, body)])
        return position

    async def subscribe(self, topic: Topic, name: str = "mine", lane: bool = True) -> Subscription:
        made = await self.log.put_subscription(
            Subscription(
                topic=topic.id,
                name=name,
                destination=WebHook(url="http://127.0.0.1/"),
                filters=(FilterSince(0, TAKE_ALL),),
                created_at=1,
                modified_at=1,
            )
        )
        if lane:
            await self.ledger.open_lane(made.id, topic.id, self.log.id, made.created_position)
        return made

    async def move(self, subscription: Subscription, position: int, ended: bool = False) -> None:
        lane = await self.ledger.lane(subscription.id)
        assert lane is not None
        await self.ledger.settle([Settlement(lane.id, lane.version, Cursor((position, 0)), CLEAR, ended=ended)])

    async def first(self, topic: Topic) -> int:
        """The first position that can still be read; one past the end if there is none."""
        end = await self.log.end(topic.id)
        for position in range(1, end + 1):
            try:
                await self.log.read(topic.id, position, 1)
            except LookupError:
                continue
            return position
        return end + 1
