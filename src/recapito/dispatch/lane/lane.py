"""A lane: everything that goes to one subscription. `step` decides, sends, and returns the I/O that the lane wants.

The laws: an event is settled once; the window bounds the requests under way; a hold lets out nothing but one probe, and
now and then a sweep; fresh and parked batches alternate and never mix; a failed delivery is an Outcome, and
`domain.delivery.decide` chooses what follows.
"""

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import msgspec

from recapito.contracts.ledger import DueDeliveries, LaneRow, Settlement
from recapito.dispatch.capacity import RESPONSIVE_NS, Pace
from recapito.dispatch.context import DispatchContext
from recapito.dispatch.feed.topic_feed import TopicFeed
from recapito.dispatch.lane.attempt_recorder import AttemptRecorder
from recapito.dispatch.lane.cancellation import Cancellation
from recapito.dispatch.lane.delivery_format import DeliveryFormat
from recapito.dispatch.lane.due_queue import DueQueue
from recapito.dispatch.lane.failure import FailureHandler
from recapito.dispatch.lane.in_flight import InFlight, InFlightSet, PendingBatch, id_origin
from recapito.dispatch.lane.log_reader import LogReader, terms_at, unlimited_terms
from recapito.dispatch.lane.rush import Rush, outlasts
from recapito.dispatch.lane.settlement import LaneBooks
from recapito.domain import limits
from recapito.domain.delivery.batch import company_under
from recapito.domain.delivery.delivery import DeliveryId, Parked, expired, in_force, skip, succeeded
from recapito.domain.delivery.hold import REFUSED_EVENT, Hold, after_failure, after_sweep, is_refused, rules_for
from recapito.domain.delivery.outcome import Outcome, Result
from recapito.domain.events.schema import InputSchema
from recapito.domain.history.attempt import LaneLabel
from recapito.domain.profiles.profile import DelayedDelivery, Profile
from recapito.domain.resources.destination import profile_for
from recapito.domain.resources.subscription import Subscription

SENDS_PER_STEP = 16
NO_ANSWER = Outcome(Result.TIMED_OUT, detail="no answer within 30 seconds")


class Wants(msgspec.Struct, frozen=True, gc=False):
    """The I/O that a lane wants after a step. The dispatcher does it and hands the result to the lane.

    - `commit`: store the staged settlement; then `Lane.end_commit`.
    - `due`: read the parked deliveries that have come due; then `Lane.fetched`.
    - `parked`, `review`: of a deleted subscription, read all that is parked, or the books; then `Lane.fetched_parked`,
      `Lane.reviewed`.
    - `entry`: load the log from this position on; then `Lane.loaded`.
    - `wake_at`: step the lane again at this instant.
    - `rows`, `retry_bytes`: the lane's share of the budgets for staged rows and for retries in memory.
    """

    commit: bool = False
    due: bool = False
    parked: bool = False
    review: bool = False
    entry: int | None = None
    wake_at: int | None = None
    rows: int = 0
    retry_bytes: int = 0


NOTHING = Wants()


class DueRead(NamedTuple):
    """One read of due deliveries: those due up to `until`, `limit` at most, and `at_least` of them whatever their size.

    `queue` is the one that the rows are for: a lane that begins again meanwhile does not take them. With a `rush`, its
    next page is read instead.
    """

    queue: DueQueue
    until: int
    limit: int
    at_least: int
    rush: Rush | None = None


class Sweep(msgspec.Struct):
    """Everything that waited at an instant is tried: up to position `end` of the log, or parked up to instant `due`."""

    end: int
    due: int
    tried: bool = False


