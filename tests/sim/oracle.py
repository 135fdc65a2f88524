"""The oracle: what truly happened, seen at the contracts and nowhere else.

It sees every call of the stores at the instant at which it takes effect, and every request, answer and abort. It keeps
the facts and hands them to the checkers; what is wrong is noted as a violation, and ends the history.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any

import msgspec

from recapito.domain.delivery import Identity
from recapito.domain.filter import matches
from recapito.domain.hold import CLEAR
from recapito.domain.instant import SECOND
from recapito.domain.profile import Profile, load
from recapito.domain.subscription import Subscription
from recapito.domain.topic import Topic
from recapito.store import Due, Group, Lane, NewSegment, Settlement
from tests.sim import attempts, settlements
from tests.sim.books import Books, Owed, State
from tests.sim.clock import SimClock
from tests.sim.endpoints import Arrival, ArrivedEvent
from tests.sim.held import HoldWatch
from tests.sim.publication import Published

SUSPENSION_NOTICED_NS = 15 * SECOND

_decode = msgspec.json.Decoder(list[ArrivedEvent]).decode


@dataclass
class Violation:
    """An invariant that does not hold, and about what."""

    invariant: str
    message: str
    at: int
    lane: int | None = None
    event: str | None = None

    def __str__(self) -> str:
        about = "".join((f" lane {self.lane}" if self.lane else "", f" event {self.event}" if self.event else ""))
        return f"{self.invariant}{about}: {self.message}"


@dataclass(eq=False)
class Watched:
    """One subscription and its lane, as the oracle knows them. `epoch` changes whenever its lane loses its memory."""

    id: int
    topic: int
    books: Books
    versions: list[Subscription] = field(default_factory=list)
    acknowledged: dict[int, int] = field(default_factory=dict)  # version -> when its put was answered
    hold: HoldWatch = field(default_factory=HoldWatch)
    deleted_at: int | None = None
    epoch: int = 0
    unsure: bool = False  # a commit of it failed, and it has not begun again yet
    settling_since: int = 0
    attempts: dict[tuple[Identity, int], Arrival] = field(default_factory=dict)

    @property
    def now(self) -> Subscription:
        """The subscription as it was last put."""
        return self.versions[-1]


class Oracle:
    """Sees everything. `on_violation` is called at the first thing that is wrong."""

    def __init__(self, clock: SimClock, time_s: Callable[[], float], default_profile: str) -> None:
        self.clock = clock
        self.time_s = time_s
        self.violations: list[Violation] = []
        self.trace: list[tuple[Any, ...]] = []
        self.published: dict[str, Published] = {}
        self.publishes: dict[int, list[Published]] = {}
        self.appended: dict[str, Identity] = {}
        self.topics: dict[int, Topic] = {}
        self.lanes: dict[int, Watched] = {}
        self.lane_of_url: dict[str, Watched] = {}
        self.requests_of: Counter[int] = Counter()
        self.duplicates = 0
        self.life = 0
        self.disturbed_s = 0.0
        self.late_limited = False
        self.slots_limited = False
        self.vault_files: dict[tuple[str, str], bytes] = {}
        self.keep_for_ever = False
        self.always_healthy: set[int] = set()
        self._containers: dict[str, float] = {}
        self.on_violation: Callable[[], None] = lambda: None
        self._default_profile = default_profile

    # Notes.

    def note(self, what: str, *fields: Any) -> None:
        """Remember one thing that happened."""
        self.trace.append((self.clock.now(), what, *fields))

    def fail(
        self, invariant: str, message: str, lane: int | None = None, owed: Owed | None = None, event: str | None = None
    ) -> None:
        """An invariant does not hold."""
        if owed is not None:
            event = owed.event.id
        self.violations.append(Violation(invariant, message, self.clock.now(), lane, event))
        self.note("VIOLATION", lane, event, invariant, message)
        self.on_violation()

    def disturb(self) -> None:
        """Something happened after which nothing can be expected to be quick for a while."""
        self.disturbed_s = self.time_s()

    def container_lost(self, container: str) -> None:
        """A container of the vault is out of reach from now on."""
        self._containers[container] = inf

    def container_back(self, container: str) -> None:
        """It is within reach again."""
        self._containers[container] = self.time_s()

    def container_up(self, container: str, seconds: float) -> bool:
        """True when a container has not been out of reach for so long."""
        return container not in self._containers or self.time_s() - self._containers[container] > seconds

    def calm(self, seconds: float) -> bool:
        """True when nothing has disturbed the service for so long."""
        return self.time_s() - self.disturbed_s > seconds

    def profile_of(self, topic: int) -> Profile:
        """The behaviour profile of a topic."""
        return load(self.topics[topic].profile or self._default_profile)

    # Publishers.

    def publishing(self, events: list[Published]) -> None:
        """A publisher is about to send these."""
        self.publishes[events[0].publish] = events
        self.published.update((event.id, event) for event in events)

    def acknowledged(self, events: list[Published]) -> None:
        """The publisher got its 200."""
        self.note("acknowledged", events[0].topic, events[0].publish, len(events))
        for event in events:
            event.acknowledged_at = self.clock.now()
            if event.id not in self.appended:
                self.fail("I3", "was acknowledged and is not stored", event=event.id)

    # Stores: what the Observer contract asks for.

    def called(self, verb: str, args: tuple[Any, ...]) -> None:
        if verb != "settle":
            return
        for settlement in args[0]:
            lane = self.lanes[settlement.lane]
            lane.settling_since = self.clock.now()
            if lane.deleted_at is None:
                wrong = lane.hold.settled(self.profile_of(lane.topic), settlement.hold, self.clock.now())
                if wrong:
                    self.fail("hold", wrong, lane=lane.id)

    async def done(self, store: Any, verb: str, args: tuple[Any, ...], result: Any) -> None:
        """Hand what happened to the method `_<verb>`, if there is one."""
        witness = getattr(self, f"_{verb}", None)
        if witness is not None:
            await witness(store, result, *args)

    def returned(self, verb: str, args: tuple[Any, ...], error: bool) -> None:
        if error:
            self.disturb()
            if verb == "settle":
                for settlement in args[0]:
                    self.lanes[settlement.lane].unsure = True
        elif verb == "lane" and self.lanes[args[0]].unsure:
            self._begin_again(self.lanes[args[0]])

    def _begin_again(self, lane: Watched) -> None:
        lane.unsure = False
        lane.epoch += 1
        self.note("reloaded", lane.id)
        if lane.books.last_row is not None:
            lane.hold.start(lane.books.last_row.hold)

    # The log and the registry.

    async def _append(self, log: Any, positions: list[int], segments: Sequence[NewSegment]) -> None:
        for segment, position in zip(segments, positions, strict=True):
            events = _decode(b"[" + segment.body + b"]")
            self.note("appended", segment.topic, position, len(events))
            self._check_whole(events)
            stored = await log.read(segment.topic, position, 1)
            if not stored or (stored[0].position, stored[0].body) != (position, segment.body):
                self.fail("I3", f"position {position} of topic {segment.topic} is not what was appended")
            for offset, event in enumerate(events):
                self._append_event(segment.topic, Identity(position, offset), event.id)

    def _check_whole(self, events: list[ArrivedEvent]) -> None:
        """A publish is stored whole, in one segment (I4), and once."""
        ids = {event.id for event in events}
        if len(ids) < len(events) or any(id in self.appended for id in ids):
            self.fail("I4", "an event was appended twice", event=events[0].id)
        for publish in {self.published[id].publish for id in ids if id in self.published}:
            if not all(event.id in ids for event in self.publishes[publish]):
                self.fail("I4", f"publish {publish} was stored in part", event=events[0].id)

    def _append_event(self, topic: int, identity: Identity, id: str) -> None:
        event = self.published.get(id)
        if event is None:
            self.fail("I6", "was appended and never published", event=id)
            return
        event.appended_s = self.time_s()
        self.appended[id] = identity
        for lane in self.lanes.values():
            if lane.topic == topic and lane.deleted_at is None:
                taken = matches(lane.now.filter, event.type, event.subject)
                lane.books.add(identity, event, taken)

    async def _put_topic(self, log: Any, stored: Topic, topic: Topic) -> None:
        self.topics[stored.id] = stored
        self.note("topic", stored.id, stored.name, stored.profile)

    async def _delete_topic(self, log: Any, result: None, id: int) -> None:
        self.note("topic deleted", id)
        for lane in self.lanes.values():
            if lane.topic == id and lane.deleted_at is None:
                lane.deleted_at = self.clock.now()

    async def _put_subscription(self, log: Any, stored: Subscription, subscription: Subscription) -> None:
        lane = self.lanes.get(stored.id)
        if lane is None:
            lane = self.lanes[stored.id] = Watched(
                stored.id, stored.topic, Books(stored.id, stored.created_position, self.fail)
            )
        lane.versions.append(stored)
        self.lane_of_url[stored.destination.url] = lane
        self.note("subscription", stored.id, stored.topic, stored.name, stored.version)

    async def _delete_subscription(self, log: Any, result: None, id: int) -> None:
        self.note("subscription deleted", id)
        self.lanes[id].deleted_at = self.clock.now()

    async def _forget(self, log: Any, result: None, id: int) -> None:
        self.note("subscription forgotten", id)
        lane = self.lanes[id]
        if not lane.books.ended:
            self.fail("I2", "was forgotten before its lane had ended", lane=id)

    async def _trim(self, log: Any, count: int, topic: int, below: int) -> None:
        if not count:
            return
        self.note("trimmed", topic, below, count)
        for lane in self.lanes.values():
            if lane.topic == topic and not lane.books.ended and below > lane.books.cursor.low[0]:
                self.fail("I2", f"topic {topic} was trimmed below {below}", lane=lane.id)

    # The ledger.

    async def _open_lane(self, ledger: Any, row: Lane, id: int, topic: int, log_id: str, position: int) -> None:
        lane = self.lanes[id]
        lane.books.compare(row)
        lane.hold.start(row.hold)

    async def _close_lane(self, ledger: Any, result: None, id: int) -> None:
        if id in self.lanes and not self.lanes[id].books.ended and await ledger.lane(id) is None:
            self.fail("I2", "its lane was closed before it had ended", lane=id)

    async def _lane(self, ledger: Any, row: Lane | None, id: int) -> None:
        if row is not None:
            self.lanes[id].books.compare(row)

    async def _settle(self, ledger: Any, result: None, batch: Sequence[Settlement]) -> None:
        for settlement in batch:
            lane = self.lanes[settlement.lane]
            touched = lane.books.settle(settlement)
            lane.books.compare(await ledger.lane(lane.id))
            settlements.check(self, lane, touched)
            self.note("settled", lane.id, settlement.version, settlement.cursor.low, len(touched))

    async def _due(self, ledger: Any, due: Due, id: int, now: int, limit: int, at_least: int = 1) -> None:
        settlements.check_due(self, self.lanes[id], due, now, limit)

    async def _name_group(self, ledger: Any, result: None, group: Group, path: str, tried_at: int) -> None:
        settlements.check_named(self, self.lanes[group.lane], self.lanes[group.lane].books.name(group, path, tried_at))

    async def _written(self, ledger: Any, result: None, id: int, path: str) -> None:
        lane = self.lanes[id]
        members = lane.books.close_group(path, State.DEAD_LETTERED)
        self.note("written", id, path, len(members))
        settlements.check_written(self, lane, path, members)
        lane.books.compare(await ledger.lane(id))

    async def _abandon(self, ledger: Any, result: None, id: int, path: str, reason: str) -> None:
        lane = self.lanes[id]
        members = lane.books.close_group(path, State.DROPPED, reason)
        self.note("abandoned", id, path, reason, len(members))
        settlements.check_abandoned(self, lane, members, reason)
        lane.books.compare(await ledger.lane(id))

    # The network: what the Onlooker contract asks for.

    def arrived(self, arrival: Arrival) -> None:
        lane = self.lane_of_url.get(arrival.url)
        if lane is None:
            self.fail("I6", f"{arrival.url} was never a destination")
            return
        arrival.lane = lane.id
        self.requests_of[lane.id] += 1
        attempts.check_arrival(self, lane, arrival)

    def heard(self, arrival: Arrival) -> None:
        lane = self.lanes[arrival.lane]
        assert arrival.outcome is not None
        self.note("heard", lane.id, arrival.outcome.status or arrival.outcome.result, *(e.id for e in arrival.events))
        attempts.check_answer(self, lane, arrival)

    def aborted(self, arrival: Arrival) -> None:
        self.note("aborted", arrival.lane, *(event.id for event in arrival.events))
        attempts.check_abort(self, self.lanes[arrival.lane], arrival)

    # The machine.

    def dispatch_started(self, life: int) -> None:
        """A new life of the dispatch role begins."""
        self.life = life
        self.disturb()
        self.note("dispatch starts", life)
        for lane in self.lanes.values():
            lane.hold.start(lane.books.last_row.hold if lane.books.last_row else CLEAR)

    def dispatch_died(self) -> None:
        """All lanes lose their memory."""
        self.disturb()
        self.note("dispatch ends")
        for lane in self.lanes.values():
            lane.epoch += 1
            lane.unsure = False

    def suspended(self) -> None:
        """Time jumped: time-outs come in an order that nobody knows."""
        self.disturb()
        self.note("suspended")
        for lane in self.lanes.values():
            lane.hold.distrust(self.clock.now() + SUSPENSION_NOTICED_NS)
