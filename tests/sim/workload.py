"""The simulated people: they publish, redrive, replay, limit, and create, change and delete resources."""

import random
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from itertools import count, cycle
from typing import Any, TypeVar

from recapito.domain.events.event_grid import accept
from recapito.domain.events.schema import DeliverySchema
from recapito.domain.filters.filter import TAKE_ALL, Condition, Filter, Operator
from recapito.domain.profiles.profile import load
from recapito.domain.resources.destination import WebHook
from recapito.domain.resources.subscription import (
    Batching,
    DeadLetterDirectory,
    DeliveryAttribute,
    DynamicAttribute,
    RetryPolicy,
    StaticAttribute,
)
from recapito.domain.resources.topic import Topic
from recapito.errors import Busy, Conflict, InvalidInput, NotFound, StoreFailed
from recapito.intake.dead_letters.redrive import Redriver
from recapito.intake.dead_letters.search import DeadLetterQuery, parse_name
from recapito.intake.publish.publisher import Publisher
from recapito.intake.publish.replayer import Replayer, ReplayStart
from recapito.intake.resources.drafts import SubscriptionDraft, TopicDraft
from recapito.intake.resources.subscription_options import SubscriptionOptions
from recapito.intake.resources.subscriptions import Subscriptions
from recapito.intake.resources.topics import Topics
from tests.sim import replays
from tests.sim.machine import ConnectionLost, Machine
from tests.sim.oracle import Oracle
from tests.sim.publication import SUBJECTS, TYPES, body, draw_event
from tests.sim.replays import ReplayAsked

T = TypeVar("T")
NO_ANSWER = (ConnectionLost, StoreFailed, Busy, NotFound, Conflict)


CONDITIONS = (
    Condition(Operator.NUMBER_GREATER_THAN, "data.n", (1,)),
    Condition(Operator.NUMBER_IN, "data.a", (2, 3)),
    Condition(Operator.NUMBER_GREATER_THAN, "data", (1e308,)),
    Condition(Operator.NUMBER_NOT_IN, "data", (0,)),
    Condition(Operator.STRING_CONTAINS, "Subject", ("ORDERS", "a")),
    Condition(Operator.STRING_NOT_IN, "data.deadLetterReason", ("Mine",)),
    Condition(Operator.STRING_BEGINS_WITH, "data", ("x", "t")),
    Condition(Operator.IS_NOT_NULL, "data"),
    Condition(Operator.IS_NULL_OR_UNDEFINED, "data.a"),
)

ATTRIBUTES: tuple[tuple[DeliveryAttribute, ...], ...] = (
    (DynamicAttribute("X-Type", "EventType"), StaticAttribute("X-Env", "sim")),
    (),
    (DynamicAttribute("X-Version", "dataVersion"),),
    (),
    (DynamicAttribute("X-Version", "DataVersion"), DynamicAttribute("X-Subject", "subject")),
    (DynamicAttribute("X-Id", "Id"),),
    (StaticAttribute("X-Env", "sim"),),
)


def draw_filter(rng: random.Random) -> Filter:
    """Everything, some types, some subjects, some contents, or next to nothing."""
    kind = rng.random()
    if kind < 0.3:
        return TAKE_ALL
    if kind < 0.45:
        conditions = tuple(rng.sample(CONDITIONS, rng.randrange(1, 3)))
        return Filter(conditions=conditions, arrays=rng.random() < 0.5)
    if kind < 0.6:
        return Filter(event_types=tuple(rng.sample(TYPES, rng.randrange(1, 3))))
    if kind < 0.8:
        return Filter(subject_begins_with=rng.choice(("orders/", "Orders", "stock")))
    if kind < 0.9:
        return Filter(event_types=("Stock.Low",), subject_ends_with=".JSON", subject_case_sensitive=rng.random() < 0.5)
    return Filter(subject_begins_with=rng.choice(SUBJECTS), subject_case_sensitive=True)


def draw_sleepy_filter(rng: random.Random) -> Filter:
    """One type, which comes now and then or never, and sometimes more."""
    conditions = (rng.choice(CONDITIONS),) if rng.random() < 0.3 else ()
    return Filter(event_types=(rng.choice(("stock.low", "Order.Paid", "Never.Seen")),), conditions=conditions)


def draw_batching(rng: random.Random) -> Batching:
    """Off, by number, by size, or both."""
    kind = rng.random()
    if kind < 0.3:
        return Batching()
    most = rng.choice((2, 3, 10, 100, 5000)) if kind < 0.8 else None
    size = rng.choice((1, 2, 64)) if kind > 0.5 else None
    return Batching(most, size)


def draw_policy(rng: random.Random) -> RetryPolicy:
    """Mostly Event Grid's default."""
    if rng.random() < 0.5:
        return RetryPolicy()
    return RetryPolicy(rng.choice((1, 2, 3, 5, 10, 30)), rng.choice((1, 5, 60, 300, 1440)))


def _plain(content: bytes, name: str) -> bytes:
    return content


