"""The dispatcher: steps the lanes that have something to do, commits what they staged, and reads what they want.

One loop each for news from the log, for steps, for commits, for fetches and for dead letters. A lane that fails is
stopped, never the others. Nothing here decides about a delivery: that is the lane's.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial

from recapito.clock import SECOND, Clock
from recapito.contracts.damage import Damage
from recapito.contracts.ledger import DeadLetterGroup, LaneRow, Ledger, Settlement
from recapito.contracts.log import Entry, Log
from recapito.contracts.registry import Registry
from recapito.dispatch.capacity import fitting
from recapito.dispatch.context import DispatchContext
from recapito.dispatch.dead_letter_writer import DeadLetterWriter, Owner, unknown_owner
from recapito.dispatch.feed.topic_lanes import TopicLanes
from recapito.dispatch.lane.books import LAZY_SAVE_NS
from recapito.dispatch.lane.lane import Lane
from recapito.dispatch.ledger_reads import LedgerReads
from recapito.dispatch.signals import Signal, Timers
from recapito.domain.events.schema import InputSchema
from recapito.domain.profiles.profile import Profile, load
from recapito.domain.resources.subscription import Subscription
from recapito.domain.resources.topic import Topic
from recapito.errors import RecordDamaged, StoreFailed, StoreStale

REOPEN_PAUSE_NS = SECOND // 5
LONGEST_PAUSE_NS = 2 * SECOND
DRAIN_LOOK_NS = SECOND // 100
SETTLE_PACE_NS = SECOND // 200  # a lane may have four windows unsettled: 256 requests, if its endpoint answers well


class Dispatcher:
    """Runs the lanes of a store. `notify` says that the log has grown; `quiet` that nothing is left to do just now."""

    lane_type = Lane

    def __init__(
        self,
        log: Log,
        registry: Registry,
        ledger: Ledger,
        context: DispatchContext,
        housekeeping: Clock,
        default_profile: str,
    ) -> None:
        self._log = log
        self._registry = registry
        self._ledger = ledger
        self._context = context
        self._housekeeping = housekeeping
        self._default_profile = default_profile
        self._lanes: dict[int, Lane] = {}
        self.left_out: dict[int, str] = {}  # lanes that can not be opened, and why
        self._topic_lanes: dict[int, TopicLanes] = {}
        self._mark = 0
        self._stored: dict[int, LaneRow] = {}  # the rows found at the start, read in one go
        self._ready: deque[Lane] = deque()
        self._dirty: dict[Lane, None] = {}
        self._ledger_reads = LedgerReads(ledger, context.clock, self._renew)
        self._loading: set[Lane] = set()
        self._settled_at = 0
        self._blocked: dict[Lane, Settlement] = {}
        self._burying: set[asyncio.Task[None]] = set()
        self._timers = Timers(context.clock)
        self._news_signal, self._ready_signal, self._dirty_signal = Signal(), Signal(), Signal()
        self._burial_signal = Signal()
        context.segments.set_aside = self._set_aside
        self._tasks: asyncio.TaskGroup | None = None

    @property
    def lanes(self) -> list[Lane]:
        """All lanes, for those who look on."""
        return list(self._lanes.values())

    @property
    def under_way(self) -> int:
        """Requests that are open and within their 30 seconds."""
        return self._context.slots.taken

    @property
    def attempts(self) -> int:
        """Requests sent since the start."""
        return self._context.slots.total

    def notify(self) -> None:
        """The log has grown, or a resource has changed."""
        self._news_signal.ring()

    def quiet(self) -> bool:
        """True when nothing happens until an answer, a publish or the clock brings something."""
        signals = (
            self._news_signal,
            self._ready_signal,
            self._dirty_signal,
            self._ledger_reads.signal,
            self._burial_signal,
        )
        busy = self._loading or self._burying or self._blocked
        return not busy and self._timers.silent and all(signal.silent for signal in signals)

    async def drain(self, deadline: int) -> None:
        """Start nothing new; return when what is under way is settled, or at an instant of the housekeeping clock."""
        self._context.slots.closed = True
        while (self.under_way or not self.quiet()) and self._housekeeping.now() < deadline:
            await self._housekeeping.sleep_until(self._housekeeping.now() + DRAIN_LOOK_NS)

    async def pending(self) -> bool:
        """True when a delivery is unread, parked or under way, or a dead letter waits to be written."""
        return any(lane.has_work() for lane in self.lanes) or await self._ledger.next_burial_at() is not None

    async def run(self, writer: DeadLetterWriter) -> None:
        """Dispatch until cancelled."""
        self._stored = {row.id: row for row in await self._ledger.lanes()}
        await self._read_news()
        for id in self._stored.keys() - self._lanes.keys() - self.left_out.keys():
            await self._ledger.close_lane(id)  # forgotten while nobody ran here: no news name it
        self._stored.clear()
        self._burial_signal.ring()
        async with asyncio.TaskGroup() as self._tasks:
            self._tasks.create_task(self._timers.run())
            self._tasks.create_task(self._forever(self._news_signal, self._read_news))
            self._tasks.create_task(self._forever(self._ready_signal, self._step_lanes))
            self._tasks.create_task(self._forever(self._dirty_signal, self._commit))
            self._tasks.create_task(self._forever(self._ledger_reads.signal, self._ledger_reads.run_once))
            self._tasks.create_task(self._forever(self._burial_signal, partial(self._write_dead_letters, writer)))

    async def _forever(self, signal: Signal, work: Callable[[], Awaitable[None]]) -> None:
        """Do the work at each ring. A store that fails is tried again; what it was asked for is asked again."""
        while True:
            await signal.wait()
            try:
                await work()
            except StoreFailed as error:
                await self._store_failed(error)
                signal.ring()

    async def _store_failed(self, error: StoreFailed, pause: int = REOPEN_PAUSE_NS) -> None:
        """Give the store a moment to put itself back on what is stored."""
        self._context.journal("store.failed", why=str(error))
        await self._housekeeping.sleep_until(self._housekeeping.now() + pause)

    # News from the log.

    async def _read_news(self) -> None:
        self._look_at_room()
        news = await self._log.news(self._mark)
        for topic in news.topics:
            await self._refresh_topic(topic)
        for id in news.subscriptions:
            await self._refresh_lane(id)
        for topic, end in news.ends.items():
            await self._grow(topic, end)
        self._mark = news.mark

    async def _grow(self, topic: int, end: int) -> None:
        ends = self._context.segments.ends
        before = ends.get(topic, 0)
        ends[topic] = max(before, end)
        topic_lanes = self._topic_lanes.get(topic)
        if topic_lanes is not None:
            sleeping_since = await topic_lanes.grow(before, ends[topic], self._context.clock.now())
            if sleeping_since is not None:
                self._timers.set(topic_lanes, sleeping_since + LAZY_SAVE_NS, topic_lanes.sweep)

    async def _refresh_topic(self, id: int) -> None:
        """Take over a topic's profile. The lanes of a deleted topic keep theirs: the news of their end follows."""
        try:
            topic = await self._registry.topic_by_id(id)
        except RecordDamaged as error:  # lanes go on with what they know
            self._context.journal("topic.damaged", topic=id, why=str(error))
            return
        for lane in self._lanes_of(id) if topic is not None else ():
            lane.profile = self._profile_of(topic)
            lane.wake()

    async def _refresh_lane(self, id: int) -> None:
        lane = self._lanes.get(id)
        try:
            subscription = await self._registry.subscription_by_id(id)
            if subscription is not None and lane is None:
                await self._open_lane(subscription)
                return
        except RecordDamaged as error:
            self._leave_out(id, str(error))
            return
        if subscription is None:
            await self._ledger.close_lane(id)
            self._remove(id)
        elif lane is not None:
            lane.change(subscription)
            self._topic_lanes[lane.topic].put(lane)
            lane.wake()

    def _leave_out(self, id: int, reason: str) -> None:
        """A subscription or its topic is damaged: its lane stops, or is not opened, and nothing of it is removed."""
        if id in self._lanes:
            self._lanes[id].stop(reason)
        else:
            self.left_out[id] = reason
            self._context.journal("lane.stopped", lane=id, why=reason)

    async def _open_lane(self, subscription: Subscription) -> None:
        row = self._stored.get(subscription.id) or await self._ledger.open_lane(
            subscription.id, subscription.topic, self._log.id, subscription.created_position
        )
        ended = row.ended and subscription.deleted_position is None
        if row.damaged or row.topic != subscription.topic or ended:
            row = await self._renew(subscription)
        topic = await self._registry.topic_by_id(subscription.topic)
        if topic is None:  # it may have been deleted since the subscription was read, which then is deleted too
            subscription = await self._registry.subscription_by_id(subscription.id) or subscription
        self._context.resource_ids[subscription.topic] = topic.resource_id if topic else ""
        published = topic.input_schema if topic else InputSchema.CUSTOM  # deleted: nothing is sent any more
        profile = self._profile_of(topic)
        name = topic.name if topic else ""
        lane = self.lane_type(row, subscription, published, profile, self._context, self._make_ready, name)
        self._lanes[lane.id] = lane
        self._topic_lanes.setdefault(lane.topic, TopicLanes(lane.topic, self._context.segments)).put(lane)
        end = await self._log.end(subscription.topic)
        if row.log_id != self._log.id:
            lane.stop("the lane's cursor belongs to another log: was log.db replaced?")
        elif row.cursor.low[0] > end + 1 and not row.ended:  # the log of one that has ended may be gone
            lane.stop(f"the lane's cursor is past the log's end, {end}: was an old log.db restored?")
        lane.wake()

    async def _renew(self, subscription: Subscription) -> LaneRow:
        """Begin a lane with a damaged row again where the log begins: nothing is lost, and some comes twice."""
        position = max(await self._log.first(subscription.topic), subscription.created_position)
        row = await self._ledger.renew_lane(subscription.id, subscription.topic, self._log.id, position)
        self._context.journal(
            "store.damaged", table="lane", subscription=subscription.name, lane=row.id, again_from=position
        )
        return row

    def _profile_of(self, topic: Topic | None) -> Profile:
        return load((topic and topic.profile) or self._default_profile)

    def _lanes_of(self, topic: int) -> list[Lane]:
        topic_lanes = self._topic_lanes.get(topic)
        return [] if topic_lanes is None else list(topic_lanes.lanes.values())

    def _remove(self, id: int) -> None:
        lane = self._lanes.pop(id, None)
        if lane is not None:
            lane.in_flight.cut_all()
            self._context.commit_budget.count(id, 0)
            self._context.retry_budget.count(id, 0)
            self._topic_lanes[lane.topic].remove(id)
            if not self._topic_lanes[lane.topic].lanes:
                del self._topic_lanes[lane.topic], self._context.resource_ids[lane.topic]

    # Steps.

    def _make_ready(self, lane: Lane) -> None:
        if not lane.queued:
            lane.queued = True
            self._ready.append(lane)
            self._ready_signal.ring()

    async def _step_lanes(self) -> None:
        while self._ready:
            now = self._context.clock.now()
            for _ in range(len(self._ready)):
                lane = self._ready.popleft()
                lane.queued = False
                try:
                    lane.step(now)
                except Exception as error:  # a bug or a poisonous event stops this lane, not the others
                    lane.stop(f"{type(error).__name__}: {error}")
                self._serve(lane, now)
            self._watch_late(now)
            await asyncio.sleep(0)

    def _serve(self, lane: Lane, now: int) -> None:
        """Give a lane what it wants after a step."""
        self._context.commit_budget.count(lane.id, lane.books.staged.rows)
        self._context.retry_budget.count(lane.id, lane.due_queue.size)
        if lane.books.must_commit(now):
            self._dirty[lane] = None
            self._dirty_signal.ring()
        if lane.wants_due(now):
            self._ledger_reads.ask_due(lane)
        if lane.cancellation.wants_parked:
            self._ledger_reads.ask_parked(lane)
        if lane.cancellation.wants_review:
            self._ledger_reads.ask_review(lane)
        if lane.reader.wants is not None and lane.stopped is None and lane not in self._loading:
            self._loading.add(lane)
            assert self._tasks is not None
            load = self._context.segments.load(lane.topic, lane.reader.wants, partial(self._loaded, lane))
            self._tasks.create_task(load)
        instant = lane.next_instant(now)
        if instant is not None:
            self._timers.set(lane, instant, lane.wake)

    def _loaded(self, lane: Lane, failure: Exception | None) -> None:
        if isinstance(failure, StoreFailed) and self._tasks is not None:
            self._tasks.create_task(self._load_again(lane))
            return
        self._loading.discard(lane)
        lane.reader.wants = None  # a lane that can not take now would have it read again and again
        if failure is not None:
            lane.stop(f"the log can not be read: {failure}")
        lane.wake()

    async def _set_aside(self, topic: int, entry: Entry) -> None:
        """Keep a damaged entry of the log for a person, before lanes pass it and it is trimmed."""
        damage = Damage("entry", topic, 0, entry.position, 0, entry.events, entry.body, entry.columns)
        if await self._ledger.set_aside(damage):
            self._context.journal(
                "store.damaged", table="entry", topic=topic, position=entry.position, events=entry.events
            )

    async def _load_again(self, lane: Lane) -> None:
        """The store is putting itself back on what is stored: the lane asks again in a moment."""
        await self._housekeeping.sleep_until(self._housekeeping.now() + REOPEN_PAUSE_NS)
        self._loaded(lane, None)

    def _watch_late(self, now: int) -> None:
        late = self._context.late
        late.cut_expired(now)
        instant = late.next_instant()
        if instant is not None:
            self._timers.set(late, instant, lambda: self._watch_late(self._context.clock.now()))

    # Commits.

    async def _commit(self) -> None:
        """Settle what is staged: at once, or in a moment if there was a commit just now and more answers are to come.

        Windows bound what is not settled, and so what a crash repeats.
        """
        if self.under_way:
            await self._housekeeping.sleep_until(self._settled_at + SETTLE_PACE_NS)
        self._settled_at = self._housekeeping.now()
        self._look_at_room()
        lanes = self._to_settle()
        if not lanes:
            return
        work = [(lane, lane.books.begin_commit()) for lane in lanes]
        for lane in lanes:
            self._context.commit_budget.count(lane.id, 0)
        try:
            await self._settle(work)
        except StoreFailed as error:
            self._block(error, work)
        else:
            self._context.gauge.committed(self._housekeeping.now() - self._settled_at, len(work))

    def _to_settle(self) -> list[Lane]:
        """The lanes that wait for a commit; when they have too much for one, those that have the least come first."""
        lanes = [lane for lane in self._dirty if lane.id in self._lanes and lane.books.committing is None]
        lanes.sort(key=lambda lane: lane.books.staged.size)
        count = fitting((lane.books.staged.size for lane in lanes), self._context.commit_bytes)
        self._dirty = dict.fromkeys(lanes[count:])
        if self._dirty:
            self._dirty_signal.ring()
        return lanes[:count]

    # Settlements that could not be stored. They are stored again, never what they settle sent again.

    def _block(self, error: StoreFailed, work: list[tuple[Lane, Settlement]]) -> None:
        """Keep these until they are stored; their lanes send nothing before that."""
        assert self._tasks is not None
        if not self._blocked:
            self._tasks.create_task(self._settle_blocked(error))
        for lane, settlement in work:
            if lane.books.committing is not None:  # it may have been settled apart
                lane.books.blocked = True
                self._blocked[lane] = settlement

    async def _settle_blocked(self, error: StoreFailed) -> None:
        """Try again, the later the longer it fails; one whose row is damaged does not hold up those behind it."""
        pause = REOPEN_PAUSE_NS
        while self._blocked:
            await self._store_failed(error, pause)
            pause = min(2 * pause, LONGEST_PAUSE_NS)
            lane = next(iter(self._blocked))
            try:
                for lane in list(self._blocked):
                    await self._settle_once(lane, self._blocked[lane])
                    del self._blocked[lane]
            except StoreFailed as failure:
                error = failure
                self._blocked[lane] = self._blocked.pop(lane)

    async def _settle_once(self, lane: Lane, settlement: Settlement) -> None:
        """Settle a lane, if it is not settled: a commit that failed does not say so, the version of its row does."""
        row = await self._ledger.lane(lane.id)
        if row is None or self._lanes.get(lane.id) is not lane:
            return
        if row.version > settlement.version and not row.damaged:
            self._settled(lane, settlement)
        else:
            await self._settle([(lane, settlement)])

    def _look_at_room(self) -> None:
        if self._context.room is None:
            return
        slots = self._context.slots
        was_short = slots.short
        slots.fit(self._context.room())
        if was_short and not slots.short:
            for lane in self._lanes.values():
                lane.wake()

    async def _settle(self, work: list[tuple[Lane, Settlement]]) -> None:
        """Settle lanes in one commit; if one of them can not be settled, each apart, and that one stops."""
        try:
            await self._ledger.settle([settlement for _, settlement in work])
        except (StoreStale, ValueError) as error:
            if len(work) == 1 and await self._begin_again(work[0][0]):
                return
            if len(work) == 1:
                work[0][0].stop(f"it can not be settled: {error or type(error).__name__}")
                return
            for one in work:
                await self._settle([one])
            return
        for lane, settlement in work:
            self._settled(lane, settlement)

    def _settled(self, lane: Lane, settlement: Settlement) -> None:
        lane.end_commit(settlement)
        if settlement.bury:
            self._burial_signal.ring()

    async def _begin_again(self, lane: Lane) -> bool:
        """Renew a lane whose settlement was refused because its row is damaged."""
        row = await self._ledger.lane(lane.id)
        if row is None or not row.damaged:
            return False
        lane.reload(await self._renew(lane.subscription))
        return True

    # Dead letters.

    async def _write_dead_letters(self, writer: DeadLetterWriter) -> None:
        assert self._tasks is not None
        while (group := await writer.next_group()) is not None:
            task = self._tasks.create_task(self._write_dead_letter(writer, group))
            self._burying.add(task)
            task.add_done_callback(self._burying.discard)
        instant = await writer.next_instant()
        if instant is not None:
            self._timers.set(writer, instant, self._burial_signal.ring)

    async def _write_dead_letter(self, writer: DeadLetterWriter, group: DeadLetterGroup) -> None:
        try:
            await writer.write(group)
        except StoreFailed as error:
            await self._store_failed(error)
        if group.lane in self._lanes:
            self._lanes[group.lane].wake()
        self._burial_signal.ring()

    def owner_of(self, lane_id: int) -> Owner:
        """Whose dead letters a lane's are, and under which rules they are written."""
        lane = self._lanes.get(lane_id)
        if lane is None:
            return unknown_owner(lane_id, load(self._default_profile).dead_letter)
        return Owner(lane.subscription.name, lane.profile.dead_letter, lane.recorder)
