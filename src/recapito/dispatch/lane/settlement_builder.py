"""What a lane has done since its last settlement, gathered so that one commit settles it."""

from collections.abc import Iterable

from recapito.contracts.ledger import AttemptTotals, Burial, Drop, LaneRow, Settlement
from recapito.domain.delivery.cursor import Range
from recapito.domain.delivery.delivery import DeliveryId, Parked
from recapito.domain.delivery.hold import Hold
from recapito.domain.delivery.outcome import Result


class SettlementBuilder:
    """Gathers the parts of one Settlement.

    A delivery is `fresh` here when the ledger has no row of it: its first attempt is what this stage settles. A late
    success takes back what the stage was going to park, bury or drop: only what is stored is terminal.
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
        """True when there is nothing to commit."""
        return not (self.pressing or self._ranges)

    @property
    def pressing(self) -> bool:
        """True when there is more to commit than a cursor that passed nothing that matched."""
        rows = self._finish or self._park or self._bury or self._drop
        return bool(self._matched or rows or self.hold_changed or self.ended)

    @property
    def rows(self) -> int:
        """How many deliveries' rows it would write."""
        return len(self._park) + len(self._bury) + len(self._drop)

    def identities(self) -> Iterable[DeliveryId]:
        """The deliveries whose row is about to change."""
        return (*self._finish, *self._park, *self._bury, *self._drop)

    def landed(self, size: int, took_ns: int) -> None:
        """A request of so many bytes was answered, or given up, after this time."""
        self.requests += 1
        self.size += size
        self._took_ns += took_ns

    def failed(self, result: Result, events: int) -> None:
        """A request that landed failed for so many events."""
        self._failed[result] = self._failed.get(result, 0) + events

    def passed(self, ranges: Iterable[Range], matched: int, unmatched: int, evaluated: int = 0) -> None:
        """The cursor passes ranges of the log, of whose events conditions looked at some."""
        self._ranges += ranges
        self._matched += matched
        self._unmatched += unmatched
        self._evaluated += evaluated

    def delivered(self, count: int) -> None:
        """So many fresh deliveries of a range that is passed succeeded."""
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

    def settlement(self, lane: LaneRow, hold: Hold) -> Settlement:
        """The settlement that brings `lane`, as it is stored, up to date."""
        return Settlement(
            lane=lane.id,
            version=lane.version,
            cursor=lane.cursor.finish_all(self._ranges),
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
