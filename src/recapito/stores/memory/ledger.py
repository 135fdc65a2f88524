"""The Ledger in memory: lanes, parked deliveries and dead letters in plain dicts; the reference model."""

from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, islice

from msgspec.structs import replace

from recapito.contracts.damage import Damage
from recapito.contracts.ledger import (
    Burial,
    DeadLetterGroup,
    DueDeliveries,
    LaneCounts,
    LaneRow,
    LaneVersions,
    Notice,
    ParkedKey,
    Settlement,
    SkippedDeadLetters,
    WaitingDeadLetter,
)
from recapito.domain import limits
from recapito.domain.delivery.cursor import Cursor
from recapito.domain.delivery.delivery import CORRUPT, DeliveryId, Parked
from recapito.domain.delivery.hold import CLEAR
from recapito.errors import StoreStale
from recapito.stores.memory.disk import MemoryDisk, StoredLane
from recapito.stores.memory.settlement import Settled, settled

LAST = DeliveryId(1 << 63, 0)  # after every delivery that comes due at the same instant


class MemoryLedger:
    """The Ledger on a MemoryDisk; another one on the same disk sees exactly what was committed."""

    def __init__(self, disk: MemoryDisk | None = None) -> None:
        self._disk = disk or MemoryDisk()
        self._lanes = self._disk.lanes
        self._keep_notices()

    def __repr__(self) -> str:
        return f"<MemoryLedger of {len(self._lanes)} lanes>"

    async def lanes(self) -> list[LaneRow]:
        return [_row(self._lanes[id]) for id in sorted(self._lanes)]

    async def lane(self, id: int) -> LaneRow | None:
        return _row(self._lanes[id]) if id in self._lanes else None

    async def some_lanes(self, ids: Sequence[int]) -> list[LaneRow]:
        return [_row(self._lanes[id]) for id in sorted(set(ids) & self._lanes.keys())]

    async def lanes_after(self, after: int, limit: int) -> list[LaneRow]:
        return [_row(self._lanes[id]) for id in sorted(id for id in self._lanes if id > after)[:limit]]

    async def troubled_lanes(self, after: int, limit: int) -> list[LaneRow]:
        rows = await self.lanes_after(after, len(self._lanes))
        return list(islice((row for row in rows if row.counts.parked or row.hold != CLEAR), limit))

    async def lane_versions(self) -> LaneVersions:
        versions = sum(stored.lane.version for stored in self._lanes.values())
        return LaneVersions(len(self._lanes), versions, max(self._lanes, default=0))

    async def open_lane(self, id: int, topic: int, log_id: str, position: int) -> LaneRow:
        if id not in self._lanes:
            self._lanes[id] = StoredLane(LaneRow(id, topic, log_id, 1, Cursor((position, 0)), CLEAR, LaneCounts()))
        return _row(self._lanes[id])

    async def renew_lane(self, id: int, topic: int, log_id: str, position: int) -> LaneRow:
        old = self._lanes[id]
        self._keep(Damage("lane", topic, id, old.lane.version, events=0, content=b"rotten"))
        new = StoredLane(LaneRow(id, topic, log_id, 1, Cursor((position, 0)), CLEAR, LaneCounts()))
        new.parked = {identity: row for identity, row in old.parked.items() if identity.position < position}
        new.order = sorted((row.due_at, identity) for identity, row in new.parked.items())
        new.burials = {identity: row for identity, row in old.burials.items() if identity.position < position}
        new.path_of = {identity: path for identity, path in old.path_of.items() if identity in new.burials}
        new.first_tried_at = {path: at for path, at in old.first_tried_at.items() if path in new.path_of.values()}
        new.spoilt = {identity for identity in old.spoilt if identity.position < position}
        new.set_aside = {identity for identity in old.set_aside if identity.position < position}
        parked, buried = len(new.parked), len(new.burials)
        new.lane = replace(new.lane, counts=LaneCounts(matched=parked + buried, parked=parked, buried=buried))
        self._lanes[id] = new
        return _row(new)

    async def close_lane(self, id: int) -> None:
        stored = self._lanes.get(id)
        if stored is None or stored.parked or stored.burials or not (stored.lane.ended or stored.rotten):
            return
        if stored.rotten:
            self._keep(Damage("lane", stored.lane.topic, id, stored.lane.version, events=0, content=b"rotten"))
        del self._lanes[id]

    async def settle(self, settlements: Sequence[Settlement]) -> None:
        if len({settlement.lane for settlement in settlements}) < len(settlements):
            raise StoreStale("a lane is settled twice in one commit")
        for result in [self._settled(settlement) for settlement in settlements]:
            _store(self._lanes[result.lane.id], result)

    async def due(self, lane: int, now: int, limit: int, at_least: int = 1) -> DueDeliveries:
        if lane not in self._lanes:
            return DueDeliveries([], None)
        stored = self._intact(lane)
        count = min(bisect_right(stored.order, (now, LAST)), limit)
        sizes = [len(stored.parked[identity].delivery.body) for _, identity in stored.order[:count]]
        fits = bisect_right(list(accumulate(sizes)), limits.PARKED_SLICE_BYTES)
        count = min(count, max(fits, at_least))
        next_at = stored.order[count][0] if count < len(stored.order) else None
        return DueDeliveries([stored.parked[identity] for _, identity in stored.order[:count]], next_at)

    async def parked(self, lane: int, limit: int, after: ParkedKey | None = None) -> list[Parked]:
        if lane not in self._lanes:
            return []
        stored = self._intact(lane)
        first = 0 if after is None else bisect_right(stored.order, after)
        rows = [stored.parked[identity] for _, identity in stored.order[first : first + limit]]
        sizes = accumulate(len(row.delivery.body) for row in rows)
        return rows[: max(bisect_right(list(sizes), limits.PARKED_SLICE_BYTES), 1)]

    async def find(self, lane: int, identity: DeliveryId) -> Parked | WaitingDeadLetter | None:
        if lane not in self._lanes:
            return None
        stored = self._intact(lane)
        if identity in stored.burials:
            return WaitingDeadLetter(stored.burials[identity], stored.path_of.get(identity))
        return stored.parked.get(identity)

    async def next_burial_at(self) -> int | None:
        waiting = (burial.write_at for stored in self._lanes.values() for burial in stored.burials.values())
        return min(waiting, default=None)

    async def burials_due(
        self, now: int, limit: int, limit_bytes: int, passed: SkippedDeadLetters
    ) -> DeadLetterGroup | None:
        for id in self._lanes:
            self._intact(id)
        named = [group for id, stored in self._lanes.items() for group in _named(id, stored)]
        if named := [group for group in named if not _passes(passed, group.lane, group.container)]:
            return min(named, key=lambda group: (group.first_tried_at, group.lane, group.path))
        waiting: dict[tuple[int, str], list[Burial]] = {}
        for id, stored in self._lanes.items():
            for burial in _unnamed(stored, now):
                if not _passes(passed, id, burial.container):
                    waiting.setdefault((id, burial.container), []).append(burial)
        if not waiting:
            return None
        id, container = min(waiting, key=lambda place: (waiting[place][0].write_at, place))
        return DeadLetterGroup(id, container, None, None, _fitting(waiting[id, container], limit, limit_bytes))

    async def name_group(self, group: DeadLetterGroup, path: str, tried_at: int) -> None:
        stored = self._lanes.get(group.lane)
        if stored is None:
            return
        for burial in group.burials:
            if burial.identity in stored.burials and burial.identity not in stored.path_of:
                stored.path_of[burial.identity] = path
                stored.first_tried_at.setdefault(path, tried_at)

    async def written(
        self, lane: int, path: str, notice: bytes | None = None, taken: int = 0, reasons: Mapping[str, int] = {}
    ) -> None:
        if not (count := self._remove_group(lane, path)):
            return
        counts = self._lanes[lane].lane.counts
        if sum(reasons.values()) <= count:
            counts = replace(counts, reasons=dict(Counter(counts.reasons) + Counter(reasons)))
        self._count(lane, replace(counts, dead_lettered=counts.dead_lettered + count, buried=counts.buried - count))
        if notice is not None:
            notices = self._disk.notices
            number = max((*notices, taken)) + 1
            self._keep_notices()
            for old in [old for old in notices if old <= taken]:
                del notices[old]
            notices[number] = notice

    async def notices(self, after: int, limit: int) -> list[Notice]:
        numbers = sorted(number for number in self._disk.notices if number > after)
        rotten = self._disk.rotten_notices
        return [Notice(number, self._disk.notices[number], number in rotten) for number in numbers[:limit]]

    async def abandon(self, lane: int, path: str, reason: str) -> None:
        if count := self._remove_group(lane, path):
            counts = self._lanes[lane].lane.counts
            dropped = dict(Counter(counts.dropped) + Counter({reason: count}))
            self._count(lane, replace(counts, dropped=dropped, buried=counts.buried - count))

    async def set_aside(self, damage: Damage) -> bool:
        if any(one[:5] == damage[:5] for one in self._disk.damaged):  # the same table and place
            return False
        self._keep(damage)
        return True

    async def damaged(self, after: int, limit: int) -> list[Damage]:
        return [damage for damage in self._disk.damaged if damage.number > after][:limit]

    async def damaged_counts(self, after: int) -> dict[str, int]:
        return dict(Counter(damage.table for damage in self._disk.damaged if damage.number > after))

    def _keep_notices(self) -> None:
        """Keep copies of damaged notices, each once."""
        kept = {damage.position for damage in self._disk.damaged if damage.table == "notice"}
        for number in sorted(self._disk.rotten_notices & self._disk.notices.keys() - kept):
            self._keep(Damage("notice", position=number, content=self._disk.notices[number]))

    def _keep(self, damage: Damage) -> None:
        self._disk.damaged.append(damage._replace(number=len(self._disk.damaged) + 1))

    def _intact(self, lane: int) -> StoredLane:
        """A lane, after what is damaged in it was set aside."""
        stored = self._lanes[lane]
        for identity in sorted(stored.spoilt):
            counts = stored.lane.counts
            dropped = dict(Counter(counts.dropped) + Counter([CORRUPT]))
            if (parked := stored.parked.pop(identity, None)) is not None:
                del stored.order[bisect_left(stored.order, (parked.due_at, identity))]
                self._keep(Damage("parked", stored.lane.topic, lane, *identity, content=parked.delivery.body))
                self._count(lane, replace(counts, dropped=dropped, parked=counts.parked - 1))
            elif (burial := stored.burials.pop(identity, None)) is not None:
                path = stored.path_of.pop(identity, "")
                if path not in stored.path_of.values():
                    stored.first_tried_at.pop(path, None)
                self._keep(Damage("burial", stored.lane.topic, lane, *identity, content=burial.record))
                self._count(lane, replace(counts, dropped=dropped, buried=counts.buried - 1))
        stored.set_aside |= stored.spoilt
        stored.spoilt.clear()
        return stored

    def _settled(self, settlement: Settlement) -> Settled:
        stored = self._lanes.get(settlement.lane)
        return settled(stored, settlement.without(stored.set_aside) if stored and stored.set_aside else settlement)

    def _remove_group(self, lane: int, path: str) -> int:
        """Take a named group out; how many dead letters it had."""
        stored = self._lanes.get(lane)
        if stored is None or stored.first_tried_at.pop(path, None) is None:
            return 0
        members = [identity for identity, of in stored.path_of.items() if of == path]
        for identity in members:
            del stored.burials[identity], stored.path_of[identity]
        return len(members)

    def _count(self, lane: int, counts: LaneCounts) -> None:
        self._lanes[lane].lane = replace(self._lanes[lane].lane, counts=counts)


