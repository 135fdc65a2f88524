"""Stores that are wrong, silently: what the checkers must find."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
from msgspec.structs import replace

from recapito.contracts.damage import Damage
from recapito.contracts.ledger import DeadLetterGroup, DueDeliveries, LaneRow, Settlement, SkippedDeadLetters
from recapito.contracts.log import NewSegment
from recapito.contracts.registry import Document
from recapito.domain.delivery.cursor import Cursor
from recapito.domain.events.segment import Columns
from recapito.domain.instant import SECOND
from recapito.domain.resources.subscription import Subscription
from recapito.stores.memory import MemoryDisk, MemoryLedger, MemoryLog
from tests.stores.spoil import MemorySpoiler


@dataclass
class PlantedStorage:
    """A disk in memory whose stores are wrong. `seen_by_intake` is the ledger that the janitor reads."""

    log: type[MemoryLog] = MemoryLog
    ledger: type[MemoryLedger] = MemoryLedger
    seen_by_intake: type[MemoryLedger] = MemoryLedger
    disk: MemoryDisk = field(default_factory=lambda: MemoryDisk(log_id="sim"))

    def open_log(self, write: bool) -> Any:
        return self.log(self.disk)

    def open_ledger(self, write: bool) -> Any:
        return self.ledger(self.disk) if write else self.seen_by_intake(self.disk)

    @property
    def spoil(self) -> MemorySpoiler:
        return MemorySpoiler(self.disk)

    def close(self, store: Any) -> None:
        """Nothing is open."""


class ForgetfulLog(MemoryLog):
    """Says that it stored, now and then without doing so."""

    async def append(self, segments: Sequence[NewSegment]) -> list[int]:
        if self._disk.mark % 7 == 6:
            return [await self.end(segment.topic) + 1 for segment in segments]
        return await super().append(segments)


class CarelessLog(MemoryLog):
    """Stores the last byte of every body as a space."""

    async def append(self, segments: Sequence[NewSegment]) -> list[int]:
        return await super().append([segment._replace(body=segment.body[:-1] + b" ") for segment in segments])


class MarklessLog(MemoryLog):
    """Appends what is redriven, and forgets to mark it."""

    async def append_marked(self, segments: Sequence[NewSegment], kind: str, marks: Sequence[Document]) -> list[int]:
        return await super().append_marked(segments, kind, [])


class MarkingLog(MemoryLog):
    """Marks what is redriven, and does not append it."""

    async def append_marked(self, segments: Sequence[NewSegment], kind: str, marks: Sequence[Document]) -> list[int]:
        await super().append_marked([], kind, marks)
        return [await self.end(segment.topic) + 1 for segment in segments]


class SharingLog(MemoryLog):
    """Appends redriven events for all subscriptions."""

    async def append_marked(self, segments: Sequence[NewSegment], kind: str, marks: Sequence[Document]) -> list[int]:
        return await super().append_marked([_for_everybody(segment) for segment in segments], kind, marks)


def _for_everybody(segment: NewSegment) -> NewSegment:
    columns = msgspec.msgpack.decode(segment.columns, type=Columns)
    return segment._replace(columns=msgspec.msgpack.encode(replace(columns, only=0)))


class LossyLedger(MemoryLedger):
    """Loses a parked row; its counts say otherwise."""

    async def settle(self, settlements: Sequence[Settlement]) -> None:
        await super().settle(settlements)
        for settlement in settlements:
            stored = self._lanes[settlement.lane]
            if len(stored.order) > 2:
                del stored.parked[stored.order.pop()[1]]


class GenerousLedger(MemoryLedger):
    """Counts a delivery twice."""

    async def settle(self, settlements: Sequence[Settlement]) -> None:
        await super().settle(settlements)
        for settlement in settlements:
            counts = self._lanes[settlement.lane].lane.counts
            if settlement.finish:
                more = replace(counts, matched=counts.matched + 1, delivered=counts.delivered + 1)
                self._count(settlement.lane, more)


class RashLedger(MemoryLedger):
    """Moves the cursor to the end of what is finished, over what is still under way."""

    async def settle(self, settlements: Sequence[Settlement]) -> None:
        await super().settle([s._replace(cursor=_closed(s.cursor)) for s in settlements])


def _closed(cursor: Cursor) -> Cursor:
    return Cursor(cursor.finished[-1][1]) if cursor.finished else cursor


class EarlyLedger(MemoryLedger):
    """Returns rows a little before they are due."""

    async def due(self, lane: int, now: int, limit: int, at_least: int = 1) -> DueDeliveries:
        return await super().due(lane, now + 5 * SECOND, limit, at_least)


class ForgetfulLedger(MemoryLedger):
    """Forgets the attempts of what it parked."""

    async def due(self, lane: int, now: int, limit: int, at_least: int = 1) -> DueDeliveries:
        due = await super().due(lane, now, limit, at_least)
        rows = [replace(row, delivery=replace(row.delivery, attempts=0)) for row in due.parked]
        return due._replace(parked=rows)


class DoubtfulLedger(MemoryLedger):
    """Counts what is finished and was not there."""

    async def settle(self, settlements: Sequence[Settlement]) -> None:
        missing = [sum(identity not in self._lanes[s.lane].parked for identity in s.finish) for s in settlements]
        await super().settle(settlements)
        for settlement, count in zip(settlements, missing, strict=True):
            counts = self._lanes[settlement.lane].lane.counts
            self._count(settlement.lane, replace(counts, delivered=counts.delivered + count))


class RenamingLedger(MemoryLedger):
    """Gives a group a new name whenever it is tried."""

    def __init__(self, disk: MemoryDisk | None = None) -> None:
        super().__init__(disk)
        self._tries = 0

    async def burials_due(
        self, now: int, limit: int, limit_bytes: int, passed: SkippedDeadLetters
    ) -> DeadLetterGroup | None:
        group = await super().burials_due(now, limit, limit_bytes, passed)
        if group is None or group.path is None:
            return group
        self._tries += 1
        if self._tries % 2:
            return group
        stored = self._lanes[group.lane]
        path, at = f"{group.path}-{self._tries}", stored.first_tried_at.pop(group.path)
        stored.path_of = {i: path if of == group.path else of for i, of in stored.path_of.items()}
        stored.first_tried_at[path] = at
        return group._replace(path=path)


class CarefreeLedger(MemoryLedger):
    """Says that it kept a damaged entry, without doing so."""

    async def set_aside(self, damage: Damage) -> bool:
        return True


class TrustingLedger(MemoryLedger):
    """Shows the row of a lane that is damaged as if it were sound."""

    async def lane(self, id: int) -> LaneRow | None:
        return self._lanes[id].lane if id in self._lanes else None

    async def lanes(self) -> list[LaneRow]:
        return [self._lanes[id].lane for id in sorted(self._lanes)]

    async def some_lanes(self, ids: Sequence[int]) -> list[LaneRow]:
        return [self._lanes[id].lane for id in sorted(set(ids) & self._lanes.keys())]


class HoardingLedger(MemoryLedger):
    """Begins a damaged lane again, and keeps what waits and is read again."""

    async def renew_lane(self, id: int, topic: int, log_id: str, position: int) -> LaneRow:
        old = self._lanes[id]
        await super().renew_lane(id, topic, log_id, position)
        new = self._lanes[id]
        new.parked, new.order = old.parked, old.order
        parked = len(new.parked)
        more = replace(new.lane.counts, matched=parked + new.lane.counts.buried, parked=parked)
        self._count(id, more)
        return replace(new.lane, next_due_at=new.order[0][0] if new.order else None)


class SilentLog(MemoryLog):
    """Lists no damaged record."""

    async def damaged_records(self) -> list[Damage]:
        return []


class CredulousLog(MemoryLog):
    """Serves the record of a subscription without a look at its checksum."""

    async def subscription_by_id(self, id: int) -> Subscription | None:
        return self._disk.subscriptions.get(id)


class OptimisticLedger(MemoryLedger):
    """Shows the janitor cursors that are ahead of the truth."""

    async def lanes(self) -> list[LaneRow]:
        rows = await super().lanes()
        return [replace(row, cursor=Cursor((row.cursor.low[0] + 2, 0))) for row in rows]
