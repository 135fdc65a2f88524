"""The oracle's own books of one lane: for every event of the topic, what has become of it for this subscription.

They are kept from the settlements alone, by the words of the Ledger's contract, one delivery at a time; what the store
says about its counts must be the same after every commit.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from heapq import heappop, heappush
from typing import NamedTuple

from recapito.contracts.ledger import Burial, DeadLetterGroup, LaneRow, Settlement
from recapito.domain.delivery.cursor import Cursor, LogPosition
from recapito.domain.delivery.delivery import CORRUPT, DeliveryId, Parked
from tests.sim.endpoints import Arrival
from tests.sim.publication import Published


class State(StrEnum):
    """Where a delivery is. The last three are forever."""

    UNREAD = "unread"
    PARKED = "parked"
    BURIED = "buried"
    NAMED = "named"
    DELIVERED = "delivered"
    DEAD_LETTERED = "dead-lettered"
    DROPPED = "dropped"


TERMINAL = frozenset({State.DELIVERED, State.DEAD_LETTERED, State.DROPPED})
Fail = Callable[..., None]


@dataclass(eq=False)
class Owed:
    """One event that is owed to one subscription: the delivery, as the oracle knows it."""

    identity: DeliveryId
    event: Published
    state: State = State.UNREAD
    parked: Parked | None = None
    burial: Burial | None = None
    path: str | None = None
    named_at: int | None = None
    reason: str | None = None
    arrivals: list[Arrival] = field(default_factory=list)
    successes: list[Arrival] = field(default_factory=list)
    success_epoch: int | None = None
    success_at: int = 0
    lost_attempts: int = 0
    again: bool = False  # its lane began again, and reads it once more

    @property
    def terminal(self) -> bool:
        """True when nothing may happen to it any more."""
        return self.state in TERMINAL


class Touched(NamedTuple):
    """A delivery that a settlement changed, with what it was before."""

    owed: Owed
    state: State
    parked: Parked | None

    @property
    def attempts(self) -> int:
        """Attempts that were settled before."""
        return self.parked.delivery.attempts if self.parked else 0


class Books:
    """The books of one lane. `fail` is told what is wrong, by invariant."""

    def __init__(self, lane: int, position: int, fail: Fail) -> None:
        self.lane = lane
        self.owed: dict[DeliveryId, Owed] = {}
        self.cursor = Cursor((position, 0))
        self.ended = False
        self.last_row: LaneRow | None = None
        self.unmatched = 0
        self.parked: dict[DeliveryId, Parked] = {}
        self._by_due: list[tuple[int, DeliveryId]] = []
        self.states: Counter[State] = Counter()
        self.reasons: Counter[str] = Counter()
        self._seen: dict[DeliveryId, tuple[Published, bool]] = {}  # all events, and whether the filter takes them
        self._unread: dict[DeliveryId, Owed | None] = {}  # None: an event that the filter does not take
        self._spoilt: dict[DeliveryId, Published] = {}  # damaged in the log
        self.spoilt_rows: set[DeliveryId] = set()  # parked or buried, and damaged in the ledger
        self.lost: dict[DeliveryId, Owed] = {}  # given up because they were damaged
        self.before: list[Owed] = []  # deliveries that books had which a damaged row has ended
        self._set_aside: set[DeliveryId] = set()
        self._fail = fail

    def add(self, identity: DeliveryId, event: Published, matched: bool) -> None:
        """An event was appended to the topic after this subscription began."""
        self._seen[identity] = (event, matched)
        self._await(identity, Owed(identity, event) if matched else None)

    def _await(self, identity: DeliveryId, owed: Owed | None) -> None:
        self._unread[identity] = owed
        if owed is not None:
            self.owed[identity] = owed
            self.states[State.UNREAD] += 1

    def renew(self, position: int) -> None:
        """The row was damaged, and begins again at a position: what waits before stays, the rest is read once more."""
        if position > self.cursor.low[0] and not self.ended:  # what an ended lane had is trimmed
            said = f"begins again at {position}, and had read up to {self.cursor.low}"
            self._fail("I2", said, lane=self.lane)
        waiting = (State.PARKED, State.BURIED, State.NAMED)
        staying = {i: owed for i, owed in self.owed.items() if i.position < position and owed.state in waiting}
        for identity, owed in self.owed.items():
            if identity not in staying:
                self._end_before(owed)
        self.owed, self.states, self._unread = staying, Counter(owed.state for owed in staying.values()), {}
        self.parked = {identity: row for identity, row in self.parked.items() if identity in staying}
        self._by_due = sorted((row.due_at, identity) for identity, row in self.parked.items())
        self.spoilt_rows &= staying.keys()
        self._set_aside = {identity for identity in self._set_aside if identity.position < position}
        self.reasons.clear()
        self.unmatched, self.cursor, self.ended = 0, Cursor((position, 0)), False
        for identity, (event, matched) in self._seen.items():
            if identity.position >= position:
                self._await(identity, Owed(identity, event, again=True) if matched else None)

    def _end_before(self, owed: Owed) -> None:
        """A dead letter may be in the vault though it was not counted."""
        if owed.state in (State.BURIED, State.NAMED):
            owed.state, owed.reason = State.DROPPED, CORRUPT
        self.before.append(owed)

    def unread_events(self) -> list[DeliveryId]:
        """The events that the cursor has not passed."""
        return list(self._unread)

    @property
    def unread(self) -> int:
        """How many events the cursor has not passed."""
        return len(self._unread)

    def spoil(self, events: Mapping[DeliveryId, Published]) -> None:
        """These events were damaged in the log: what is unread of them may be given up, whether it matched or not."""
        self._spoilt |= events

    def set_aside(self, identity: DeliveryId) -> None:
        """The ledger found a row damaged, which it was, and gave it up."""
        if identity not in self.spoilt_rows:
            self._fail("damage", f"sets {identity} aside, which was sound", lane=self.lane)
        self.spoilt_rows.discard(identity)
        self._lose(self.owed[identity])
        self._move(self.owed[identity], State.DROPPED, CORRUPT)

    def settle(self, settlement: Settlement) -> list[Touched]:
        """Apply a settlement; every delivery that it touched, with what it was before.

        What was set aside is settled no more, and what is written anew is whole again.
        """
        settlement = settlement.without(self._set_aside)
        newly = self._advance(settlement)
        before = {owed.identity: Touched(owed, owed.state, None) for owed in newly}
        given_up = [*(b.identity for b in settlement.bury), *(d.identity for d in settlement.drop)]
        named = {*(row.delivery.identity for row in settlement.park), *given_up}
        self.spoilt_rows -= {*named, *settlement.finish}
        for identity in (*settlement.finish, *sorted(named)):
            owed = self.owed.get(identity)
            if owed is None:
                self._fail("I6", f"settles {identity}, which it does not owe", lane=self.lane)
            else:
                before.setdefault(identity, Touched(owed, owed.state, owed.parked))
        fresh = {owed.identity for owed in newly}
        self._finish(settlement.finish)
        self._park(settlement.park, fresh)
        self._bury(settlement.bury, fresh)
        for drop in settlement.drop:
            self._end(drop.identity, State.DROPPED, drop.reason, fresh)
        delivered = [owed for owed in newly if owed.identity not in named]
        for owed in delivered:
            self._move(owed, State.DELIVERED)
        if len(delivered) != settlement.delivered:
            said = f"says {settlement.delivered} delivered at first, passed {len(delivered)}"
            self._fail("I1", said, lane=self.lane)
        self.ended = self.ended or settlement.ended
        return list(before.values())

    def name(self, group: DeadLetterGroup, path: str, at: int) -> list[Owed]:
        """A group of dead letters gets its file name."""
        members = [self.owed[burial.identity] for burial in group.burials if burial.identity in self.owed]
        named = [owed for owed in members if owed.state is State.BURIED]
        for owed in named:
            self._move(owed, State.NAMED)
            owed.path, owed.named_at = path, at
        return named

    def close_group(self, path: str, state: State, reason: str | None = None) -> list[Owed]:
        """A group was written or given up."""
        members = [owed for owed in self.owed.values() if owed.path == path and owed.state is State.NAMED]
        for owed in members:
            self._move(owed, state, reason)
        return members

    def compare(self, row: LaneRow | None) -> None:
        """The store's row of this lane must say what these books say."""
        if row is None:
            self._fail("I1", "the lane's row is gone", lane=self.lane)
            return
        self.last_row = row
        states = self.states
        waiting = states[State.BURIED] + states[State.NAMED]
        mine = {
            "matched": len(self.owed) - states[State.UNREAD],
            "unmatched": self.unmatched,
            "delivered": states[State.DELIVERED],
            "dead_lettered": states[State.DEAD_LETTERED],
            "dropped": dict(self.reasons),
            "parked": states[State.PARKED],
            "buried": waiting,
            "pending": states[State.PARKED] + waiting,
        }
        theirs = {name: getattr(row.counts, name) for name in mine}
        if mine != theirs:
            self._fail("I1", f"the store counts {theirs}, it should be {mine}", lane=self.lane)
        if row.cursor != self.cursor:
            self._fail("I2", f"the store's cursor is {row.cursor}, it should be {self.cursor}", lane=self.lane)
        due = self._next_due()
        if row.next_due_at != due:
            self._fail("I1", f"the store's next due time is {row.next_due_at}, it should be {due}", lane=self.lane)

    def _next_due(self) -> int | None:
        """The least due time of what is parked."""
        while self._by_due:
            due_at, identity = self._by_due[0]
            if identity in self.parked and self.parked[identity].due_at == due_at:
                return due_at
            heappop(self._by_due)
        return None

    def _advance(self, settlement: Settlement) -> list[Owed]:
        """Move the cursor; the deliveries that it passes for the first time."""
        old, new = self.cursor, settlement.cursor
        kept = all(any(a <= start and end <= b for a, b in _ranges(new)) for start, end in _ranges(old))
        if not kept:
            self._fail("I5", f"the cursor goes back from {old} to {new}", lane=self.lane)
        top = new.finished[-1][1] if new.finished else new.low
        passed: list[DeliveryId] = []
        for identity in self._unread:
            if identity >= top:
                break
            if _covers(new, identity):
                passed.append(identity)
        damaged = {drop.identity for drop in settlement.drop if drop.reason == CORRUPT}
        taken = [self._take(identity, identity in damaged) for identity in passed]
        newly = [owed for owed in taken if owed is not None]
        self.unmatched += len(taken) - len(newly)
        if (len(newly), len(taken) - len(newly)) != (settlement.matched, settlement.unmatched):
            said = f"says {settlement.matched} matched and {settlement.unmatched} not"
            self._fail("I1", f"{said}; passed {len(newly)} and {len(taken) - len(newly)}", lane=self.lane)
        self.cursor = new
        return newly

    def _take(self, identity: DeliveryId, damaged: bool) -> Owed | None:
        """The delivery of an event that the cursor passes; a damaged one is counted whether it matched or not."""
        owed = self._unread.pop(identity)
        if not damaged:
            return owed
        event = self._spoilt.get(identity)
        if event is None:
            self._fail("damage", f"gives {identity} up, which was sound", lane=self.lane)
        elif owed is None:
            owed = self.owed[identity] = Owed(identity, event)
            self.states[State.UNREAD] += 1
        if owed is not None:
            self._lose(owed)
        return owed

    def _lose(self, owed: Owed) -> None:
        self.lost[owed.identity] = owed
        self._set_aside.add(owed.identity)

    def _finish(self, identities: Iterable[DeliveryId]) -> None:
        for identity in identities:
            owed = self.owed.get(identity)
            if owed is not None and owed.state in (State.PARKED, State.BURIED):
                self._move(owed, State.DELIVERED)

    def _park(self, rows: Iterable[Parked], fresh: set[DeliveryId]) -> None:
        for row in rows:
            owed = self.owed.get(row.delivery.identity)
            if owed is None:
                continue
            if owed.state is not State.PARKED and owed.identity not in fresh:
                self._fail("I5", f"parks what is {owed.state}", owed=owed)
            self._move(owed, State.PARKED)
            owed.parked = self.parked[owed.identity] = row
            heappush(self._by_due, (row.due_at, owed.identity))

    def _bury(self, burials: Iterable[Burial], fresh: set[DeliveryId]) -> None:
        for burial in burials:
            self._end(burial.identity, State.BURIED, None, fresh)
            if burial.identity in self.owed:
                self.owed[burial.identity].burial = burial

    def _end(self, identity: DeliveryId, state: State, reason: str | None, fresh: set[DeliveryId]) -> None:
        owed = self.owed.get(identity)
        if owed is None:
            return
        if owed.state is not State.PARKED and identity not in fresh:
            self._fail("I5", f"is {state} ({reason}) when it is {owed.state}", owed=owed)
        self._move(owed, state, reason)

    def _move(self, owed: Owed, state: State, reason: str | None = None) -> None:
        self.states[owed.state] -= 1
        self.states[state] += 1
        self.parked.pop(owed.identity, None)
        owed.state, owed.reason = state, reason
        if state is State.DROPPED and reason is not None:
            self.reasons[reason] += 1


def _ranges(cursor: Cursor) -> list[tuple[LogPosition, LogPosition]]:
    return [((0, 0), cursor.low), *cursor.finished]


def _covers(cursor: Cursor, place: LogPosition) -> bool:
    return place < cursor.low or any(start <= place < end for start, end in cursor.finished)
