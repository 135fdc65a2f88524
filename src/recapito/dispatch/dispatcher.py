"""The dispatcher: steps the lanes that have something to do, and does the I/O that they want.

One loop each for news from the log, for steps, for commits and for reads of the ledger. A lane that fails is stopped,
never the others. The dispatcher decides nothing about a delivery: the lane does.
"""

import asyncio
from bisect import bisect_right
from collections import Counter, deque

from recapito.clock import SECOND, Clock
from recapito.contracts.damage import Damage
from recapito.contracts.ledger import LaneRow, Ledger, Settlement
from recapito.contracts.log import Entry, Log
from recapito.contracts.registry import Registry
from recapito.dispatch.capacity import fitting
from recapito.dispatch.context import DispatchContext
from recapito.dispatch.feed.topic_feed import TopicFeed
from recapito.dispatch.lane.lane import NOTHING, Lane, Wants
from recapito.dispatch.lane.settlement import LAZY_SAVE_NS
from recapito.dispatch.ledger_reads import LedgerReads
from recapito.dispatch.open_lanes import OpenLanes
from recapito.dispatch.signals import DAMAGED_PAUSE_NS, REOPEN_PAUSE_NS, Signal, StoreRetry, Timers
from recapito.domain.events.schema import InputSchema
from recapito.domain.profiles.profile import Profile, load
from recapito.domain.resources.subscription import Subscription
from recapito.domain.resources.topic import Topic
from recapito.errors import InvalidInput, RecordDamaged, StoreDamaged, StoreFailed, StoreStale

LONGEST_PAUSE_NS = 2 * SECOND
RENEW_PATIENCE_NS = 5 * SECOND
REVIEW_NS = 60 * SECOND
REVIEW_LANES = 200
SETTLE_PACE_NS = SECOND // 200  # a lane may have four windows unsettled: 256 requests, if its endpoint answers well