class Workload:
    """The people. Whatever the server answers, or does not, they go on."""

    def __init__(self, machine: Machine, oracle: Oracle, rng: random.Random) -> None:
        self._machine = machine
        self._oracle = oracle
        self._rng = rng
        self._events = count()
        self._publishes = count(1)
        self._urls = count(1)
        self._attributes = cycle(ATTRIBUTES)
        self._schemas = cycle((DeliverySchema.EVENT_GRID, DeliverySchema.EVENT_GRID, DeliverySchema.CLOUD_EVENT))

    async def put_topic(self, name: str, profile: str | None) -> Topic | None:
        """Create or change a topic."""
        tags = {"recapito-profile": profile} if profile else {}
        draft = TopicDraft.of(name=name, azure_subscription="00000000", resource_group="sim", tags=tags)
        return await self._ask(lambda: self._topics.put(draft))

    async def delete_topic(self, name: str) -> None:
        """Delete a topic with all that hangs on it."""
        topic = self._topic(name)
        if topic is not None:
            await self._ask(lambda: self._topics.delete(topic))

    def draft(self, name: str, host: str, profile: str) -> SubscriptionDraft:
        """A subscription at random, to that host."""
        rng, rules = self._rng, load(profile)
        return self.fixed_draft(
            name,
            host,
            batching=draw_batching(rng) if rules.batching else Batching(),
            retry_policy=draw_policy(rng),
            dead_letter=DeadLetterDirectory(name=f"box-{rng.randrange(3)}") if rng.random() < 0.6 else None,
            filter=draw_filter(rng),
            delivery_schema=next(self._schemas),
            attributes=next(self._attributes) if rules.custom_headers else (),
        )

    def fixed_draft(self, name: str, host: str, **settings: Any) -> SubscriptionDraft:
        """A subscription with these settings, to that host, by a URL that was never used before."""
        destination = WebHook(url=f"http://{host}/{next(self._urls)}?code=secret")
        return SubscriptionDraft.of(name=name, destination=destination, **settings)

    async def put_subscription(self, topic_name: str, draft: SubscriptionDraft) -> int | None:
        """Create or change a subscription; its id, if the server answered."""
        topic = self._topic(topic_name)
        if topic is None:
            return None
        stored = await self._ask(lambda: self._subscriptions.put(topic, draft))
        if stored is None:
            return None
        self._oracle.lanes[stored.id].acknowledged[stored.version] = self._oracle.clock.now()
        return stored.id

    async def retry_now(self, id: int) -> None:
        """Ask to try everything that is parked of a subscription."""
        await self._ask(lambda: self._options.retry_now(id))

    async def limit(self, id: int, requests: int | None, rate: int | None) -> None:
        """Limit the requests in flight and the events per second of a subscription; None is no limit."""
        stored = await self._ask(lambda: self._options.limit(id, requests, rate))
        if stored is not None:
            self._oracle.lanes[id].acknowledged[stored.version] = self._oracle.clock.now()

    async def delete_subscription(self, topic_name: str, name: str) -> None:
        """Delete a subscription."""
        topic = self._topic(topic_name)
        if topic is not None:
            await self._ask(lambda: self._subscriptions.delete(topic, name))

    async def publish(self, topic_name: str, number: int, subjects: Sequence[str] = (), **fixed: str) -> None:
        """Publish `number` events in one request; some of their fields may be fixed, and subjects may take turns."""
        topic = self._topic(topic_name)
        if topic is None:
            return
        publish, now, now_s = next(self._publishes), self._oracle.clock.now(), self._oracle.time_s()
        events = []
        for n in range(number):
            fields = fixed | ({"subject": subjects[n % len(subjects)]} if subjects else {})
            events.append(draw_event(self._rng, f"e{next(self._events)}", publish, topic.id, now, now_s, **fields))
        content = body(events)
        self._oracle.publishing(events)
        try:
            await self._machine.request(
                lambda: self._publisher.publish(topic, accept(content, topic.resource_id), len(content))
            )
        except Busy:
            self._oracle.refused(events)
        except NO_ANSWER:
            return
        else:
            self._oracle.acknowledged(events)

    async def redrive(self, limit: int = 1000) -> int:
        """Redrive all dead letters, page by page; the number that the server reported before it failed."""
        done, after = 0, None
        while True:
            try:
                progress = await self._machine.request(partial(self._redriver.redrive, DeadLetterQuery(), after, limit))
            except NO_ANSWER:
                return done
            done += progress.done
            if progress.next is None:
                return done
            after = parse_name(progress.next)

    async def replay(self, id: int, start: int, until: int) -> int:
        """Replay a range of the log, page by page; the number of events that the server reported before it failed."""
        lane, done, at = self._oracle.lanes[id], 0, ReplayStart(position=start)
        while True:
            lane.replay = ReplayAsked(start, until, len(lane.versions))
            try:
                result = await self._machine.request(partial(self._replayer.replay, id, at, until))
            except (*NO_ANSWER, InvalidInput):
                return done
            replays.check_answer(self._oracle, lane, result)
            done += result.done
            if result.next is None:
                return done
            at = ReplayStart(position=result.next)

    async def _ask(self, change: Callable[[], Awaitable[T]]) -> T | None:
        """The server's answer; None if it refused, or failed or died under the request."""
        try:
            return await self._machine.request(change)
        except NO_ANSWER:
            return None

    def _topic(self, name: str) -> Topic | None:
        found = [topic for topic in self._oracle.topics.values() if topic.name == name]
        return found[-1] if found else None

    @property
    def _topics(self) -> Topics:
        assert self._machine.topics is not None
        return self._machine.topics

    @property
    def _subscriptions(self) -> Subscriptions:
        assert self._machine.subscriptions is not None
        return self._machine.subscriptions

    @property
    def _redriver(self) -> Redriver:
        assert self._machine.redriver is not None
        return self._machine.redriver

    @property
    def _replayer(self) -> Replayer:
        assert self._machine.replayer is not None
        return self._machine.replayer

    @property
    def _options(self) -> SubscriptionOptions:
        return SubscriptionOptions(self._subscriptions, self._oracle.clock, _plain, _plain)

    @property
    def _publisher(self) -> Publisher:
        assert self._machine.publisher is not None
        return self._machine.publisher
