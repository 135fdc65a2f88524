"""The books of a lane and the settlements that change them.

The law: one settlement of a lane at a time, each built on the version before it. While a settlement cannot be stored,
the lane sends nothing: the dispatcher stores it again until it is there.
"""

from collections.abc import Iterable

from msgspec.structs import replace

from recapito.contracts.ledger import AttemptTotals, Burial, Drop, LaneRow, Settlement
from recapito.dispatch.capacity import CommitBudget
from recapito.dispatch.lane.in_flight import PendingBatch
from recapito.domain import limits
from recapito.domain.delivery.cursor import Range
from recapito.domain.delivery.delivery import CORRUPT, DeliveryId, Parked
from recapito.domain.delivery.hold import CLEAR, Hold, after_success
from recapito.domain.delivery.outcome import Result
from recapito.domain.instant import SECOND

LAZY_SAVE_NS = 5 * SECOND


class SettlementBuilder:
    """Gathers the parts of the next Settlement of a lane.

    A delivery is `fresh` here when the ledger has no row of it: this settlement is about its first attempt. A late
    success takes back a row that was to be parked, buried or dropped: only a stored row is final.
    """

    def __init__(self) -> None:
        self._ranges: list[Range] = []
        self._matched = 0
        self._unmatched = 0
        self._evaluated = 0
        self._delivered = 0
        self._fresh: set[DeliveryId] = set()
        self._finish: set[DeliveryId] = set()
        self._park: dict[DeliveryId, Parked] = {}
        self._bury: dict[DeliveryId, Burial] = {}
        self._drop: dict[DeliveryId, str] = {}
        self._failed: dict[str, int] = {}
        self._took_ns = 0
        self.requests = 0
        self.size = 0
        self.hold_changed = False
        self.ended = False

    @property
    def empty(self) -> bool:
        return not (self.pressing or self._ranges)

    @property
    def pressing(self) -> bool:
        """True when there is more to commit than a cursor that passed only events that do not match."""
        rows = self._finish or self._park or self._bury or self._drop
        return bool(self._matched or rows or self.hold_changed or self.ended)

    @property
    def rows(self) -> int:
        """The number of deliveries whose rows it would write."""
        return len(self._park) + len(self._bury) + len(self._drop)

    def identities(self) -> Iterable[DeliveryId]:
        """The deliveries whose rows are about to change."""
        return (*self._finish, *self._park, *self._bury, *self._drop)

    def landed(self, size: int, took_ns: int) -> None:
        """A request of `size` bytes was answered, or given up, after `took_ns`."""
        self.requests += 1
        self.size += size
        self._took_ns += took_ns

    def failed(self, result: Result, events: int) -> None:
        """A request that landed failed for N events."""
        self._failed[result] = self._failed.get(result, 0) + events

    def passed(self, ranges: Iterable[Range], matched: int, unmatched: int, evaluated: int = 0) -> None:
        """The cursor passes ranges of the log; conditions looked at `evaluated` of their events."""
        self._ranges += ranges
        self._matched += matched
        self._unmatched += unmatched
        self._evaluated += evaluated

    def delivered(self, count: int) -> None:
        """N fresh deliveries of a passed range succeeded."""
        self._delivered += count

    def finish(self, identity: DeliveryId) -> None:
        """A delivery that has a row, or was going to get one, succeeded after all."""
        self._park.pop(identity, None)
        self._bury.pop(identity, None)
        self._drop.pop(identity, None)
        if identity in self._fresh:
            self._fresh.discard(identity)
            self._delivered += 1
        else:
            self._finish.add(identity)

    def park(self, parked: Parked, fresh: bool) -> None:
        """A delivery is to be tried again."""
        identity = parked.delivery.identity
        self._park[identity] = parked
        if fresh:
            self._fresh.add(identity)

    def bury(self, burial: Burial, fresh: bool) -> None:
        """A delivery is given up and becomes a dead letter."""
        self._park.pop(burial.identity, None)
        self._bury[burial.identity] = burial
        if fresh:
            self._fresh.add(burial.identity)

    def drop(self, identity: DeliveryId, reason: str, fresh: bool) -> None:
        """A delivery is given up, and only counted."""
        self._park.pop(identity, None)
        self._drop[identity] = reason
        if fresh:
            self._fresh.add(identity)

    def settlement(self, row: LaneRow, hold: Hold) -> Settlement:
        """The settlement that brings the stored row up to date."""
        return Settlement(
            lane=row.id,
            version=row.version,
            cursor=row.cursor.finish_all(self._ranges),
            hold=hold,
            matched=self._matched,
            unmatched=self._unmatched,
            delivered=self._delivered,
            finish=tuple(self._finish),
            park=tuple(self._park.values()),
            bury=tuple(self._bury.values()),
            drop=tuple(Drop(identity, reason) for identity, reason in self._drop.items()),
            ended=self.ended,
            attempts=AttemptTotals(self.requests, self._took_ns, self._failed),
            evaluated=self._evaluated,
        )