def _store(stored: StoredLane, result: Settled) -> None:
    """Put the rows of a settlement in the place of those that were there."""
    stored.lane = result.lane
    stored.spoilt -= result.identities  # they are written anew, or gone
    stored.rotten = False
    for identity in result.identities:
        stored.burials.pop(identity, None)
        before = stored.parked.pop(identity, None)
        if before is not None:
            del stored.order[bisect_left(stored.order, (before.due_at, identity))]
    stored.burials |= result.burials
    stored.parked |= result.parked
    for identity, row in result.parked.items():
        insort(stored.order, (row.due_at, identity))


def _row(stored: StoredLane) -> LaneRow:
    if stored.rotten:
        return LaneRow(stored.lane.id, 0, "", 0, Cursor((0, 0)), CLEAR, LaneCounts(), damaged=True)
    return replace(stored.lane, next_due_at=stored.order[0][0] if stored.order else None)


def _oldest_first(stored: StoredLane) -> list[Burial]:
    return sorted(stored.burials.values(), key=lambda burial: (burial.write_at, burial.identity))


def _unnamed(stored: StoredLane, now: int) -> list[Burial]:
    due = (burial for burial in _oldest_first(stored) if burial.write_at <= now)
    return [burial for burial in due if burial.identity not in stored.path_of]


def _named(lane: int, stored: StoredLane) -> Iterator[DeadLetterGroup]:
    for path, at in stored.first_tried_at.items():
        burials = [burial for burial in _oldest_first(stored) if stored.path_of.get(burial.identity) == path]
        yield DeadLetterGroup(lane, burials[0].container, path, at, burials)


def _passes(passed: SkippedDeadLetters, lane: int, container: str) -> bool:
    return container in passed.containers or (lane, container) in passed.places


def _fitting(oldest: list[Burial], limit: int, limit_bytes: int) -> list[Burial]:
    """As many of the oldest as fit into one file: at least one."""
    taken: list[Burial] = []
    size = 0
    for burial in oldest:
        size += len(burial.record)
        if taken and (len(taken) >= limit or size > limit_bytes):
            break
        taken.append(burial)
    return taken
