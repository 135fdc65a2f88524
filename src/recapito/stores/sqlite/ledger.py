"""The Ledger on SQLite: one file, dispatch.db, that dispatch writes and both roles read."""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Concatenate, ParamSpec, TypeVar

import apsw

from recapito.contracts.damage import Damage
from recapito.contracts.ledger import (
    DeadLetterGroup,
    DueDeliveries,
    LaneRow,
    LaneVersions,
    Notice,
    ParkedKey,
    Settlement,
    SkippedDeadLetters,
    WaitingDeadLetter,
)
from recapito.domain.delivery.delivery import DeliveryId, Parked
from recapito.errors import StoreFailed
from recapito.observability.journal import Journal, silent
from recapito.stores.sqlite.async_store import AsyncStore
from recapito.stores.sqlite.database import Database
from recapito.stores.sqlite.files.connection import DISPATCH
from recapito.stores.sqlite.sql import damage_sql as damage
from recapito.stores.sqlite.sql import dead_letter_sql, ledger_sql
from recapito.stores.sqlite.sql.damage_sql import Damaged, Misnamed, keep_entry, set_aside

P = ParamSpec("P")
T = TypeVar("T")
COUNT_EVERY = 16  # calls


class SqliteLedger(AsyncStore):
    """The Ledger in dispatch.db."""

    KIND = DISPATCH
    _calls = 0

    def __init__(self, database: Database, threaded: bool, journal: Journal = silent) -> None:
        self._set_aside: dict[int, set[DeliveryId]] = {}  # by lane; one of them may still be on the wire
        if not database.read_only:
            with contextlib.suppress(StoreFailed):  # the next user of the file meets it as well
                database.drain(dead_letter_sql.keep_damaged_notices)
        super().__init__(database, threaded, journal)

    async def lanes(self) -> list[LaneRow]:
        return await self._read(ledger_sql.lanes)

    async def lane(self, id: int) -> LaneRow | None:
        return await self._read(ledger_sql.lane, id)

    async def some_lanes(self, ids: Sequence[int]) -> list[LaneRow]:
        return await self._read(ledger_sql.some_lanes, ids)

    async def lanes_after(self, after: int, limit: int) -> list[LaneRow]:
        return await self._read(ledger_sql.lanes_after, after, limit)

    async def troubled_lanes(self, after: int, limit: int) -> list[LaneRow]:
        return await self._read(ledger_sql.troubled_lanes, after, limit)

    async def lane_versions(self) -> LaneVersions:
        return await self._read(ledger_sql.lane_versions)

    async def open_lane(self, id: int, topic: int, log_id: str, position: int) -> LaneRow:
        return await self._write(ledger_sql.open_lane, id, topic, log_id, position)

    async def renew_lane(self, id: int, topic: int, log_id: str, position: int) -> LaneRow:
        renewed = await self._drain(ledger_sql.renew_lane, id, topic, log_id, position)
        before = {identity for identity in self._set_aside.pop(id, ()) if identity.position < position}
        if before:  # what comes after is read again, and settled again
            self._set_aside[id] = before
        return renewed

    async def close_lane(self, id: int) -> None:
        await self._drain(ledger_sql.close_lane, id)

    async def settle(self, settlements: Sequence[Settlement]) -> None:
        await self._worker(partial(self._settle, settlements))

    async def due(self, lane: int, now: int, limit: int, at_least: int = 1) -> DueDeliveries:
        return await self._read_around(ledger_sql.due, lane, now, limit, at_least)

    async def parked(self, lane: int, limit: int, after: ParkedKey | None = None) -> list[Parked]:
        return await self._read_around(ledger_sql.parked, lane, limit, after)

    async def find(self, lane: int, identity: DeliveryId) -> Parked | WaitingDeadLetter | None:
        parked = await self._read_around(ledger_sql.find, lane, identity)
        return parked or await self._read_around(dead_letter_sql.find, lane, identity)

    async def next_burial_at(self) -> int | None:
        return await self._read(dead_letter_sql.next_burial_at)

    async def burials_due(
        self, now: int, limit: int, limit_bytes: int, passed: SkippedDeadLetters
    ) -> DeadLetterGroup | None:
        return await self._read_around(dead_letter_sql.burials_due, now, limit, limit_bytes, passed)

    async def name_group(self, group: DeadLetterGroup, path: str, tried_at: int) -> None:
        await self._drain(dead_letter_sql.name_group, group, path, tried_at)

    async def written(
        self, lane: int, path: str, notice: bytes | None = None, taken: int = 0, reasons: Mapping[str, int] = {}
    ) -> None:
        await self._drain(dead_letter_sql.written, lane, path, notice, taken, reasons)

    async def notices(self, after: int, limit: int) -> list[Notice]:
        return await self._read(dead_letter_sql.notices, after, limit)

    async def abandon(self, lane: int, path: str, reason: str) -> None:
        await self._drain(dead_letter_sql.abandon, lane, path, reason)

    async def set_aside(self, damage: Damage) -> bool:
        return await self._drain(keep_entry, damage)

    async def damaged(self, after: int, limit: int) -> list[Damage]:
        return await self._read(damage.damaged, after, limit)

    async def damaged_counts(self, after: int) -> dict[str, int]:
        return await self._read(damage.counts, after)

    def _settle(self, settlements: Sequence[Settlement]) -> None:
        if self._set_aside:
            settlements = [s.without(self._set_aside.get(s.lane, ())) for s in settlements]
        self.database.drain(ledger_sql.settle, settlements)

    def _clean_up(self) -> None:
        """Also count free pages, every COUNT_EVERY calls; a reader, intake, makes few calls and counts after each."""
        super()._clean_up()
        self._calls += 1
        if self.database.read_only or self._calls % COUNT_EVERY == 0:
            with contextlib.suppress(StoreFailed):
                self._count_free_pages()

    async def _read_around(
        self, verb: Callable[Concatenate[apsw.Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Read; a store that may write first sets aside the damaged rows that it meets."""
        return await self._worker(partial(self._read_intact, lambda connection: verb(connection, *args, **kwargs)))

    def _read_intact(self, verb: Callable[[apsw.Connection], T]) -> T:
        while True:
            try:
                return self.database.read(verb)
            except (Damaged, Misnamed) as error:
                if self.database.read_only:
                    raise StoreFailed(f"{self.database.path.name}: {error}") from error
                self.database.meet_damage(str(error))
                name = self.database.path.name
                self._journal("store.damaged", file=name, why=error, remedy="recapito damaged list")
                if isinstance(error, Misnamed):
                    self.database.drain(dead_letter_sql.mend_names)
                    continue
                self.database.drain(set_aside, error)
                self._set_aside.setdefault(error.lane, set()).update((*error.parked, *error.burials))