class Dispatcher:
    """Runs the lanes of a store.

    - `context`: the parts that all lanes share.
    - `lanes`: the open lanes, which the writer of dead letters looks up too.
    - `burials`: set when a settlement has buried a delivery.
    - `housekeeping`: the clock of pauses and paces, which a test that moves the service's clock does not move.
    """

    lane_type = Lane

    def __init__(
        self,
        log: Log,
        registry: Registry,
        ledger: Ledger,
        context: DispatchContext,
        lanes: OpenLanes,
        burials: Signal,
        housekeeping: Clock,
    ) -> None:
        self._log = log
        self._registry = registry
        self._ledger = ledger
        self._context = context
        self._lanes = lanes
        self._burials = burials
        self._housekeeping = housekeeping
        self._retry = StoreRetry(housekeeping, context.journal)
        self.left_out: dict[int, str] = {}  # lanes that cannot be opened, and why
        self._feeds: dict[int, TopicFeed] = {}  # of the topics that have lanes
        self._ends: dict[int, int] = {}  # of the logs of all topics
        self._unmatched: Counter[int] = Counter()  # by topic: of feeds that are gone, and not reported yet
        self._mark = 0
        self._stored: dict[int, LaneRow] = {}  # the rows found at the start, read in one go
        self._ready: deque[Lane] = deque()
        self._dirty: dict[Lane, None] = {}
        self._ledger_reads = LedgerReads(ledger, context.clock)
        self._loading = 0
        self._settled_at = 0
        self._blocked: dict[Lane, Settlement] = {}
        self._timers = Timers(context.clock)
        self._news_signal, self._ready_signal, self._dirty_signal = Signal(), Signal(), Signal()
        self._tasks: asyncio.TaskGroup | None = None

    @property
    def lanes(self) -> list[Lane]:
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
        self._news_signal.set()

    def quiet(self) -> bool:
        """True when nothing happens until an answer, a publish or the clock brings something."""
        signals = (self._news_signal, self._ready_signal, self._dirty_signal, self._ledger_reads.signal)
        busy = self._loading or self._blocked
        return not busy and self._timers.idle and all(signal.idle for signal in signals)

    def close(self) -> None:
        """Start no request any more; those under way end and are settled."""
        self._context.slots.closed = True

    async def pending(self) -> bool:
        """True when a delivery is unread, parked or under way, or a dead letter waits to be written."""
        return any(lane.has_work() for lane in self.lanes) or await self._ledger.next_burial_at() is not None

    def unmatched(self) -> Counter[int]:
        """Events that no lane took, by topic, since they were last `forget_unmatched`."""
        waiting = Counter({topic: feed.unmatched for topic, feed in self._feeds.items() if feed.unmatched})
        return waiting + self._unmatched

    def forget_unmatched(self, reported: dict[int, int]) -> None:
        """These counts are on their way to intake."""
        for topic, events in reported.items():
            gone = min(self._unmatched[topic], events)
            self._unmatched[topic] -= gone
            if topic in self._feeds:
                self._feeds[topic].unmatched -= events - gone
        self._unmatched = +self._unmatched

    async def start(self) -> None:
        """Open the lanes. While a page that this needs is damaged, none is open: that is reported, and tried again."""
        while True:
            try:
                await self._open_lanes()
                return
            except StoreDamaged as error:
                await self._retry.pause(error, DAMAGED_PAUSE_NS)

    async def _open_lanes(self) -> None:
        self._stored = {row.id: row for row in await self._ledger.lanes()}
        await self._read_news()
        for id in self._stored.keys() - self._lanes.keys() - self.left_out.keys():
            await self._ledger.close_lane(id)  # forgotten while dispatch did not run: no news name it
        self._stored.clear()
        self._burials.set()

    async def run(self) -> None:
        """Dispatch until cancelled."""
        async with asyncio.TaskGroup() as self._tasks:
            self._tasks.create_task(self._timers.run())
            self._tasks.create_task(self._review_rows())
            self._tasks.create_task(self._retry.run(self._news_signal, self._read_news))
            self._tasks.create_task(self._retry.run(self._ready_signal, self._step_lanes))
            self._tasks.create_task(self._retry.run(self._dirty_signal, self._commit))
            self._tasks.create_task(self._retry.run(self._ledger_reads.signal, self._ledger_reads.run_once))

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
        self._ends[topic] = max(self._ends.get(topic, 0), end)
        feed = self._feeds.get(topic)
        if feed is not None:
            sleeping_since = await feed.grow(end, self._context.clock.now())
            if sleeping_since is not None:
                self._timers.set(feed, sleeping_since + LAZY_SAVE_NS, feed.sweep)

    async def _refresh_topic(self, id: int) -> None:
        """Use a topic's changed profile. The lanes of a deleted topic keep theirs: the news of their end follows."""
        try:
            topic = await self._registry.topic_by_id(id)
            profile = self._profile_of(topic)
        except (RecordDamaged, InvalidInput) as error:  # lanes go on with the profile that they have
            self._context.journal("topic.damaged", topic=id, why=str(error))
            return
        if topic is not None and id in self._feeds:
            for lane in self._feeds[id].lanes.values():
                lane.change_profile(profile)

    async def _refresh_lane(self, id: int) -> None:
        lane = self._lanes.get(id)
        try:
            subscription = await self._registry.subscription_by_id(id)
            if subscription is not None and lane is None:
                await self._open_lane(subscription)
                return
        except (RecordDamaged, InvalidInput) as error:  # a profile that this version does not know
            self._leave_out(id, str(error))
            return
        if subscription is None:
            await self._ledger.close_lane(id)
            self._remove(id)
        elif lane is not None:
            lane.change(subscription)
            self._feeds[lane.topic].put(lane)

    def _leave_out(self, id: int, reason: str) -> None:
        """The record of a subscription or its topic is damaged: its lane stops or is not opened; nothing is removed."""
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
        feed = self._feed_of(subscription.topic)
        feed.resource_id = topic.resource_id if topic else ""
        lane = self.lane_type(
            row,
            subscription,
            topic.input_schema if topic else InputSchema.CUSTOM,  # deleted: nothing is sent any more
            self._profile_of(topic),
            self._context,
            feed,
            self._make_ready,
            topic.name if topic else "",
        )
        self._lanes[lane.id] = lane
        feed.put(lane)
        end = await self._log.end(subscription.topic)
        if row.log_id != self._log.id:
            lane.stop("the lane's cursor belongs to another log: was log.db replaced?")
        elif row.cursor.low[0] > end + 1 and not row.ended:  # the log of one that has ended may be gone
            lane.stop(f"the lane's cursor is past the log's end, {end}: was an old log.db restored?")
        lane.wake()

    async def _renew(self, subscription: Subscription) -> LaneRow:
        """Begin a lane with a damaged row again where the log begins: nothing is lost, and some events come twice.

        The log is not trimmed meanwhile, for parked deliveries from that position on are removed and read again. A lock
        that is not free for RENEW_PATIENCE_NS belongs to a backup, and nothing is trimmed while that runs.
        """
        patient_until = self._housekeeping.now() + RENEW_PATIENCE_NS
        while True:
            with self._context.no_trimming() as alone:
                if alone or self._housekeeping.now() >= patient_until:
                    position = max(await self._log.first(subscription.topic), subscription.created_position)
                    row = await self._ledger.renew_lane(subscription.id, subscription.topic, self._log.id, position)
                    break
            await self._housekeeping.sleep_until(self._housekeeping.now() + REOPEN_PAUSE_NS)
        self._context.journal(
            "store.damaged", table="lane", subscription=subscription.name, lane=row.id, again_from=position
        )
        return row

    def _profile_of(self, topic: Topic | None) -> Profile:
        return load((topic and topic.profile) or self._lanes.default_profile)

    def _feed_of(self, topic: int) -> TopicFeed:
        if topic not in self._feeds:
            feed = TopicFeed(topic, self._context.segments, self._context.tail_entries, self._set_aside)
            feed.end = self._ends.get(topic, 0)
            self._feeds[topic] = feed
        return self._feeds[topic]

    def _remove(self, id: int) -> None:
        lane = self._lanes.pop(id, None)
        if lane is not None:
            lane.in_flight.cut_all()
            self._context.commit_budget.count(id, 0)
            self._context.retry_budget.count(id, 0)
            feed = self._feeds[lane.topic]
            feed.remove(id)
            if not feed.lanes:
                self._unmatched[lane.topic] += feed.unmatched
                del self._feeds[lane.topic]

    # Steps.

    def _make_ready(self, lane: Lane) -> None:
        if not lane.queued:
            lane.queued = True
            self._ready.append(lane)
            self._ready_signal.set()

    async def _step_lanes(self) -> None:
        while self._ready:
            now = self._context.clock.now()
            for _ in range(len(self._ready)):
                lane = self._ready.popleft()
                lane.queued = False
                try:
                    wants = lane.step(now)
                except Exception as error:  # a bug or a poisonous event stops this lane, not the others
                    lane.stop(f"{type(error).__name__}: {error}")
                    wants = NOTHING
                self._serve(lane, wants)
            self._watch_late(now)
            await asyncio.sleep(0)

    def _serve(self, lane: Lane, wants: Wants) -> None:
        """Start the I/O that a lane wants."""
        self._context.commit_budget.count(lane.id, wants.rows)
        self._context.retry_budget.count(lane.id, wants.retry_bytes)
        if wants.commit:
            self._dirty[lane] = None
            self._dirty_signal.set()
        if wants.due:
            self._ledger_reads.ask_due(lane)
        if wants.parked:
            self._ledger_reads.ask_parked(lane)
        if wants.review:
            self._ledger_reads.ask_review(lane)
        if wants.entry is not None:
            assert self._tasks is not None
            self._loading += 1
            self._tasks.create_task(self._load(lane, wants.entry))
        if wants.wake_at is not None:
            self._timers.set(lane, wants.wake_at, lane.wake)

    async def _load(self, lane: Lane, position: int) -> None:
        """Load an entry for a lane. If the store fails, the lane asks again in a moment.

        Where a damaged page hides entries, the lane waits until the page is restored.
        """
        try:
            await lane.feed.load(position)
        except StoreDamaged as error:
            await self._retry.pause(error, DAMAGED_PAUSE_NS)
        except StoreFailed:
            await self._housekeeping.sleep_until(self._housekeeping.now() + REOPEN_PAUSE_NS)
        except Exception as error:
            lane.stop(f"the log cannot be read: {error}")
        self._loading -= 1
        lane.loaded()

    async def _set_aside(self, topic: int, entry: Entry) -> None:
        """Keep a damaged entry of the log for a person, before lanes pass it and it is trimmed."""
        damage = Damage("entry", topic, 0, entry.position, 0, entry.events, entry.body, entry.columns)
        if await self._ledger.set_aside(damage):
            self._context.journal(
                "store.damaged", table="entry", topic=topic, position=entry.position, events=entry.events
            )

    def _watch_late(self, now: int) -> None:
        late = self._context.late
        late.cut_expired(now)
        instant = late.next_instant()
        if instant is not None:
            self._timers.set(late, instant, lambda: self._watch_late(self._context.clock.now()))

    # Commits.

    async def _commit(self) -> None:
        """Store the staged settlements: at once, or in a moment if a commit just ended and more answers are to come.

        Windows bound the requests that are not settled, and so those that a crash repeats.
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
        """The lanes of the next commit; when they have too many bytes for one, those with the fewest come first."""
        lanes = [lane for lane in self._dirty if lane.id in self._lanes and lane.books.committing is None]
        lanes.sort(key=lambda lane: lane.books.staged.size)
        count = fitting((lane.books.staged.size for lane in lanes), self._context.commit_bytes)
        self._dirty = dict.fromkeys(lanes[count:])
        if self._dirty:
            self._dirty_signal.set()
        return lanes[:count]

    # Settlements that could not be stored are stored again; the requests that they settle are never sent again.

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
        """Store them again, with growing pauses; a settlement whose row is damaged does not hold up the others."""
        pause = REOPEN_PAUSE_NS
        while self._blocked:
            await self._retry.pause(error, pause)
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
        """Settle a lane, unless it is settled: a failed commit may have been stored, which the row's version shows."""
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
        """Settle lanes in one commit; if that is refused, each in its own, and the lane that is refused stops."""
        try:
            await self._ledger.settle([settlement for _, settlement in work])
        except (StoreStale, ValueError) as error:
            if len(work) == 1 and await self._begin_again(work[0][0]):
                return
            if len(work) == 1:
                work[0][0].stop(f"it cannot be settled: {error or type(error).__name__}")
                return
            for lane_and_settlement in work:
                await self._settle([lane_and_settlement])
            return
        for lane, settlement in work:
            self._settled(lane, settlement)

    def _settled(self, lane: Lane, settlement: Settlement) -> None:
        lane.end_commit(settlement)
        if settlement.bury:
            self._burials.set()

    async def _begin_again(self, lane: Lane) -> bool:
        """Renew a lane whose settlement was refused because its row is damaged. It sends nothing meanwhile.

        Versions only grow: a lower one belongs to a row that was renewed by a commit that seemed to fail.
        """
        lane.books.blocked = True
        row = await self._ledger.lane(lane.id)
        if row is None or not (row.damaged or row.version < lane.books.row.version):
            return False
        lane.reload(await self._renew(lane.subscription) if row.damaged else row)
        return True

    async def _review_rows(self) -> None:
        """Read REVIEW_LANES rows each minute, in turn: an idle or ended lane does not meet its damaged row itself."""
        last = 0
        while True:
            await self._housekeeping.sleep_until(self._housekeeping.now() + REVIEW_NS)
            ids = sorted(self._lanes)
            last = 0 if not ids or ids[-1] <= last else last
            next_ids = ids[bisect_right(ids, last) :][:REVIEW_LANES]
            try:
                rows = await self._ledger.some_lanes(next_ids)
                for row in rows:
                    lane = self._lanes.get(row.id)
                    if lane is not None and (row.damaged or lane.books.row.ended > row.ended):
                        await self._mend(lane, row)
            except StoreFailed as error:
                await self._retry.pause(error)
                continue
            last = next_ids[-1] if next_ids else 0

    async def _mend(self, lane: Lane, row: LaneRow) -> None:
        """Have a damaged row written anew. A lane that went with its topic is closed: no news name it any more.

        If the store fails on the way, the next review goes on: the row is then sound, and has not ended.
        """
        try:
            forgotten = lane.books.row.ended and await self._registry.subscription_by_id(lane.id) is None
        except RecordDamaged:
            forgotten = False
        if forgotten:
            row = await self._renew(lane.subscription) if row.damaged else row
            if not row.ended:
                await self._ledger.settle([Settlement(row.id, row.version, row.cursor, row.hold, ended=True)])
            await self._ledger.close_lane(lane.id)
            self._remove(lane.id)
        elif row.damaged and lane.stopped is None:
            lane.settle_anew()
