"""A lane: everything that goes to one subscription. It decides, then does: `step` is synchronous.

The laws: an event is settled once; what is under way is bounded by the window; a hold lets nothing out but one probe;
fresh and parked batches alternate and never mix; a failed delivery is an Outcome, and `decide` says what follows.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import msgspec

from recapito import store
from recapito.clock import Clock
from recapito.dispatch.flight import Flight, Load
from recapito.dispatch.fresh import FreshReader, Terms
from recapito.dispatch.late import LateExchanges
from recapito.dispatch.retries import Retries
from recapito.dispatch.segments import Segments
from recapito.dispatch.stage import Stage
from recapito.dispatch.window import RESPONSIVE_NS, Slots, Window
from recapito.domain import deadletter, limits
from recapito.domain.delivery import (
    TTL_EXCEEDED,
    Dead,
    Delivery,
    Done,
    Identity,
    Parked,
    RetryAt,
    attempted,
    decide,
    expired,
    skip,
    succeeded,
)
from recapito.domain.hold import CLEAR, after_failure
from recapito.domain.instant import SECOND
from recapito.domain.outcome import Outcome, Result
from recapito.domain.profile import Profile
from recapito.domain.subscription import Subscription
from recapito.sender import Sender
from recapito.telemetry import Journal

SUBSCRIPTION_DELETED = "SubscriptionDeleted"
SENDS_PER_STEP = 16
LAZY_SAVE_NS = 5 * SECOND


@dataclass(frozen=True)
class Equipment:
    """What all lanes of a process share."""

    log_id: str
    clock: Clock
    sender: Sender
    segments: Segments
    slots: Slots
    late: LateExchanges
    random: Callable[[], float]
    journal: Journal
    extra_fields: bool = False


class Lane:
    """One subscription's deliveries. The dispatcher steps it, commits its stage, and fetches what it wants."""

    def __init__(
        self,
        row: store.Lane,
        subscription: Subscription,
        profile: Profile,
        equipment: Equipment,
        wake: Callable[["Lane"], None],
    ) -> None:
        self.subscription = subscription
        self.profile = profile
        self._equipment = equipment
        self._wake = wake
        self._window = Window()
        self._responsive = False
        self.stopped: str | None = None
        self.queued = False
        self._load_row(row)

    def __repr__(self) -> str:
        return f"<Lane {self.row.id} {self.subscription.name} at {self._reader.place}, {len(self._flights)} under way>"

    def _load_row(self, row: store.Lane) -> None:
        self.row = row
        self.hold = row.hold
        self._matched = row.counts.matched
        self._passed = row.counts.matched + row.counts.unmatched
        self.stage = Stage()
        self.committing: Stage | None = None
        self.retries = Retries(row.next_due_at)
        self._reader = FreshReader(row.topic, row.cursor, self._equipment.segments)
        self._flights: dict[Flight, None] = {}
        self._on_wire: dict[Identity, Flight] = {}
        self._answers: deque[tuple[Flight, Outcome]] = deque()
        self._bytes_under_way = 0
        self._probe: Flight | None = None
        self._parked_turn = False
        self._lazy_since: int | None = None
        self.wants_parked = False
        self.wants_review = False

    # What the dispatcher asks.

    @property
    def wants_position(self) -> int | None:
        """The position of the log that must be loaded before this lane can go on."""
        return self._reader.wants

    @property
    def end(self) -> int:
        """The last position that this lane may read."""
        end = self._equipment.segments.ends.get(self.row.topic, 0)
        deleted = self.subscription.deleted_position
        return end if deleted is None else min(end, deleted)

    @property
    def under_way(self) -> int:
        """How many requests are open and within their 30 seconds."""
        return len(self._flights)

    @property
    def busy(self) -> int:
        """How many deliveries with a row in the ledger are on the wire or not yet settled."""
        return len(self._busy())

    def at_tail(self, end: int) -> bool:
        """True when this lane will want what follows position `end` at once."""
        return self._reader.place[0] == end + 1 and not self.hold.on

    def has_work(self) -> bool:
        """True when something is unread, parked, under way or not yet settled."""
        return self.stopped is None and bool(
            self._flights
            or self.stage.pressing
            or self.committing
            or self.retries.next_at is not None
            or len(self.retries)
            or self.retries.fetching
            or not self._reader.caught_up(self.end)
        )

    def next_instant(self, now: int) -> int | None:
        """When this lane must be stepped even if nothing happens before."""
        instants = [flight.sent_at + limits.ANSWER_WAIT_NS for flight in list(self._flights)[:1]]
        if self.hold.holds(now) and self.has_work():
            instants.append(self.hold.until)
        elif self.retries.next_at is not None and not self.retries.fetching and not len(self.retries):
            instants.append(self.retries.next_at)
        if self._lazy_since is not None:
            instants.append(self._lazy_since + LAZY_SAVE_NS)
        return min(instants, default=None)

    def wants_due(self, now: int) -> bool:
        """True when parked deliveries should be fetched from the ledger."""
        active = self.stopped is None and self.subscription.deleted_position is None
        return active and not self.hold.holds(now) and self.retries.wants_fetch(now)

    def must_commit(self, now: int) -> bool:
        """True when the stage should be settled: something happened, or the cursor moved a while ago."""
        if self.committing is not None or self.stage.empty:
            return False
        if self.stage.pressing or (self._lazy_since is not None and now >= self._lazy_since + LAZY_SAVE_NS):
            return True
        if self._lazy_since is None:
            self._lazy_since = now
        return False

    # What the dispatcher tells.

    def wake(self) -> None:
        """Be stepped soon."""
        self._wake(self)

    def stop(self, reason: str) -> None:
        """Stop loudly: going on could deliver something wrong or lose something."""
        self.abandon_flights()
        self.stopped = reason
        self._equipment.journal(
            "lane.stopped", subscription=self.subscription.name, lane=self.row.id, place=self._reader.place, why=reason
        )

    def reload(self, row: store.Lane) -> None:
        """Begin again from what is stored: a commit failed, and nobody knows what of it is there."""
        self.abandon_flights()
        self._load_row(row)
        self.wake()

    def abandon_flights(self) -> list[Flight]:
        """Cut everything under way."""
        flights = list(self._flights)
        for flight in flights:
            self._equipment.slots.give_back(flight.size)
            if flight.exchange is not None:
                flight.exchange.abort()
        self._flights.clear()
        self._bytes_under_way = 0
        self._on_wire.clear()
        self._answers.clear()
        self._probe = None
        return flights

    def begin_commit(self) -> store.Settlement:
        """Hand over the stage; a new one gathers what happens while the commit runs."""
        settlement = self.stage.settlement(self.row, self.hold)
        self.committing, self.stage = self.stage, Stage()
        self._lazy_since = None
        return settlement

    def end_commit(self, settlement: store.Settlement) -> None:
        """The settlement is stored."""
        assert self.committing is not None
        self._matched += settlement.matched
        self._passed += settlement.matched + settlement.unmatched
        self.row = msgspec.structs.replace(
            self.row,
            version=settlement.version + 1,
            cursor=settlement.cursor,
            hold=settlement.hold,
            ended=settlement.ended,
        )
        self.retries.settled(self.committing.identities(), settlement.park)
        self.committing = None
        self.wake()

    def fetched(self, due: store.Due) -> None:
        """Due deliveries came from the ledger."""
        self.retries.queue(self.retries.end_fetch(due, self._busy()))
        self.wake()

    def fetched_parked(self, rows: list[Parked]) -> None:
        """Parked deliveries of a deleted subscription came from the ledger: they are dropped."""
        self.wants_parked = False
        for row in rows:
            self.stage.drop(row.delivery.identity, SUBSCRIPTION_DELETED)
        if not rows:
            self.wants_review = True
        self.wake()

    def reviewed(self, row: store.Lane | None) -> None:
        """The stored books of a deleted subscription: when nothing is pending any more, the lane ends."""
        self.wants_review = False
        if row is not None and not row.counts.pending:
            self.stage.ended = True
            self.wake()

    # One step.

    def step(self, now: int) -> None:
        """Take the answers, give up on what took too long, and send what may be sent."""
        while self._answers:
            flight, outcome = self._answers.popleft()
            self._answered(flight, outcome, now)
        self._time_out(now)
        if self.stopped is not None or self.row.ended:
            return
        if self.subscription.deleted_position is not None:
            self._wind_up()
        elif not self.hold.holds(now):
            self._send(now)
        elif self._sparse:
            self._read_ahead(now)

    def _send(self, now: int) -> None:
        probing = self.hold.on
        for _ in range(SENDS_PER_STEP):
            if not self._may_send(probing):
                return
            load = self._next_load(now)
            if load is None:
                return
            self._launch(load, now, probing)
        self.wake()

    def _may_send(self, probing: bool) -> bool:
        if probing and (self._probe is not None or self.retries.fetching):
            return False
        unsettled = len(self._flights) + self.stage.flights + (self.committing.flights if self.committing else 0)
        if unsettled >= self._window.size and not probing:
            return False
        if self._bytes_under_way >= limits.WINDOW_BYTES:
            return False
        if not self._equipment.slots.free(self._responsive):
            self._equipment.slots.wait(self)
            return False
        return True

    def _next_load(self, now: int) -> Load | None:
        """Fresh and parked batches alternate. A probe waits until what expired during the hold is buried."""
        parked_first = self._parked_turn or self.hold.on
        takes = (self._take_parked, self._take_fresh) if parked_first else (self._take_fresh, self._take_parked)
        for take in takes:
            load = take(now)
            if load is not None:
                self._parked_turn = load.fresh
                return load
            if self.hold.on and self.retries.wants_fetch(now):
                return None
        return None

    def _take_fresh(self, now: int) -> Load | None:
        batching, policy = self.subscription.batching, self.subscription.retry_policy
        terms = Terms(batching.event_limit, batching.byte_limit, now - policy.ttl_ns)
        while not self._stage_full():
            taken = self._reader.take(self.subscription, self.end, terms)
            if taken is None:
                return None
            load, too_old = taken
            if load.events and not too_old:
                return load
            self._pass(load)
            for delivery in load.deliveries():
                self._give_up(delivery, TTL_EXCEEDED, now, fresh=True)
        return None

    def _take_parked(self, now: int) -> Load | None:
        batching, policy = self.subscription.batching, self.subscription.retry_policy
        while rows := self.retries.take(batching.event_limit, batching.byte_limit):
            living = [row for row in rows if not expired(row.delivery, policy, now)]
            if len(living) < len(rows):
                for row in rows:
                    if expired(row.delivery, policy, now):
                        self._give_up(row.delivery, TTL_EXCEEDED, now, fresh=False)
            if living:
                return Load(parked=[skip(self.profile.schedule, policy, row, now) for row in living])
        return None

    def _launch(self, load: Load, now: int, probing: bool) -> None:
        batch = load.batch(self.subscription.name, f"{self.row.log_id}/{self.row.topic}".encode())
        flight = Flight(load, len(batch.body), now, probing)
        if probing:
            self._probe = flight
        self._flights[flight] = None
        self._bytes_under_way += flight.size
        self._equipment.slots.take(flight.size)
        if not load.fresh:
            self._on_wire.update((delivery.identity, flight) for delivery in load.deliveries())
        flight.exchange = self._equipment.sender.send(
            self.subscription.destination, batch, partial(self._answer, flight)
        )

    # What comes back.

    def _answer(self, flight: Flight, outcome: Outcome) -> None:
        self._answers.append((flight, outcome))
        self.wake()

    def _answered(self, flight: Flight, outcome: Outcome, now: int) -> None:
        if flight.late:
            self._answered_late(flight, outcome, now)
        elif flight in self._flights:
            self._responsive = now - flight.sent_at < RESPONSIVE_NS
            self._conclude(flight, outcome, now)

    def _time_out(self, now: int) -> None:
        while self._flights:
            oldest = next(iter(self._flights))
            if oldest.sent_at + limits.ANSWER_WAIT_NS > now:
                return
            self._responsive = False
            self._conclude(oldest, Outcome(Result.TIMED_OUT, detail="no answer within 30 seconds"), now)
            oldest.late = True
            self._equipment.late.add(oldest)

    def _conclude(self, flight: Flight, outcome: Outcome, now: int) -> None:
        del self._flights[flight]
        self._bytes_under_way -= flight.size
        self._equipment.slots.give_back(flight.size)
        self.stage.flights += 1
        probe = flight is self._probe
        if probe:
            self._probe = None
        if succeeded(self.profile, outcome):
            self._delivered(flight)
        else:
            self._failed(flight, outcome, now, probe)

    def _delivered(self, flight: Flight) -> None:
        if self.hold.on:
            self._window.restart()
        else:
            self._window.succeeded()
        self._clear_hold()
        load = flight.load
        if load.fresh:
            self._pass(load)
            self.stage.delivered(load.events)
            return
        for delivery in load.deliveries():
            self._on_wire.pop(delivery.identity, None)
            if delivery.identity not in flight.settled:
                self.stage.finish(delivery.identity)

    def _failed(self, flight: Flight, outcome: Outcome, now: int, probe: bool) -> None:
        self._window.failed()
        was_on = self.hold.on
        self.hold = after_failure(self.hold, self.profile.delayed_delivery, outcome.failure, now, probe)
        self.stage.hold_changed = True
        self._journal_failure(flight, outcome, now, held=self.hold.on and (probe or not was_on))
        if flight.load.fresh:
            self._pass(flight.load)
        for delivery in flight.load.deliveries():
            self._on_wire.pop(delivery.identity, None)
            if delivery.identity not in flight.settled:
                self._dispose(attempted(delivery, outcome, flight.sent_at), outcome, now, flight.load.fresh)

    def _dispose(self, delivery: Delivery, outcome: Outcome, now: int, fresh: bool) -> None:
        subscription = self.subscription
        disposition = decide(
            self.profile,
            subscription.destination.endpoint_kind,
            subscription.retry_policy,
            subscription.dead_letter is not None,
            delivery,
            outcome,
            now,
            self._equipment.random(),
        )
        match disposition:
            case RetryAt(due_at):
                self.stage.park(Parked(due_at, delivery), fresh)
            case Dead(reason):
                self._give_up(delivery, reason, now, fresh)
            case Done():
                raise AssertionError("a failed attempt can not be done")

    def _answered_late(self, flight: Flight, outcome: Outcome, now: int) -> None:
        """A success settles the delivery whichever attempt it answers; a late failure changes nothing."""
        self._equipment.late.remove(flight)
        if self.stopped is not None or self.row.ended or not succeeded(self.profile, outcome):
            return
        if now - flight.sent_at > limits.LATE_ANSWER_WAIT_NS:
            return
        self._clear_hold()
        for delivery in flight.load.deliveries():
            identity = delivery.identity
            if identity in self._on_wire:
                self._on_wire[identity].settled.add(identity)
            self.retries.discard(identity)
            self.stage.finish(identity)

    # Small parts.

    @property
    def _sparse(self) -> bool:
        """A filter that takes less than 1 event in 16: held, it keeps reading, so that it does not pin the log."""
        return self._matched * limits.SPARSE_FILTER < self._passed

    def _read_ahead(self, now: int) -> None:
        terms = Terms(limits.PARKED_SLICE, limits.WINDOW_BYTES, -1)
        while not self._stage_full():
            taken = self._reader.take(self.subscription, self.end, terms)
            if taken is None:
                return
            self._pass(taken.load)
            for delivery in taken.load.deliveries():
                self.stage.park(Parked(now, delivery), fresh=True)

    def _wind_up(self) -> None:
        """The subscription is deleted: what is under way is cancelled, and all that is left is dropped and counted."""
        for flight in self.abandon_flights():
            self._drop(flight.load)
        terms = Terms(limits.PARKED_SLICE, limits.WINDOW_BYTES, -1)
        while not self._stage_full():
            taken = self._reader.take(self.subscription, self.end, terms)
            if taken is None:
                break
            self._drop(taken.load)
        caught_up = self._reader.caught_up(min(self.end, self.subscription.deleted_position or 0))
        settled = self.stage.empty and self.committing is None and not self.retries.fetching
        if caught_up and settled and not self.wants_review:
            self.wants_parked = True

    def _drop(self, load: Load) -> None:
        if load.fresh:
            self._pass(load)
        for delivery in load.deliveries():
            self.stage.drop(delivery.identity, SUBSCRIPTION_DELETED)

    def _pass(self, load: Load) -> None:
        assert load.span is not None
        self.stage.passed(load.span, load.events, load.unmatched)

    def _give_up(self, delivery: Delivery, reason: str, now: int, fresh: bool) -> None:
        destination = self.subscription.dead_letter
        self._equipment.journal(
            "delivery.given_up",
            subscription=self.subscription.name,
            position=delivery.identity.position,
            offset=delivery.identity.offset,
            reason=reason,
            attempts=delivery.attempts,
            dead_letter=destination is not None,
        )
        if destination is None:
            self.stage.drop(delivery.identity, reason)
            return
        last = delivery.last_attempt_at
        write_at = now if last is None else max(now, last + self.profile.dead_letter.delay_s * SECOND)
        record = deadletter.record(delivery, reason, self._equipment.extra_fields)
        self.stage.bury(store.Burial(delivery.identity, write_at, destination.container, record), fresh)

    def _clear_hold(self) -> None:
        if self.hold != CLEAR:
            self.hold = CLEAR
            self.stage.hold_changed = True

    def _stage_full(self) -> bool:
        """True when so much waits for a commit that no more may be gathered."""
        return self.stage.rows + (self.committing.rows if self.committing else 0) >= limits.PARKED_SLICE

    def _busy(self) -> set[Identity]:
        busy = set(self._on_wire)
        busy.update(self.stage.identities())
        if self.committing is not None:
            busy.update(self.committing.identities())
        return busy

    def _journal_failure(self, flight: Flight, outcome: Outcome, now: int, held: bool) -> None:
        self._equipment.journal(
            "delivery.failed",
            subscription=self.subscription.name,
            events=flight.load.events,
            outcome=outcome.failure,
            status=outcome.status,
            took_ms=(now - flight.sent_at) // 1_000_000,
            failures=self.hold.failures,
            held_s=self.hold.period // SECOND if held else None,
            detail=outcome.detail,
        )
