"""Many lanes on one topic: who is woken when the log grows, and what becomes of those who sleep."""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable

import pytest
from msgspec.structs import replace

from recapito.clock import SECOND, ManualClock
from recapito.contracts.log import NewSegment
from recapito.dispatch.capacity import Slots
from recapito.dispatch.context import DispatchContext
from recapito.dispatch.dispatcher import Dispatcher
from recapito.dispatch.feed.segment_cache import SegmentCache
from recapito.dispatch.feed.topic_feed import TopicFeed
from recapito.dispatch.lane.in_flight import LateAnswers
from recapito.dispatch.lane.lane import Lane, Wants
from recapito.dispatch.status_reporter import StatusReporter
from recapito.domain import limits
from recapito.domain.delivery.batch import Batch
from recapito.domain.delivery.outcome import answered
from recapito.domain.events.segment import Publish, StampedEvent, pack
from recapito.domain.filters.filter import TAKE_ALL, TAKE_NONE, Condition, Filter, Operator
from recapito.domain.resources.destination import Destination, WebHook
from recapito.domain.resources.subscription import FilterSince, Subscription
from recapito.observability.journal import silent
from recapito.observability.status import to_bytes
from recapito.senders.memory import MemorySender, ScriptedOutcome
from recapito.stores.memory import MemoryLedger, MemoryLog
from recapito.vaults.memory import MemoryVault
from tests.kit.dispatch import make_dispatch
from tests.kit.resources import a_subscription, a_topic

A, B = Filter(event_types=("A",)), Filter(event_types=("b",))
SMALL = Filter(conditions=(Condition(Operator.NUMBER_LESS_THAN, "data", (10,)),))
EAST = Filter(subject_begins_with="/EAST")


class SlowLog(MemoryLog):
    """Takes a moment to find a subscription, in which lanes may be stepped."""

    async def subscription_by_id(self, id: int) -> Subscription | None:
        found = await super().subscription_by_id(id)
        for _ in range(3):
            await asyncio.sleep(0)
        return found


class CountingDispatcher(Dispatcher):
    """Counts how often each lane is stepped."""

    steps: Counter[str]

    def _serve(self, lane: Lane, wants: Wants) -> None:
        self.steps[lane.subscription.name] += 1
        super()._serve(lane, wants)


class Rig:
    """A dispatcher on stores in memory, with a clock that stands still and endpoints that answer at once."""

    def __init__(self, cache: int) -> None:
        self.log, self.ledger, self.clock = SlowLog(), MemoryLedger(), ManualClock(SECOND)
        self.delivered: Counter[str] = Counter()
        self.ids: dict[str, int] = {}
        self.segments = SegmentCache(self.log, cache)
        self.context = context = DispatchContext(
            log_id=self.log.id,
            clock=self.clock,
            sender=MemorySender(self._answer),
            segments=self.segments,
            slots=Slots(),
            late=LateAnswers(),
            random=random.Random(0).random,
            journal=silent,
        )
        self.service = make_dispatch(
            self.log, self.ledger, MemoryVault(), context, self.clock, dispatcher=CountingDispatcher
        )
        assert isinstance(self.service.dispatcher, CountingDispatcher)
        self.dispatcher = self.service.dispatcher
        self.dispatcher.steps = Counter()

    def watched(self) -> Iterable[Filter]:
        """The filters that the tail index of the topic watches."""
        assert self.feed is not None and self.feed.tail is not None
        return self.feed.tail.watched

    @property
    def feed(self) -> TopicFeed | None:
        return self.dispatcher._feeds.get(self.topic_id)

    def _answer(self, destination: Destination, batch: Batch) -> ScriptedOutcome:
        self.delivered[batch.subscription] += batch.events
        return ScriptedOutcome(answered(200))

    async def topic(self) -> None:
        """Make the one topic."""
        topic = await self.log.put_topic(a_topic())
        self.topic_id = topic.id

    async def subscribe(self, name: str, filter: Filter) -> None:
        """Create a subscription, or change its filter, and let what follows happen."""
        await self.change(name, filter)
        await self.settle()

    async def change(self, name: str, filter: Filter) -> None:
        """Create a subscription, or change its filter; no lane is woken yet."""
        filters = (FilterSince(0, filter),)
        known = await self.log.subscription(self.topic_id, name)
        new = a_subscription(topic=self.topic_id, name=name, destination=WebHook(url="http://x/"), filters=filters)
        stored = await self.log.put_subscription(new if known is None else replace(known, filters=filters))
        self.ids[name] = stored.id

    async def publish(self, *events: tuple[str, str, int]) -> None:
        """Publish events of these types, subjects and numbers together, and let what follows happen."""
        await self.append(*events)
        await self.settle()

    async def append(self, *events: tuple[str, str, int]) -> None:
        """Publish events; no lane is woken yet."""
        stamped = [StampedEvent(b'{"data":%d}' % number, type, subject, "") for type, subject, number in events]
        columns, body = pack([Publish(self.clock.now(), stamped)])
        await self.log.append([NewSegment(self.topic_id, len(events), columns, body)])

    async def settle(self) -> None:
        """Wait until nothing happens any more at this instant."""
        self.dispatcher.notify()
        for _ in range(10):
            while not self.dispatcher.quiet() or self.dispatcher.under_way:
                await asyncio.sleep(0)
            await asyncio.sleep(0)

    async def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.clock.move_to(self.clock.now() + int(seconds * SECOND))
        await self.settle()

    async def books(self, name: str) -> tuple[int, int, int]:
        """The stored books of a lane: its position, and the counts of matched and unmatched events."""
        row = await self.ledger.lane(self.ids[name])
        assert row is not None and not row.cursor.finished
        return row.cursor.low[0], row.counts.matched, row.counts.unmatched


