"""The account of a lane: its stored row, what is staged on top of it, and what is being committed.

The law: one settlement of a lane at a time, each built on the version before it. While one could not be stored, nothing
is sent: it is stored again until it is there.
"""

from msgspec.structs import replace

from recapito.contracts.ledger import LaneRow, Settlement
from recapito.dispatch.capacity import CommitBudget
from recapito.dispatch.lane.in_flight import PendingBatch
from recapito.dispatch.lane.settlement_builder import SettlementBuilder
from recapito.domain import limits
from recapito.domain.delivery.delivery import CORRUPT, DeliveryId
from recapito.domain.delivery.hold import CLEAR, Hold, after_success
from recapito.domain.instant import SECOND

LAZY_SAVE_NS = 5 * SECOND


class LaneBooks:
    """The row as it is stored, and the stages that will change it. `hold` is that of now, stored or not."""

    def __init__(self, row: LaneRow, commit_budget: CommitBudget) -> None:
        self.row = row
        self.commit_budget = commit_budget
        self.hold = row.hold
        self.staged = SettlementBuilder()
        self.committing: SettlementBuilder | None = None
        self.blocked = False  # the last try to store what is being committed failed
        self._matched = row.counts.matched
        self._passed = row.counts.matched + row.counts.unmatched
        self._lazy_since: int | None = None

    @property
    def settled(self) -> bool:
        """True when everything that happened is stored, but perhaps that the cursor passed what did not match."""
        return not self.staged.pressing and self.committing is None

    @property
    def full(self) -> bool:
        """True when so much waits for a commit that no more may be gathered."""
        return self.staged.rows + (self.committing.rows if self.committing else 0) >= self.commit_budget.slice

    @property
    def unsettled_requests(self) -> int:
        """Requests that are answered, but not settled yet."""
        return self.staged.requests + (self.committing.requests if self.committing else 0)

    @property
    def unsettled_bytes(self) -> int:
        """The bytes of those requests: they are kept until they are settled."""
        return self.staged.size + (self.committing.size if self.committing else 0)

    @property
    def sparse(self) -> bool:
        """True when the filter took less than 1 event in 16: held, such a lane keeps reading, not to pin the log."""
        return self._matched * limits.SPARSE_FILTER < self._passed

    def identities(self) -> set[DeliveryId]:
        """The deliveries whose row is about to change."""
        return {*self.staged.identities(), *(self.committing.identities() if self.committing else ())}

    def pass_over(self, pending: PendingBatch) -> None:
        """The cursor passes what a load was cut from. Nobody knows what damaged events were: they count as matched."""
        self.staged.passed(pending.ranges, pending.events + pending.damaged, pending.unmatched, pending.evaluated)
        if pending.damaged:
            position, offset = pending.ranges[0][0]
            for n in range(pending.damaged):
                self.staged.drop(DeliveryId(position, offset + n), CORRUPT, fresh=True)

    def set_hold(self, hold: Hold) -> None:
        """Hold the lane back, or count a failure."""
        self.hold = hold
        self.staged.hold_changed = True

    def clear_hold(self) -> None:
        """A success ends every hold."""
        if self.hold is not CLEAR and (self.hold.on or self.hold.failures):
            self.set_hold(after_success(self.hold))

    def forget_hold(self) -> None:
        """Another endpoint begins anew."""
        if self.hold is not CLEAR and self.hold != CLEAR:
            self.set_hold(CLEAR)

    def caught_up(self) -> None:
        """Nothing waits that a sweep would have to try."""
        self.set_hold(replace(self.hold, sweep_at=0))

    def must_commit(self, now: int) -> bool:
        """True when the stage should be settled: something happened, or the cursor moved a while ago."""
        if self.committing is not None or self.staged.empty:
            return False
        if self._lazy_since is None:
            self._lazy_since = now
        return self.staged.pressing or now >= self._lazy_since + LAZY_SAVE_NS

    def passing_since(self, instant: int) -> None:
        """The cursor is about to pass what lay there to be passed since then."""
        if self._lazy_since is None:
            self._lazy_since = instant

    def next_instant(self) -> int | None:
        """When a cursor that only passed what did not match is to be saved."""
        return None if self._lazy_since is None else self._lazy_since + LAZY_SAVE_NS

    def discard(self) -> None:
        """Forget what is staged: a step that failed half-way may have staged half of something."""
        self.staged = SettlementBuilder()
        self._lazy_since = None

    def begin_commit(self) -> Settlement:
        """Hand over the stage; a new one gathers what happens while the commit runs."""
        settlement = self.staged.settlement(self.row, self.hold)
        self.committing, self.staged = self.staged, SettlementBuilder()
        self._lazy_since = None
        return settlement

    def end_commit(self, settlement: Settlement) -> set[DeliveryId]:
        """The settlement is stored: the deliveries whose rows it changed."""
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