class LaneBooks:
    """The row as it is stored, the settlement that is `staged` on top of it, and the one that is being committed.

    `hold` is the hold of now, stored or not; `blocked`: the last try to store the committing settlement failed.
    """

    def __init__(self, row: LaneRow, commit_budget: CommitBudget) -> None:
        self.row = row
        self.commit_budget = commit_budget
        self.hold = row.hold
        self.staged = SettlementBuilder()
        self.committing: SettlementBuilder | None = None
        self.blocked = False
        self._matched = row.counts.matched
        self._passed = row.counts.matched + row.counts.unmatched
        self._lazy_since: int | None = None

    @property
    def settled(self) -> bool:
        """True when all is stored, except perhaps a cursor that passed only events that do not match."""
        return not self.staged.pressing and self.committing is None

    @property
    def full(self) -> bool:
        """True when the lane may stage no more rows before a commit."""
        return self.staged.rows + (self.committing.rows if self.committing else 0) >= self.commit_budget.slice

    @property
    def unsettled_requests(self) -> int:
        """Requests that are answered, but not settled yet."""
        return self.staged.requests + (self.committing.requests if self.committing else 0)

    @property
    def unsettled_bytes(self) -> int:
        """The bytes of the unsettled requests, which stay in memory until they are settled."""
        return self.staged.size + (self.committing.size if self.committing else 0)

    @property
    def sparse(self) -> bool:
        """True when the filter took less than 1 event in 16: while held, such a lane reads on, not to pin the log."""
        return self._matched * limits.SPARSE_FILTER < self._passed

    def identities(self) -> set[DeliveryId]:
        """The deliveries whose rows are about to change."""
        return {*self.staged.identities(), *(self.committing.identities() if self.committing else ())}

    def pass_over(self, pending: PendingBatch) -> None:
        """The cursor passes the ranges of a batch. Its damaged events count as matched, for they cannot be judged."""
        self.staged.passed(pending.ranges, pending.events + pending.damaged, pending.unmatched, pending.evaluated)
        if pending.damaged:
            position, offset = pending.ranges[0][0]
            for n in range(pending.damaged):
                self.staged.drop(DeliveryId(position, offset + n), CORRUPT, fresh=True)

    def set_hold(self, hold: Hold) -> None:
        self.hold = hold
        self.staged.hold_changed = True

    def clear_hold(self) -> None:
        """A success ends every hold."""
        if self.hold is not CLEAR and (self.hold.on or self.hold.failures):
            self.set_hold(after_success(self.hold))

    def forget_hold(self) -> None:
        """The lane has another endpoint, which begins anew."""
        if self.hold is not CLEAR and self.hold != CLEAR:
            self.set_hold(CLEAR)

    def end_sweep(self) -> None:
        """No delivery waits that a sweep would have to try."""
        self.set_hold(replace(self.hold, sweep_at=0))

    def must_commit(self, now: int) -> bool:
        """True when the staged settlement is to be stored: a delivery changed, or the cursor moved a while ago."""
        if self.committing is not None or self.staged.empty:
            return False
        if self._lazy_since is None:
            self._lazy_since = now
        return self.staged.pressing or now >= self._lazy_since + LAZY_SAVE_NS

    def passing_since(self, instant: int) -> None:
        """The cursor is about to pass entries that it could have passed since then."""
        if self._lazy_since is None:
            self._lazy_since = instant

    def next_instant(self) -> int | None:
        """When a cursor that passed only events that do not match is to be saved."""
        return None if self._lazy_since is None else self._lazy_since + LAZY_SAVE_NS

    def discard(self) -> None:
        """Forget the staged settlement: a step that failed half-way may have staged half of something."""
        self.staged = SettlementBuilder()
        self._lazy_since = None

    def begin_commit(self) -> Settlement:
        """Hand over the staged settlement; a new one gathers whatever happens while the commit runs."""
        settlement = self.staged.settlement(self.row, self.hold)
        self.committing, self.staged = self.staged, SettlementBuilder()
        self._lazy_since = None
        return settlement

    def end_commit(self, settlement: Settlement) -> set[DeliveryId]:
        """The settlement is stored. Returns the deliveries whose rows it changed."""
        assert self.committing is not None and settlement.version == self.row.version
        changed = set(self.committing.identities())
        self._matched += settlement.matched
        self._passed += settlement.matched + settlement.unmatched
        self.row = replace(
            self.row,
            version=settlement.version + 1,
            cursor=settlement.cursor,
            hold=settlement.hold,
            ended=settlement.ended,
        )
        self.committing, self.blocked = None, False
        return changed
