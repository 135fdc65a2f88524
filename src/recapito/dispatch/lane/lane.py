"""A lane: everything that goes to one subscription. It decides, then does: `step` is synchronous.

The laws: an event is settled once; what is under way is bounded by the window; a hold lets nothing out but one probe,
and now and then a sweep; fresh and parked batches alternate and never mix; a failed delivery is an Outcome, and
`decide` says what follows.
"""

from collections import deque
from collections.abc import Callable
from functools import partial

import msgspec

from recapito.contracts import store
from recapito.dispatch.capacity import RESPONSIVE_NS
from recapito.dispatch.context import Equipment
from recapito.dispatch.lane.attempt_recorder import Recorder
from recapito.dispatch.lane.books import Account
from recapito.dispatch.lane.cancellation import WindingUp
from recapito.dispatch.lane.delivery_format import Presentation
from recapito.dispatch.lane.due_queue import Retries
from recapito.dispatch.lane.failure import Disposal
from recapito.dispatch.lane.in_flight import Flight, Load, id_origin
from recapito.dispatch.lane.in_flight_set import Flights
from recapito.dispatch.lane.log_reader import FreshReader, all_at_once, terms_at
from recapito.domain import limits
from recapito.domain.delivery.delivery import Identity, Parked, expired, skip, succeeded
from recapito.domain.delivery.hold import REFUSED_EVENT, Hold, after_failure, after_sweep, rules_for
from recapito.domain.delivery.outcome import Outcome, Result
from recapito.domain.events.schema import InputSchema
from recapito.domain.history.attempt import Label
from recapito.domain.profiles.profile import DelayedDelivery, Profile
from recapito.domain.resources.subscription import Subscription

SENDS_PER_STEP = 16
NO_ANSWER = Outcome(Result.TIMED_OUT, detail="no answer within 30 seconds")


class Sweep(msgspec.Struct):
    """Everything that waited at an instant is tried: up to this position of the log, and due up to this instant."""

    end: int
    due: int
    tried: bool = False


