"""The effect of a settlement on a lane, as one plain function: other stores are compared with it."""

from collections import Counter
from typing import NamedTuple

from msgspec.structs import replace

from recapito.contracts.ledger import ADDED, AttemptTotals, Burial, LaneCounts, LaneRow, Settlement
from recapito.domain.delivery.delivery import DeliveryId, Parked
from recapito.errors import StoreStale
from recapito.stores.memory.disk import StoredLane


class Settled(NamedTuple):
    """The lane after a settlement, and the rows then under each of the identities that the settlement named."""

    lane: LaneRow
    identities: frozenset[DeliveryId]
    parked: dict[DeliveryId, Parked]
    burials: dict[DeliveryId, Burial]


def settled(stored: StoredLane | None, settlement: Settlement) -> Settled:
    """The result of a settlement. Nothing is changed; one that would unbalance the books is refused."""
    if stored is None or stored.lane.version != settlement.version:
        raise StoreStale(f"lane {settlement.lane} is not at version {settlement.version}")
    identities = _named(settlement)
    parked = {identity: stored.parked[identity] for identity in identities if identity in stored.parked}
    burials = {identity: stored.burials[identity] for identity in identities if identity in stored.burials}
    before = LaneCounts(parked=len(parked), buried=len(burials))
    finished = _finish(settlement, parked, burials, stored.path_of)
    for row in settlement.park:
        parked[row.delivery.identity] = row
    for identity in _given_up(settlement):
        parked.pop(identity, None)
    for burial in settlement.bury:
        burials.setdefault(burial.identity, burial)
    counts = _counted(stored.lane.counts, settlement, finished, len(parked), len(burials), before)
    if counts.pending != counts.parked + counts.buried:
        raise ValueError(f"the books of lane {settlement.lane} would not balance: {counts}")
    return Settled(_moved(stored.lane, settlement, counts), identities, parked, burials)


def _named(settlement: Settlement) -> frozenset[DeliveryId]:
    parked = (row.delivery.identity for row in settlement.park)
    return frozenset((*settlement.finish, *parked, *_given_up(settlement)))


def _given_up(settlement: Settlement) -> list[DeliveryId]:
    return [*(burial.identity for burial in settlement.bury), *(drop.identity for drop in settlement.drop)]


def _finish(
    settlement: Settlement,
    parked: dict[DeliveryId, Parked],
    burials: dict[DeliveryId, Burial],
    path_of: dict[DeliveryId, str],
) -> int:
    found = 0
    for identity in settlement.finish:
        found += parked.pop(identity, None) is not None
        if identity not in path_of:
            found += burials.pop(identity, None) is not None
    return found


def _counted(
    counts: LaneCounts, settlement: Settlement, finished: int, parked: int, buried: int, before: LaneCounts
) -> LaneCounts:
    added = {name: getattr(counts, name) + getattr(settlement, name) for name in ADDED}
    added["delivered"] += finished
    return replace(
        counts,
        **added,
        dropped=dict(Counter(counts.dropped) + Counter(drop.reason for drop in settlement.drop)),
        parked=counts.parked + parked - before.parked,
        buried=counts.buried + buried - before.buried,
    )


def _moved(lane: LaneRow, settlement: Settlement, counts: LaneCounts) -> LaneRow:
    return replace(
        lane,
        version=lane.version + 1,
        cursor=settlement.cursor,
        hold=settlement.hold,
        counts=counts,
        ended=lane.ended or settlement.ended,
        attempts=_attempted(lane.attempts, settlement.attempts),
    )


def _attempted(before: AttemptTotals, more: AttemptTotals) -> AttemptTotals:
    failed = dict(Counter(before.failed) + Counter(more.failed))
    return AttemptTotals(before.answers + more.answers, before.took_ns + more.took_ns, failed)