class Lane:
    """One subscription's deliveries.

    - `row`: the lane as the ledger has it.
    - `published`: the schema that the topic's events are stored in.
    - `profile`: the topic's. A destination with rules of its own has another one.
    - `wake`: makes the dispatcher step this lane soon.
    - `topic_name`: for history, where it outlives the topic.
    """

    def __init__(
        self,
        row: LaneRow,
        subscription: Subscription,
        published: InputSchema,
        profile: Profile,
        context: DispatchContext,
        feed: TopicFeed,
        wake: Callable[["Lane"], None],
        topic_name: str = "",
    ) -> None:
        self.id = row.id  # the subscription's
        self.topic = row.topic
        self._topic_profile = profile
        self.stopped: str | None = None
        self.queued = False  # the dispatcher's mark that it will step this lane
        self.window = context.window()
        self._pace = Pace()
        self.recorder = AttemptRecorder(context.history, LaneLabel(row.id, row.topic, topic_name, subscription.name))
        self._context = context
        self.feed = feed
        self._wake = wake
        self._responsive = False
        self._failing = False
        self._published = published
        self._id_origin = id_origin(context.log_id, row.topic)
        self._use(subscription)
        self._begin(row)
        if outlasts(subscription.options.retry_asked_at, row.hold, context.clock.now()):
            self._start_rush(subscription.options.retry_asked_at)

    def change(self, subscription: Subscription) -> None:
        """Use a changed subscription from now on; stored rows stay as they are. A hold was about the old endpoint."""
        if subscription.destination != self.subscription.destination:
            self.books.forget_hold()
            self.window.restart()
        if subscription.options.retry_asked_at > self.subscription.options.retry_asked_at:
            self._start_rush(subscription.options.retry_asked_at)
        self._use(subscription)
        self.wake()

    def _start_rush(self, asked_at: int) -> None:
        """End a hold, and try everything that is parked; an endpoint that was held gets it without a stampede."""
        if self.books.hold.on:
            self.window.restart()
        self.books.forget_hold()
        self._rush: Rush | None = Rush(asked_at)

    def change_profile(self, profile: Profile) -> None:
        """Use another profile of the topic."""
        self._topic_profile = profile
        self._use(self.subscription)
        self.wake()

    def _use(self, subscription: Subscription) -> None:
        self.subscription = subscription
        self.profile = profile_for(subscription.destination, self._topic_profile)
        self._policy = in_force(self.profile, subscription.retry_policy)
        self._company = company_under(self.profile)
        self._format = DeliveryFormat(subscription, self._published, self._context.journal)
        self._pace.use(subscription.options)

    def _begin(self, row: LaneRow) -> None:
        self.books = LaneBooks(row, self._context.commit_budget)
        self.due_queue = DueQueue(row.next_due_at)
        self.in_flight = InFlightSet(self._context.slots)
        self.reader = LogReader(self.feed, row.cursor, self.in_flight.ranges)
        self.cancellation = Cancellation(self.books, self.in_flight, self.reader, self.recorder)
        self._answers: deque[tuple[InFlight, Outcome]] = deque()
        self._loading = False
        self._sweep: Sweep | None = None
        self._rush = None
        self._read_ahead: deque[DeliveryId] = deque(maxlen=limits.PROBE_EVENTS)  # the newest that were parked unread
        self._parked_turn = False
        self._terms = unlimited_terms(0)  # those of the step

    def __repr__(self) -> str:
        return f"<Lane {self.id} {self.subscription.name} at {self.reader.place}, {len(self.in_flight)} under way>"

    # For the dispatcher, between steps.

    @property
    def end(self) -> int:
        """The last position that this lane may read."""
        deleted = self.subscription.deleted_position
        return self.feed.end if deleted is None else min(self.feed.end, deleted)

    def at_tail(self, end: int) -> bool:
        """True when this lane will read the entry after position `end` at once."""
        return self.reader.next_position(self.subscription, end) == end + 1 and not self.books.hold.on

    def has_work(self) -> bool:
        """True when a delivery is unread, parked, under way or not yet settled."""
        if self.stopped is not None or self.books.row.ended:
            return False
        unread = not self.reader.caught_up(self.subscription, self.end)
        unsettled = self.books.staged.pressing or self.books.committing is not None
        return bool(unread or unsettled or len(self.in_flight) or self.due_queue.has_work)

    def due_read(self, queue: DueQueue, now: int) -> DueRead | None:
        """The read of due deliveries for a queue that began a fetch; None if the lane has begun again since.

        Deliveries on the wire or not yet settled may be among the rows and cannot be taken, so it reads that many more.
        """
        if queue is not self.due_queue:
            return None
        busy = len(self.in_flight.retries_on_wire()) + len(self.books.identities())
        until = self._due_until(now)
        rush = None if queue.next_at is not None and queue.next_at <= until else self._rush
        return DueRead(queue, until, self._context.retry_budget.slice + busy, busy + 1, rush)

    def newest_parked(self) -> DeliveryId | None:
        """The newest event that was parked unread, when a probe is wanted; it may have been tried since."""
        probing = self.books.hold.on and not self.books.hold.sweeps
        return self._read_ahead[-1] if probing and self._read_ahead else None

    def forget_parked(self, identity: DeliveryId) -> None:
        """An event that was parked unread has been tried, or is gone."""
        if identity in self._read_ahead:
            self._read_ahead.remove(identity)

    @property
    def refused(self) -> bool:
        """True while the endpoint refuses this server, and events are kept until a person has mended that."""
        return self.profile.keeps and is_refused(self.books.hold)

    @property
    def _lags(self) -> bool:
        """True when there are entries to pass, even if this lane takes no event of them."""
        return self.reader.place[0] <= self.end

    def wake(self) -> None:
        """Be stepped soon."""
        self._wake(self)

    def catch_up(self, since: int) -> None:
        """Be stepped soon if the lane slept through entries; its cursor is saved as if it had passed them then."""
        if self._lags:
            self.books.passing_since(since)
            self.wake()

    def stop(self, reason: str) -> None:
        """Stop loudly: going on could deliver something wrong or lose something."""
        self.in_flight.cut_all()
        self.books.discard()
        self.stopped = reason
        self._context.journal(
            "lane.stopped", subscription=self.subscription.name, lane=self.id, place=self.reader.place, why=reason
        )

    def reload(self, row: LaneRow) -> None:
        """Begin again from a renewed row: the stored one was damaged."""
        self.in_flight.cut_all()
        self._begin(row)
        self.wake()

    def settle_anew(self) -> None:
        """Have the damaged row written anew: either that mends it, or it is refused and the lane begins again."""
        self.books.staged.hold_changed = True
        self.wake()

    # The results of the I/O that the lane wanted.

    def end_commit(self, settlement: Settlement) -> None:
        self.due_queue.settled(self.books.end_commit(settlement), settlement.park)
        self.wake()

    def loaded(self) -> None:
        """The wanted entry is in the cache, or could not be read. A lane that still wants it asks again."""
        self._loading = False
        self.reader.wants = None
        self.wake()

    def fetched(self, read: DueRead, due: DueDeliveries) -> None:
        if read.queue is not self.due_queue:
            return
        busy = self.in_flight.retries_on_wire() | self.books.identities()
        if read.rush is not None:
            due = self._rushed(read.rush, due.parked)
        self.due_queue.queue(self.due_queue.end_fetch(due, busy))
        if self.books.hold.holds(self._context.clock.now()):
            self.due_queue.let_go()
        self.wake()

    def _rushed(self, rush: Rush, rows: list[Parked]) -> DueDeliveries:
        """The rows of a page to try, as if they were due. After the last page the due times are read again."""
        now = self._context.clock.now()
        if rows:
            return DueDeliveries(rush.choose(rows, now), self.due_queue.next_at)
        if self._rush is rush:
            self._rush = None
        return DueDeliveries([], now)

    def fetched_parked(self, rows: list[Parked], version: int) -> None:
        """Parked deliveries of a deleted subscription, as of a version of the row."""
        self.cancellation.fetched(rows, version, self._context.clock.now())
        self.wake()

    def reviewed(self, row: LaneRow | None) -> None:
        """The stored books of a deleted subscription: when nothing is pending any more, the lane ends."""
        if self.cancellation.reviewed(row):
            self.wake()

    # One step.

    def step(self, now: int) -> Wants:
        """Take the answers, give up on requests that took too long, and send what may be sent."""
        while self._answers:
            self._answered(*self._answers.popleft(), now)
        while (request := self.in_flight.overdue(now)) is not None:
            self._time_out(request, now)
        if self.stopped is not None:
            return NOTHING
        if not self.books.row.ended:
            self._work(now)
        return self._wants(now)

    def _work(self, now: int) -> None:
        if self.books.hold.on and self._rules is None:  # the topic has another profile since, or the lane a policy
            self.books.set_hold(Hold(self.books.hold.failures))
        if self.subscription.deleted_position is not None:
            self.cancellation.step(self.subscription, self.end, self.due_queue.fetching, now)
        elif not self.books.hold.holds(now):
            self._send(now)
        elif self.books.sparse and not self._context.slots.short:
            self._park_unread(now)

    def _wants(self, now: int) -> Wants:
        """Each want is handed out once: the lane remembers that it waits for the result."""
        commit = self.books.must_commit(now)
        due = self._wants_due(now)
        if due:
            self.due_queue.begin_fetch()
        entry = None if self._loading else self.reader.wants
        self._loading = self._loading or entry is not None
        return Wants(
            commit,
            due,
            *self.cancellation.take_wants(),
            entry,
            self._next_instant(now),
            self.books.staged.rows,
            self.due_queue.size,
        )

    def _wants_due(self, now: int) -> bool:
        active = self.subscription.deleted_position is None and not self.books.hold.holds(now)
        rushes = self._rush is not None and self.due_queue.idle
        return active and (rushes or self.due_queue.wants_fetch(self._due_until(now)))

    def _due_until(self, now: int) -> int:
        """The latest due time of the deliveries that may be tried now: a sweep leaves those that came due since."""
        return now if self._sweep is None else self._sweep.due

    def _next_instant(self, now: int) -> int | None:
        """When this lane must be stepped even if nothing happens before."""
        hold = self.books.hold
        if not hold.holds(now):
            next_try = self.due_queue.next_fetch_at
        else:
            next_try = hold.until if self.has_work() or self._lags else None
        paced = self._pace.resumes_at(now)
        resumes_at = paced if paced is not None and self.has_work() else None
        instants = (self.in_flight.next_instant(), self.books.next_instant(), next_try, resumes_at)
        return min((instant for instant in instants if instant is not None and instant > now), default=None)

    @property
    def _rules(self) -> DelayedDelivery | None:
        """The rules by which this lane is held; None: it never is."""
        return rules_for(self.profile, self.subscription.retry_policy)

    def _send(self, now: int) -> None:
        hold = self.books.hold
        probing = hold.on and not hold.sweeps
        if not hold.sweeps:
            self._sweep = None
        elif self._sweep is None:
            self._sweep = Sweep(self.end, now)
        terms = terms_at(now, self.subscription, self._format, self.books.commit_budget.slice, self._policy)
        self._terms = terms._replace(event_limit=self._pace.events(terms.event_limit))
        self._send_more(now, probing)
        if self._sweep is not None and self._all_tried(self._sweep):
            self._end_sweep(self._sweep, now)
        elif hold.sweep_at and not self.books.hold.on and self._all_tried(Sweep(self.end, now)):
            self.books.end_sweep()

    def _send_more(self, now: int, probing: bool) -> None:
        room = self._room(probing)
        free = self._context.slots.free(self._responsive, len(self.in_flight)) if room else 0
        next_batch = self._next_probe if probing else self._next_batch
        for _ in range(min(room, free, SENDS_PER_STEP)):
            if self._pace.resumes_at(now) is not None:
                return
            pending = None if self.in_flight.full else next_batch(now)
            if pending is None:
                return
            self._launch(pending, now, self.books.hold.on)
        if room and not free:
            self._context.slots.wait(self, self._responsive)
        elif room > min(free, SENDS_PER_STEP):
            self.wake()

    def _all_tried(self, sweep: Sweep) -> bool:
        """True when everything that waited when the sweep began has been tried and is settled."""
        waiting = self.due_queue.fetching or len(self.due_queue) or self.due_queue.wants_fetch(sweep.due)
        read = self.reader.place[0] > sweep.end or self._spares_room
        return not (waiting or len(self.in_flight)) and read and self.books.settled

    def _end_sweep(self, sweep: Sweep, now: int) -> None:
        """Hold the lane again, if the sweep sent any request: the last ones failed, or the hold would be over."""
        self._sweep = None
        if sweep.tried and self._rules is not None:
            self.books.set_hold(after_sweep(self.books.hold, self._rules, now))

    def _room(self, probing: bool) -> int:
        """How many more requests the lane may start by its window."""
        if self.books.blocked:
            return 0
        if probing:
            return self._pace.room(int(not self.in_flight.probing and not self.due_queue.fetching), len(self.in_flight))
        if self.books.unsettled_bytes >= limits.WINDOW_BYTES:
            return 0
        open = len(self.in_flight)
        return self._pace.room(self.window.room(open, self.books.unsettled_requests), open)

    def _next_batch(self, now: int) -> PendingBatch | None:
        """Fresh and parked batches alternate."""
        if not len(self.due_queue):
            return self._take_fresh(now)
        takes = (self._take_parked, self._take_fresh) if self._parked_turn else (self._take_fresh, self._take_parked)
        for take in takes:
            pending = take(now)
            if pending is not None:
                self._parked_turn = pending.fresh
                return pending
        return None

    def _next_probe(self, now: int) -> PendingBatch | None:
        """One event: the newest that was never tried, else the one that is due first; expired ones are given up before.

        So consecutive probes never take the same event while another waits: one that failed is due later than those.
        """
        for row in self.due_queue.remove(lambda row: expired(row.delivery, self._policy, now)):
            self._failure_handler().expired(row.delivery, now, fresh=False)
        if self.books.full or self.due_queue.wants_fetch(now):
            return None
        self._terms = self._terms._replace(event_limit=1)
        pending = self.reader.take_newest(self.subscription, self.end, self._terms)
        if pending is not None or self.reader.wants is not None:
            return pending
        return self._take_fresh(now) or (None if self.reader.wants is not None else self._take_parked(now))

    @property
    def _spares_room(self) -> bool:
        """True while the lane sends nothing new: it would have to park a failure, and room is short."""
        return self._context.slots.short and self._failing and (self.due_queue.has_work or not self.books.settled)

    def _take_fresh(self, now: int) -> PendingBatch | None:
        if self._spares_room:
            return None
        end = self.end if self._sweep is None else min(self.end, self._sweep.end)
        while not self.books.full:
            pending = self.reader.take(self.subscription, end, self._terms)
            if pending is None or (pending.events and not pending.expired):
                return pending
            self.books.pass_over(pending)
            for delivery in pending.deliveries():
                self._failure_handler().expired(delivery, now, fresh=True)
        return None

    def _take_parked(self, now: int) -> PendingBatch | None:
        batching, policy = self.subscription.batching, self.subscription.retry_policy
        while len(self.due_queue) and not self.books.full:
            limit = min(batching.event_limit, self._terms.event_limit)
            rows, headers = self.due_queue.take(limit, batching.byte_limit, self._format, self._company)
            living = []
            for row in rows:
                if expired(row.delivery, self._policy, now):
                    self._failure_handler().expired(row.delivery, now, fresh=False)
                else:
                    living.append(skip(self.profile.schedule, policy, row, now))
            if living:
                return PendingBatch((), living, (), len(living), headers)
        return None

    def _launch(self, pending: PendingBatch, now: int, probing: bool) -> None:
        batch = pending.batch(self._format, self._id_origin)
        request = InFlight(pending, len(batch.body), now, probing)
        self.in_flight.start(request)
        self._pace.sent(pending.events, now)
        if self._sweep is not None:
            self._sweep.tried = True
        answer = partial(self._answer, request)
        request.exchange = self._context.sender.send(self.subscription.destination, batch, answer)

    def _answer(self, request: InFlight, outcome: Outcome) -> None:
        request.exchange = None  # the two refer to each other: this spares the garbage collector
        self._answers.append((request, outcome))
        self.wake()

    # Answers.

    def _answered(self, request: InFlight, outcome: Outcome, now: int) -> None:
        if request.late:
            self._answered_late(request, outcome, now)
        elif request in self.in_flight:
            self._responsive = now - request.sent_at < RESPONSIVE_NS
            self._conclude(request, outcome, now)

    def _time_out(self, request: InFlight, now: int) -> None:
        self._responsive = False
        self._conclude(request, NO_ANSWER, now)
        request.late = True
        self._context.late.add(request)

    def _conclude(self, request: InFlight, outcome: Outcome, now: int) -> None:
        self.in_flight.land(request)
        self.books.staged.landed(request.size, now - request.sent_at)
        if request.pending.fresh:
            self.books.pass_over(request.pending)
        if succeeded(self.profile, outcome):
            self.recorder.delivered(request, outcome, now)
            self._delivered(request)
        else:
            self._failed(request, outcome, now)

    def _delivered(self, request: InFlight) -> None:
        self._failing = False
        if self.books.hold.on:
            self.window.restart()
        else:
            self.window.succeeded()
        self.books.clear_hold()
        if request.pending.fresh:
            self.books.staged.delivered(request.pending.events)
            return
        for delivery in request.pending.deliveries():
            if delivery.identity not in request.settled:
                self.books.staged.finish(delivery.identity)

    def _failed(self, request: InFlight, outcome: Outcome, now: int) -> None:
        self._failing = True
        before = self.books.hold
        self.books.set_hold(self._held_after(request, outcome, now))
        if outcome.failure not in REFUSED_EVENT:
            self.window.failed()
        elif before.on and not self.books.hold.on:
            self.window.restart()
        if self.books.hold.holds(now):
            self.due_queue.let_go()
            self._rush = None
        self._failure_handler().failed(request, outcome, now, before, self.books.hold)

    def _held_after(self, request: InFlight, outcome: Outcome, now: int) -> Hold:
        hold, first_attempts = self.books.hold, request.pending.first_attempts
        return after_failure(hold, self._rules, outcome, now, first_attempts, request.probe)

    def _answered_late(self, request: InFlight, outcome: Outcome, now: int) -> None:
        """A success settles the delivery whichever attempt it answers; a late failure changes nothing."""
        self._context.late.remove(request)
        if self.stopped is not None or self.books.row.ended or not succeeded(self.profile, outcome):
            return
        if now - request.sent_at > limits.LATE_ANSWER_WAIT_NS:
            return
        self.recorder.delivered(request, outcome, now)
        if self.books.hold.on:
            self.window.restart()
        self.books.clear_hold()
        for delivery in request.pending.deliveries():
            self.in_flight.settle_elsewhere(delivery.identity)
            self.due_queue.discard(delivery.identity)
            self.books.staged.finish(delivery.identity)

    # A lane that is held.

    def _park_unread(self, now: int) -> None:
        """Park the matching events, so that the log need not keep all the others."""
        while not self.books.full:
            pending = self.reader.take(self.subscription, self.end, unlimited_terms(self.books.commit_budget.slice))
            if pending is None:
                return
            self.books.pass_over(pending)
            for delivery in pending.deliveries():
                self.books.staged.park(Parked(now, delivery), fresh=True)
                self._read_ahead.append(delivery.identity)

    def _failure_handler(self) -> FailureHandler:
        staged, recorder = self.books.staged, self.recorder
        resource_id = self.feed.resource_id
        return FailureHandler(
            self.subscription, resource_id, self._published, self.profile, self._context, staged, recorder
        )