def rigged(script: Callable[[Rig], Awaitable[None]], cache: int = limits.SEGMENT_CACHE_BYTES) -> None:
    """Play a script with a running dispatcher."""

    async def main() -> None:
        rig = Rig(cache)
        await rig.topic()
        running = asyncio.ensure_future(rig.service.run())
        try:
            await asyncio.sleep(0)
            await script(rig)
            assert not any(lane.stopped for lane in rig.dispatcher.lanes)
        finally:
            running.cancel()

    asyncio.run(main())


def test_news_wake_whom_they_may_concern() -> None:
    """Lanes whose type, subject or content does not come are not stepped; the others get their events at once."""

    async def script(rig: Rig) -> None:
        filters = {"all": TAKE_ALL, "a": A, "b": B, "none": TAKE_NONE, "small": SMALL, "east": EAST}
        for name, filter in filters.items():
            await rig.subscribe(name, filter)
        await rig.publish(("X", "", 99))
        for events, woken in (
            ([("A", "", 99)], {"all", "a"}),
            ([("B", "/east/1", 99)], {"all", "b", "east"}),
            ([("C", "", 5), ("a", "", 50)], {"all", "a", "small"}),
            ([("C", "", 50)], {"all"}),
        ):
            rig.dispatcher.steps.clear()
            rig.delivered.clear()
            await rig.publish(*events)
            assert set(rig.dispatcher.steps) == set(rig.delivered) == woken

    rigged(script)


def test_sleepers_are_saved_in_time() -> None:
    """The entries that a lane slept through are in its stored books five seconds after it began, and not earlier."""

    async def script(rig: Rig) -> None:
        for name, filter in (("a", A), ("b", B), ("small", SMALL)):
            await rig.subscribe(name, filter)
        await rig.advance(10)
        start, _, _ = await rig.books("b")
        for _ in range(4):
            await rig.publish(("A", "", 50), ("A", "", 50))
            await rig.advance(1)
        assert (await rig.books("a"))[1:] == (8, 0)
        assert (await rig.books("b"), await rig.books("small")) == ((start, 0, 0), (start, 0, 0))
        await rig.advance(1)
        assert (await rig.books("b"), await rig.books("small")) == ((start + 4, 0, 8), (start + 4, 0, 8))
        await rig.publish(("B", "", 5))
        assert (await rig.books("b"), await rig.books("small")) == ((start + 5, 1, 8), (start + 5, 1, 8))

    rigged(script)


