"""The oracle: what truly happened, seen at the contracts and nowhere else.

It keeps the facts and hands them to the checkers; what is wrong is noted as a violation, and ends the history. What
happens to the stores is seen by its Witness.
"""

from collections import Counter
from collections.abc import Callable
from math import inf
from typing import Any

from recapito.domain.delivery.delivery import DeliveryId, in_force
from recapito.domain.delivery.hold import CLEAR, rules_for
from recapito.domain.profiles.profile import DelayedDelivery, Profile, load
from recapito.domain.resources.subscription import RetryPolicy
from recapito.domain.resources.topic import Topic
from tests.sim import attempts
from tests.sim.books import Owed
from tests.sim.clock import SimClock
from tests.sim.endpoints import Arrival
from tests.sim.facts import NOTICED_NS, Refusal, Violation, Watched
from tests.sim.publication import Published


class Oracle:
    """Sees everything. `on_violation` is called at the first thing that is wrong."""

    def __init__(self, clock: SimClock, time_s: Callable[[], float], default_profile: str) -> None:
        self.clock = clock
        self.time_s = time_s
        self.violations: list[Violation] = []
        self.trace: list[tuple[Any, ...]] = []
        self.published: dict[str, Published] = {}
        self.publishes: dict[int, list[Published]] = {}
        self.appended: dict[str, DeliveryId] = {}
        self.topics: dict[int, Topic] = {}
        self.lanes: dict[int, Watched] = {}
        self.lane_of_url: dict[str, Watched] = {}
        self.requests_of: Counter[int] = Counter()
        self.duplicates = 0
        self.renewals = 0  # of lanes whose row was damaged
        self.documents: list[tuple[str, str]] = []
        self.rotten: set[tuple[str, object]] = set()  # records of the registry that are damaged now
        self.page_damaged = False
        self.life = 0
        self.disturbed_s = 0.0
        self.late_limited = False
        self.slots_limited = False
        self.vault_files: dict[tuple[str, str], bytes] = {}
        self.redriven: Counter[tuple[str, str]] = Counter()  # (file, event)
        self.keep_for_ever = False
        self.keeps_log = False  # below all cursors, for replays
        self.always_healthy: set[int] = set()
        self.picky: dict[int, Refusal] = {}  # lanes whose endpoint refuses some events for good, and no others
        self.watches_holds = True  # False: that nothing starves must be seen by `liveness` alone
        self._containers: dict[str, float] = {}
        self.on_violation: Callable[[], None] = lambda: None
        self._default_profile = default_profile

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

    def owed(self, lane: Watched, id: str) -> Owed | None:
        """The delivery of an event to a subscription, the newest if it was repeated; None if it is not owed."""
        identity = lane.repeated.get(id) or self.appended.get(id)
        return None if identity is None else lane.books.owed.get(identity)

    def profile_of(self, topic: int) -> Profile:
        """The behaviour profile of a topic."""
        return load(self.topics[topic].profile or self._default_profile)

    def policies_of(self, lane: Watched) -> list[RetryPolicy]:
        """The retry policies that a lane has had, with the limits that were in force."""
        profile = self.profile_of(lane.topic)
        return [in_force(profile, version.retry_policy) for version in lane.versions]

    def rules_of(self, lane: Watched) -> DelayedDelivery | None:
        """The rules under which a lane is held."""
        return rules_for(self.profile_of(lane.topic), lane.now.retry_policy)

    # What publishers know.

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

    def refused(self, events: list[Published]) -> None:
        """The publisher got a 503 that promises that nothing was stored."""
        self.note("refused", events[0].topic, events[0].publish, len(events))
        for event in events:
            event.refused = True
            if event.id in self.appended:
                self.fail("refused", "was refused and is stored", event=event.id)

    # What happens to the disk.

    def spoilt_entry(self, topic: int, position: int) -> None:
        """An entry of a topic's log was damaged."""
        self.note("fault", "damaged entry", topic, position)
        here = [(at, self.published[id]) for id, at in self.appended.items() if at.position == position]
        events = {at: event for at, event in here if event.topic == topic}  # positions are a topic's own
        lanes = [lane for lane in self.lanes.values() if lane.topic == topic]
        for lane in lanes:  # an event that was redriven is owed to one lane, and passed by all
            events |= {at: owed.event for at, owed in lane.books.owed.items() if at.position == position}
        for lane in lanes:
            lane.books.spoil(events)

    def spoilt_row(self, lane: Watched, identity: DeliveryId) -> None:
        """The row of a delivery was damaged in the ledger."""
        self.note("fault", "damaged row", lane.id, *identity)
        lane.books.spoilt_rows.add(identity)

    def spoilt_lane(self, lane: Watched, part: str) -> None:
        """The row of a lane was damaged in the ledger."""
        self.note("fault", "damaged lane", lane.id, part)
        lane.rotten = True

    def spoilt_record(self, table: str, id: object) -> None:
        """A record of the registry was damaged: lanes that need it may stop until a backup is restored."""
        self.note("fault", "damaged record", table, id)
        self.rotten.add((table, id))
        for lane in self.lanes.values():
            lane.halted = lane.halted or id == {"topic": lane.topic, "subscription": lane.id}.get(table)

    def restored(self) -> None:
        """All records are whole again."""
        self.note("restored")
        self.disturb()
        self.rotten.clear()

    def may_stop(self, lane: int) -> bool:
        """Whether a lane cannot know what to do: its record, or its topic's, is damaged, or a page of a file."""
        return (
            self.page_damaged
            or ("subscription", lane) in self.rotten
            or ("topic", self.lanes[lane].topic) in self.rotten
        )

    # What goes over the network.

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

    # What the machine does.

    def dispatch_started(self, life: int) -> None:
        """A new life of the dispatch role begins."""
        self.life = life
        self.disturb()
        self.note("dispatch starts", life)
        for lane in self.lanes.values():
            lane.start_hold(lane.books.last_row.hold if lane.books.last_row else CLEAR, self.clock.now())

    def dispatch_died(self) -> None:
        """All lanes lose their memory."""
        self.disturb()
        self.note("dispatch ends")
        for lane in self.lanes.values():
            lane.epoch += 1
            lane.blocked = None

    def intake_started(self) -> None:
        """Dispatch sees from now on the changes that the last life stored and did not ring for."""
        self.disturb()
        for lane in self.lanes.values():
            if lane.now.version not in lane.acknowledged:
                lane.hold.distrust(self.clock.now() + NOTICED_NS)

    def suspended(self) -> None:
        """Time jumped: the order of time-outs is unknown."""
        self.disturb()
        self.note("suspended")
        for lane in self.lanes.values():
            lane.hold.distrust(self.clock.now() + NOTICED_NS)
