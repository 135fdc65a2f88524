"""Dispatch on memory stores, with a sender that the test scripts."""

import random
from typing import Any

from recapito.clock import Clock
from recapito.contracts.history import HistoryBounds
from recapito.contracts.log import NewSegment
from recapito.dispatch.capacity import Slots
from recapito.dispatch.context import DispatchContext
from recapito.dispatch.feed.segment_cache import SegmentCache
from recapito.dispatch.lane.in_flight import LateAnswers
from recapito.domain.capacity import Room
from recapito.domain.delivery.batch import Batch
from recapito.domain.delivery.outcome import answered
from recapito.domain.events.input_mapping import InputMapping, MappedField
from recapito.domain.events.schema import DeliverySchema, InputSchema
from recapito.domain.events.schema_table import INPUT_SCHEMAS, accept
from recapito.domain.events.segment import Publish, pack
from recapito.domain.instant import DAY
from recapito.domain.resources.destination import Destination
from recapito.domain.resources.subscription import Subscription
from recapito.domain.resources.topic import Topic
from recapito.senders.memory import MemorySender, ScriptedOutcome
from recapito.stores.memory import MemoryDisk, MemoryHistory, MemoryLedger, MemoryLog
from recapito.vaults.memory import MemoryVault
from tests.dispatch.published import published
from tests.kit.dispatch import make_dispatch
from tests.kit.resources import a_subscription, a_topic
from tests.sim.clock import SimClock
from tests.sim.loop import SimLoop

ODD = '{"big":12345678901234567890, "k":1,"k":2,"e":"\\u00e9\\/"}'


class Bench:
    """A store, a dispatcher, endpoints that answer as told, and a vault."""

    def __init__(
        self, loop: SimLoop, *statuses: int, ledger: MemoryLedger | None = None, clock: Clock | None = None
    ) -> None:
        self.wall = SimClock(loop, random.Random(1))
        self.clock = clock or self.wall
        self.log, self.vault = MemoryLog(), MemoryVault()
        self.history = MemoryHistory(HistoryBounds(DAY, 0), self.clock.now)
        self.got: list[Batch] = []
        self.journal: list[tuple[str, dict[str, object]]] = []
        self.delay_s = 0.1
        self.room = Room(1 << 40, 0)
        self._statuses = statuses
        self.ledger = ledger or MemoryLedger(MemoryDisk())
        context = DispatchContext(
            log_id=self.log.id,
            clock=self.clock,
            sender=MemorySender(self._answer),
            segments=SegmentCache(self.log),
            slots=Slots(),
            late=LateAnswers(),
            random=lambda: 0.0,
            journal=self._note,
            history=self.history,
            room=lambda: self.room,
        )
        self.service = make_dispatch(self.log, self.ledger, self.vault, context, self.wall)
        self.dispatcher, self.writer = self.service.dispatcher, self.service.writer

    def _note(self, event: str, **fields: object) -> None:
        self.journal.append((event, fields))

    def _answer(self, destination: Destination, batch: Batch) -> ScriptedOutcome:
        self.got.append(batch)
        status = self._statuses[min(len(self.got), len(self._statuses)) - 1]
        return ScriptedOutcome(answered(status), self.delay_s)

    async def topic(self, schema: InputSchema) -> Topic:
        return await self.log.put_topic(
            a_topic(input_schema=schema, mapping=InputMapping(event_type=MappedField(default="t")))
        )

    async def subscribe(
        self, topic: Topic, delivered: DeliverySchema, name: str = "sub", **settings: Any
    ) -> Subscription:
        return await self.log.put_subscription(
            a_subscription(topic=topic.id, name=name, delivery_schema=delivered, **settings)
        )

    async def publish(self, topic: Topic, *data: str) -> None:
        await self.accept(topic, published(topic.input_schema, *data))

    async def accept(self, topic: Topic, body: bytes) -> None:
        now = self.clock.now()
        events = accept(topic, {}, body, now, lambda: "id")
        await self.log.append([NewSegment(topic.id, len(events), *pack([Publish(now, events)]))])
        self.dispatcher.notify()


PAIRS = [(schema, delivered) for schema, row in INPUT_SCHEMAS.items() for delivered in row.conversions]