def test_sleepers_leave_nothing_to_do() -> None:
    """A service whose lanes sleep is idle: nothing is pending that time would bring."""

    async def script(rig: Rig) -> None:
        for n in range(5):
            await rig.subscribe(f"b-{n}", B)
        await rig.publish(("A", "", 1))
        assert not await rig.dispatcher.pending()
        assert all(lane.reader.place[0] <= lane.end for lane in rig.dispatcher.lanes)

    rigged(script)


def test_a_changed_filter_takes_from_its_place_on() -> None:
    """A lane that slept through events under its old filter gets none of them under its new one, and misses none."""

    async def script(rig: Rig) -> None:
        await rig.subscribe("b", B)
        await rig.publish(("A", "", 50))
        await rig.publish(("B", "", 50))
        await rig.publish(("A", "", 50))
        await rig.subscribe("b", SMALL)
        await rig.publish(("B", "", 50))
        await rig.publish(("A", "", 5))
        await rig.subscribe("b", TAKE_ALL)
        await rig.publish(("C", "", 50))
        await rig.advance(6)
        assert (await rig.books("b"))[1:] == (3, 3)

    rigged(script)


def test_a_change_wakes_everybody() -> None:
    """Events before the mark of a change are taken by the filter of then, however news and steps interleave."""

    async def script(rig: Rig) -> None:
        await rig.subscribe("b", B)
        await rig.subscribe("other", A)
        await rig.append(("B", "", 50))
        await rig.change("b", SMALL)
        await rig.change("other", B)
        await rig.publish(("C", "", 50))
        assert rig.delivered == {"b": 1}

    rigged(script)


def test_a_crowd_of_types_wakes_everybody() -> None:
    """A segment with very many types is read by all, and those whose type is among them get it."""

    async def script(rig: Rig) -> None:
        await rig.subscribe("b", B)
        await rig.subscribe("a", A)
        crowd = [(f"T{n}", "", 1) for n in range(2 * limits.TAIL_WAKE_KEYS)]
        await rig.publish(*crowd, ("B", "", 1))
        assert rig.delivered == {"b": 1}
        await rig.advance(6)
        assert ((await rig.books("a"))[1:], (await rig.books("b"))[1:]) == ((0, len(crowd) + 1), (1, len(crowd)))

    rigged(script)


@pytest.mark.parametrize("cache", [1, limits.SEGMENT_CACHE_BYTES])
def test_many_sleep_for_long(cache: int) -> None:
    """Two hundred lanes cost few steps for each of thousands of segments that one of them takes, and count them all."""

    async def script(rig: Rig) -> None:
        await rig.subscribe("a", A)
        for n in range(200):
            await rig.subscribe(f"other-{n}", Filter(event_types=(f"Other.{n}",)))
        await rig.advance(6)
        rig.dispatcher.steps.clear()
        segments = limits.TAIL_ENTRIES + 100
        for _ in range(segments):
            await rig.publish(("A", "", 1))
        assert rig.dispatcher.steps.total() - rig.dispatcher.steps["a"] < segments
        assert rig.feed is not None
        tail = rig.feed.tail
        assert tail is not None
        assert tail.end - tail.first < limits.TAIL_ENTRIES
        await rig.publish(("other.7", "", 1))
        await rig.advance(6)
        assert (await rig.books("a"))[1:] == (segments, 1)
        assert (await rig.books("other-7"))[1:] == (1, segments)
        assert (await rig.books("other-8"))[1:] == (0, segments + 1)

    rigged(script, cache)


def test_a_topic_without_sleepers_has_no_tail() -> None:
    """Lanes that take everything need none; it comes with the first lane that can sleep and goes with the last."""

    async def script(rig: Rig) -> None:
        await rig.subscribe("all", TAKE_ALL)
        assert rig.feed is None or rig.feed.tail is None
        await rig.subscribe("small", SMALL)
        assert list(rig.watched()) == [SMALL]
        await rig.subscribe("small", A)
        assert not list(rig.watched())
        await rig.log.delete_subscription(rig.ids["small"])
        await rig.settle()
        await rig.log.forget(rig.ids["small"])
        await rig.settle()
        assert rig.feed is None or rig.feed.tail is None

    rigged(script)