class Lane:
    """One subscription's deliveries. The dispatcher steps it, commits its stage, and fetches what it wants."""

    def __init__(
        self,
        row: store.Lane,
        subscription: Subscription,
        published: InputSchema,
        profile: Profile,
        equipment: Equipment,
        wake: Callable[["Lane"], None],
        topic_name: str = "",
    ) -> None:
        self.id = row.id  # the subscription's
        self.topic = row.topic
        self.profile = profile
        self.stopped: str | None = None
        self.queued = False  # the dispatcher's mark that it will step this lane
        self._equipment = equipment
        self._wake = wake
        self.window = self._window = equipment.window()
        self._responsive = False
        self._failing = False
        self._published = published
        label = Label(row.id, row.topic, topic_name, subscription.name)
        self.retrying = equipment.retrying
        self.recorder = Recorder(equipment.history, label)
        self._take_over(subscription)
        self._begin(row)

    def change(self, subscription: Subscription) -> None:
        """Take over a subscription as it is now; what is stored stays as it is. A hold was about its old endpoint."""
        if subscription.destination != self.subscription.destination:
            self.account.forget_hold()
            self._window.restart()
        self._take_over(subscription)

    def _take_over(self, subscription: Subscription) -> None:
        self.subscription = subscription
        self._presentation = Presentation(subscription, self._published, self._equipment.journal)

    def _begin(self, row: store.Lane) -> None:
        self.account = Account(row, self._equipment.gathering)
        self.retries = Retries(row.next_due_at)
        self.flights = Flights(self._equipment.slots)
        self.reader = FreshReader(row.topic, row.cursor, self._equipment.segments, self.flights.ranges)
        self.winding_up = WindingUp(self.account, self.flights, self.reader, self.recorder)
        self._answers: deque[tuple[Flight, Outcome]] = deque()
        self._sweep: Sweep | None = None
        self._read_ahead: deque[Identity] = deque(maxlen=limits.PROBE_EVENTS)  # the newest that were parked unread
        self._parked_turn = False
        self._terms = all_at_once(0)  # those of the step
        self._id_origin = id_origin(self._equipment.log_id, row.topic)

    def __repr__(self) -> str:
        return f"<Lane {self.id} {self.subscription.name} at {self.reader.place}, {len(self.flights)} under way>"

    # What the dispatcher asks.

    @property
    def end(self) -> int:
        """The last position that this lane may read."""
        end = self._equipment.segments.ends.get(self.topic, 0)
        deleted = self.subscription.deleted_position
        return end if deleted is None else min(end, deleted)

    @property
    def busy(self) -> int:
        """How many deliveries with a row in the ledger are on the wire or not yet settled."""
        return len(self.flights.retries_on_wire()) + len(self.account.identities())

    def at_tail(self, end: int) -> bool:
        """True when this lane will want what follows position `end` at once."""
        return self.reader.next_position(self.subscription, end) == end + 1 and not self.account.hold.on

    def has_work(self) -> bool:
        """True when something is unread, parked, under way or not yet settled."""
        if self.stopped is not None or self.account.row.ended:
            return False
        unread = not self.reader.caught_up(self.subscription, self.end)
        unsettled = self.account.stage.pressing or self.account.committing is not None
        return bool(unread or unsettled or len(self.flights) or self.retries.has_work)

    def wants_due(self, now: int) -> bool:
        """True when parked deliveries should be fetched from the ledger."""
        active = self.stopped is None and self.subscription.deleted_position is None
        return active and not self.account.hold.holds(now) and self.retries.wants_fetch(self.due_until(now))

    def due_until(self, now: int) -> int:
        """The latest due time of what may be tried now: a sweep does not try what came due since it began."""
        return now if self._sweep is None else self._sweep.due

    def newest_parked(self) -> Identity | None:
        """The newest event that was parked unread, when a probe is wanted; it may have been tried since."""
        probing = self.account.hold.on and not self.account.hold.sweeps
        return self._read_ahead[-1] if probing and self._read_ahead else None

    def forget_parked(self, identity: Identity) -> None:
        """An event that was parked unread has been tried, or is gone."""
        if identity in self._read_ahead:
            self._read_ahead.remove(identity)

    def next_instant(self, now: int) -> int | None:
        """When this lane must be stepped even if nothing happens before. What has come already is under way."""
        hold = self.account.hold
        if not hold.holds(now):
            next_try = self.retries.next_fetch_at
        else:
            next_try = hold.until if self.has_work() or self._lags else None
        instants = (self.flights.next_instant(), self.account.next_instant(), next_try)
        return min((instant for instant in instants if instant is not None and instant > now), default=None)

    @property
    def _lags(self) -> bool:
        """True when there are entries to be passed, even if nothing in them is for this lane."""
        return self.reader.place[0] <= self.end

    # What the dispatcher tells.

    def wake(self) -> None:
        """Be stepped soon."""
        self._wake(self)

    def catch_up(self, since: int) -> None:
        """Be stepped soon if entries went by unread since then; the cursor is saved as if it had passed them then."""
        if self._lags:
            self.account.passing_since(since)
            self.wake()

    def stop(self, reason: str) -> None:
        """Stop loudly: going on could deliver something wrong or lose something."""
        self.flights.cut_all()
        self.account.discard()
        self.stopped = reason
        self._equipment.journal(
            "lane.stopped", subscription=self.subscription.name, lane=self.id, place=self.reader.place, why=reason
        )

    def reload(self, row: store.Lane) -> None:
        """Begin again from a row that was made anew: the stored one is damaged."""
        self.flights.cut_all()
        self._begin(row)
        self.wake()

    def end_commit(self, settlement: store.Settlement) -> None:
        """A settlement is stored."""
        self.retries.settled(self.account.end_commit(settlement), settlement.park)
        self.wake()

    def fetched(self, due: store.Due) -> None:
        """Due deliveries came from the ledger."""
        busy = self.flights.retries_on_wire() | self.account.identities()
        self.retries.queue(self.retries.end_fetch(due, busy))
        if self.account.hold.holds(self._equipment.clock.now()):
            self.retries.let_go()
        self.wake()

    def fetched_parked(self, rows: list[Parked], version: int) -> None:
        """Parked deliveries of a deleted subscription came from the ledger, as of a version."""
        self.winding_up.fetched(rows, version, self._equipment.clock.now())
        self.wake()

    def reviewed(self, row: store.Lane | None) -> None:
        """The stored books of a deleted subscription: when nothing is pending any more, the lane ends."""
        if self.winding_up.reviewed(row):
            self.wake()

    # One step.

    def step(self, now: int) -> None:
        """Take the answers, give up on what took too long, and send what may be sent."""
        while self._answers:
            self._answered(*self._answers.popleft(), now)
        while (flight := self.flights.overdue(now)) is not None:
            self._time_out(flight, now)
        if self.stopped is not None or self.account.row.ended:
            return
        if self.account.hold.on and self._rules is None:  # the topic has another profile since, or it another policy
            self.account.set_hold(Hold(self.account.hold.failures))
        if self.subscription.deleted_position is not None:
            self.winding_up.step(self.subscription, self.end, self.retries.fetching, now)
        elif not self.account.hold.holds(now):
            self._send(now)
        elif self.account.sparse and not self._equipment.slots.short:
            self._park_unread(now)

    @property
    def _rules(self) -> DelayedDelivery | None:
        """When this lane is held, and for how long; None: never."""
        return rules_for(self.profile, self.subscription.retry_policy)

    def _send(self, now: int) -> None:
        hold = self.account.hold
        probing = hold.on and not hold.sweeps
        if not hold.sweeps:
            self._sweep = None
        elif self._sweep is None:
            self._sweep = Sweep(self.end, now)
        self._terms = terms_at(now, self.subscription, self._presentation, self.account.gathering.slice)
        self._send_more(now, probing)
        if self._sweep is not None and self._all_tried(self._sweep):
            self._end_sweep(self._sweep, now)
        elif hold.sweep_at and not self.account.hold.on and self._all_tried(Sweep(self.end, now)):
            self.account.caught_up()

    def _send_more(self, now: int, probing: bool) -> None:
        room = self._room(probing)
        free = self._equipment.slots.free(self._responsive, len(self.flights)) if room else 0
        next_load = self._next_probe if probing else self._next_load
        for _ in range(min(room, free, SENDS_PER_STEP)):
            load = None if self.flights.full else next_load(now)
            if load is None:
                return
            self._launch(load, now, self.account.hold.on)
        if room and not free:
            self._equipment.slots.wait(self, self._responsive)
        elif room > min(free, SENDS_PER_STEP):
            self.wake()

    def _all_tried(self, sweep: Sweep) -> bool:
        """True when all that waited when a sweep began has been tried, and what became of it is stored."""
        waiting = self.retries.fetching or len(self.retries) or self.retries.wants_fetch(sweep.due)
        read = self.reader.place[0] > sweep.end or self._spares_room
        return not (waiting or len(self.flights)) and read and self.account.settled

    def _end_sweep(self, sweep: Sweep, now: int) -> None:
        """Hold the lane again: the last requests failed, or the hold would be over. If none went, nothing is known."""
        self._sweep = None
        if sweep.tried and self._rules is not None:
            self.account.set_hold(after_sweep(self.account.hold, self._rules, now))

    def _room(self, probing: bool) -> int:
        """How many more requests this lane may have, as far as their number goes."""
        if self.account.blocked:
            return 0
        if probing:
            return int(not self.flights.probing and not self.retries.fetching)
        if self.account.unsettled_bytes >= limits.WINDOW_BYTES:
            return 0
        return self._window.room(len(self.flights), self.account.unsettled_flights)

    def _next_load(self, now: int) -> Load | None:
        """Fresh and parked batches alternate."""
        if not len(self.retries):
            return self._take_fresh(now)
        takes = (self._take_parked, self._take_fresh) if self._parked_turn else (self._take_fresh, self._take_parked)
        for take in takes:
            load = take(now)
            if load is not None:
                self._parked_turn = load.fresh
                return load
        return None

    def _next_probe(self, now: int) -> Load | None:
        """One event: the newest that was never tried, else the one that is due first. What expired is given up before.

        So consecutive probes never take the same event while another waits: one that fails is due later than those.
        """
        policy = self.subscription.retry_policy
        for row in self.retries.remove(lambda row: expired(row.delivery, policy, now)):
            self._disposal().expired(row.delivery, now, fresh=False)
        if self.account.full or self.retries.wants_fetch(now):
            return None
        self._terms = self._terms._replace(event_limit=1)
        load = self.reader.take_newest(self.subscription, self.end, self._terms)
        if load is not None or self.reader.wants is not None:
            return load
        return self._take_fresh(now) or (None if self.reader.wants is not None else self._take_parked(now))

    @property
    def _spares_room(self) -> bool:
        """True while the lane sends nothing new: if it failed, the lane would have to park it, and room is short."""
        return self._equipment.slots.short and self._failing and (self.retries.has_work or not self.account.settled)

    def _take_fresh(self, now: int) -> Load | None:
        if self._spares_room:
            return None
        end = self.end if self._sweep is None else min(self.end, self._sweep.end)
        while not self.account.full:
            load = self.reader.take(self.subscription, end, self._terms)
            if load is None or (load.events and not load.expired):
                return load
            self.account.pass_over(load)
            for delivery in load.deliveries():
                self._disposal().expired(delivery, now, fresh=True)
        return None

    def _take_parked(self, now: int) -> Load | None:
        batching, policy = self.subscription.batching, self.subscription.retry_policy
        while len(self.retries) and not self.account.full:
            limit = min(batching.event_limit, self._terms.event_limit)
            rows, headers = self.retries.take(limit, batching.byte_limit, self._presentation)
            living = []
            for row in rows:
                if expired(row.delivery, policy, now):
                    self._disposal().expired(row.delivery, now, fresh=False)
                else:
                    living.append(skip(self.profile.schedule, policy, row, now))
            if living:
                return Load((), living, (), len(living), headers)
        return None

    def _launch(self, load: Load, now: int, probing: bool) -> None:
        batch = load.batch(self._presentation, self._id_origin)
        flight = Flight(load, len(batch.body), now, probing)
        self.flights.start(flight)
        if self._sweep is not None:
            self._sweep.tried = True
        answer = partial(self._answer, flight)
        flight.exchange = self._equipment.sender.send(self.subscription.destination, batch, answer)

    def _answer(self, flight: Flight, outcome: Outcome) -> None:
        flight.exchange = None  # it has us: nobody but the garbage collector would part the two
        self._answers.append((flight, outcome))
        self.wake()

    # What comes back.

    def _answered(self, flight: Flight, outcome: Outcome, now: int) -> None:
        if flight.late:
            self._answered_late(flight, outcome, now)
        elif flight in self.flights:
            self._responsive = now - flight.sent_at < RESPONSIVE_NS
            self._conclude(flight, outcome, now)

    def _time_out(self, flight: Flight, now: int) -> None:
        self._responsive = False
        self._conclude(flight, NO_ANSWER, now)
        flight.late = True
        self._equipment.late.add(flight)

    def _conclude(self, flight: Flight, outcome: Outcome, now: int) -> None:
        self.flights.land(flight)
        self.account.stage.landed(flight.size, now - flight.sent_at)
        if flight.load.fresh:
            self.account.pass_over(flight.load)
        if succeeded(self.profile, outcome):
            self.recorder.delivered(flight, outcome, now)
            self._delivered(flight)
        else:
            self._failed(flight, outcome, now)

    def _delivered(self, flight: Flight) -> None:
        self._failing = False
        if self.account.hold.on:
            self._window.restart()
        else:
            self._window.succeeded()
        self.account.clear_hold()
        if flight.load.fresh:
            self.account.stage.delivered(flight.load.events)
            return
        for delivery in flight.load.deliveries():
            if delivery.identity not in flight.settled:
                self.account.stage.finish(delivery.identity)

    def _failed(self, flight: Flight, outcome: Outcome, now: int) -> None:
        self._failing = True
        before = self.account.hold
        self.account.set_hold(self._held_after(flight, outcome, now))
        if outcome.failure not in REFUSED_EVENT:
            self._window.failed()
        elif before.on and not self.account.hold.on:
            self._window.restart()
        if self.account.hold.holds(now):
            self.retries.let_go()
        self._disposal().failed(flight, outcome, now, before, self.account.hold)

    def _held_after(self, flight: Flight, outcome: Outcome, now: int) -> Hold:
        hold, first_attempts = self.account.hold, flight.load.first_attempts
        return after_failure(hold, self._rules, outcome, now, first_attempts, flight.probe)

    def _answered_late(self, flight: Flight, outcome: Outcome, now: int) -> None:
        """A success settles the delivery whichever attempt it answers; a late failure changes nothing."""
        self._equipment.late.remove(flight)
        if self.stopped is not None or self.account.row.ended or not succeeded(self.profile, outcome):
            return
        if now - flight.sent_at > limits.LATE_ANSWER_WAIT_NS:
            return
        self.recorder.delivered(flight, outcome, now)
        if self.account.hold.on:
            self._window.restart()
        self.account.clear_hold()
        for delivery in flight.load.deliveries():
            self.flights.settle_elsewhere(delivery.identity)
            self.retries.discard(delivery.identity)
            self.account.stage.finish(delivery.identity)

    # A lane that is held.

    def _park_unread(self, now: int) -> None:
        """Park what matches, so that the log need not keep all the rest."""
        while not self.account.full:
            load = self.reader.take(self.subscription, self.end, all_at_once(self.account.gathering.slice))
            if load is None:
                return
            self.account.pass_over(load)
            for delivery in load.deliveries():
                self.account.stage.park(Parked(now, delivery), fresh=True)
                self._read_ahead.append(delivery.identity)

    def _disposal(self) -> Disposal:
        stage, recorder = self.account.stage, self.recorder
        return Disposal(self.subscription, self._published, self.profile, self._equipment, stage, recorder)
