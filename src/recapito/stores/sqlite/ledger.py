"""The Ledger on SQLite: one file, dispatch.db, that dispatch writes and everybody may read."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Concatenate, ParamSpec, TypeVar

import apsw

from recapito.domain.delivery import Identity, Parked
from recapito.errors import StoreFailed
from recapito.store import Buried, Due, Group, Lane, Notice, Passed, Settlement
from recapito.stores.sqlite import burial_file, ledger_file
from recapito.stores.sqlite.connection import DISPATCH
from recapito.stores.sqlite.damage import Damaged, set_aside
from recapito.stores.sqlite.face import Face

P = ParamSpec("P")
T = TypeVar("T")


class SqliteLedger(Face):
    """The Ledger in dispatch.db."""

    KIND = DISPATCH

    async def lanes(self) -> list[Lane]:
        return await self._read(ledger_file.lanes)

    async def lane(self, id: int) -> Lane | None:
        return await self._read(ledger_file.lane, id)

    async def some_lanes(self, ids: Sequence[int]) -> list[Lane]:
        return await self._read(ledger_file.some_lanes, ids)

    async def open_lane(self, id: int, topic: int, log_id: str, position: int) -> Lane:
        return await self._write(ledger_file.open_lane, id, topic, log_id, position)

    async def close_lane(self, id: int) -> None:
        await self._drain(ledger_file.close_lane, id)

    async def settle(self, settlements: Sequence[Settlement]) -> None:
        await self._drain(ledger_file.settle, settlements)

    async def due(self, lane: int, now: int, limit: int, at_least: int = 1) -> Due:
        return await self._read_around(ledger_file.due, lane, now, limit, at_least)

    async def parked(self, lane: int, limit: int) -> list[Parked]:
        return await self._read_around(ledger_file.parked, lane, limit)

    async def find(self, lane: int, identity: Identity) -> Parked | Buried | None:
        parked = await self._read_around(ledger_file.find, lane, identity)
        return parked or await self._read_around(burial_file.find, lane, identity)

    async def next_burial_at(self) -> int | None:
        return await self._read(burial_file.next_burial_at)

    async def burials_due(self, now: int, limit: int, limit_bytes: int, passed: Passed) -> Group | None:
        return await self._read_around(burial_file.burials_due, now, limit, limit_bytes, passed)

    async def name_group(self, group: Group, path: str, tried_at: int) -> None:
        await self._drain(burial_file.name_group, group, path, tried_at)

    async def written(
        self, lane: int, path: str, notice: bytes | None = None, taken: int = 0, reasons: Mapping[str, int] = {}
    ) -> None:
        await self._drain(burial_file.written, lane, path, notice, taken, reasons)

    async def notices(self, after: int, limit: int) -> list[Notice]:
        return await self._read(burial_file.notices, after, limit)

    async def abandon(self, lane: int, path: str, reason: str) -> None:
        await self._drain(burial_file.abandon, lane, path, reason)

    async def _read_around(
        self, verb: Callable[Concatenate[apsw.Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Read; damaged rows that are met are set aside first, by whoever may write."""
        return await self._pump(partial(self._read_intact, lambda connection: verb(connection, *args, **kwargs)))

    def _read_intact(self, verb: Callable[[apsw.Connection], T]) -> T:
        while True:
            try:
                return self.database.read(verb)
            except Damaged as damage:
                if self.database.read_only:
                    raise StoreFailed(f"{self.database.path.name}: {damage}") from damage
                self._journal("store.damaged", file=self.database.path.name, why=damage)
                self.database.drain(set_aside, damage)