def test_lanes_share_what_they_look_at() -> None:
    """The keys of all filters are shared, those that are gone no longer, and of very many only some."""

    async def script(rig: Rig) -> None:
        def shared() -> frozenset[str]:
            return rig.feed.shared_keys if rig.feed is not None else frozenset()

        await rig.subscribe("small", SMALL)
        await rig.subscribe("word", on("data.word"))
        assert shared() == {"data", "data.word"}
        await rig.subscribe("word", TAKE_ALL)
        assert shared() == {"data"}
        await rig.subscribe("small", TAKE_ALL)
        assert not shared()
        for n in range(limits.FIELD_READER_KEYS + 10):
            await rig.subscribe(f"many-{n}", on(f"data.k{n}"))
        assert len(shared()) == limits.FIELD_READER_KEYS
        await rig.publish(("A", "", 1))
        await rig.advance(6)
        assert (await rig.books(f"many-{limits.FIELD_READER_KEYS + 5}"))[1:] == (0, 1)

    rigged(script)


def on(key: str) -> Filter:
    """A filter for events with a value under a key."""
    return Filter(conditions=(Condition(Operator.IS_NOT_NULL, key),))


def test_what_no_lane_takes_is_counted_once() -> None:
    """Events that no filter of the topic takes are counted when the log grows, until a lane takes everything."""

    async def script(rig: Rig) -> None:
        for name, filter in (("a", A), ("again", A), ("small", SMALL)):
            await rig.subscribe(name, filter)
        await rig.publish(("A", "", 50), ("B", "", 50), ("C", "", 5))
        await rig.publish(("A", "", 5))
        await rig.publish(("B", "", 50), ("B", "", 50))
        assert rig.dispatcher.unmatched() == {rig.topic_id: 3}
        await rig.subscribe("b", B)
        await rig.publish(("B", "", 50), ("C", "", 50))
        assert rig.dispatcher.unmatched() == {rig.topic_id: 4}
        await rig.subscribe("all", TAKE_ALL)
        await rig.publish(("C", "", 50))
        assert rig.dispatcher.unmatched() == {rig.topic_id: 4}

    rigged(script)


def test_a_report_tells_unmatched_events_once() -> None:
    """A reported event is not reported again, a later one is, and a report that did not get through is repeated."""

    async def script(rig: Rig) -> None:
        reporter = StatusReporter(rig.dispatcher, rig.context)
        await rig.subscribe("a", A)
        await rig.publish(("B", "", 1))
        assert reporter.report().unmatched == {rig.topic_id: 1}
        report = reporter.report()
        await rig.publish(("B", "", 1), ("B", "", 1))
        reporter.sent(report)
        assert reporter.report().unmatched == {rig.topic_id: 2}
        reporter.sent(reporter.report())
        assert reporter.report().unmatched == {}

    rigged(script)


def test_a_report_says_how_dispatch_is() -> None:
    """Lanes, requests, commits, and the lanes that have stopped with their reasons, cut to a length."""

    async def script(rig: Rig) -> None:
        reporter = StatusReporter(rig.dispatcher, rig.context)
        await rig.subscribe("a", A)
        await rig.subscribe("b", B)
        await rig.publish(("A", "", 1))
        rig.dispatcher.lanes[1].stop("x" * 10_000)
        status = reporter.report()
        assert (status.lanes, status.requests, status.open, status.busy) == (2, 1, 0, [])
        assert status.stopped == {rig.ids["b"]: "x" * limits.STATUS_REASON_CHARS}
        assert sum(status.gauge.commit_size.counts) >= 1
        assert len(to_bytes(status)) < limits.STATUS_BYTES
        rig.dispatcher.lanes[1].stopped = None

    rigged(script)
