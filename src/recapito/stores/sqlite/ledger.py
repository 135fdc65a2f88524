"""The Ledger on SQLite: one file, dispatch.db, that dispatch writes and everybody may read."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

import apsw

from recapito.domain.delivery import Parked
from recapito.errors import StoreFailed
from recapito.store import Due, Group, Lane, Settlement
from recapito.stores.sqlite import burial_file, ledger_file, volume
from recapito.stores.sqlite.ballast import Ballast
from recapito.stores.sqlite.connection import DISK, DISPATCH, Medium
from recapito.stores.sqlite.damage import Damaged, set_aside
from recapito.stores.sqlite.database import Database
from recapito.stores.sqlite.face import Face
from recapito.telemetry import Journal, silent

P = ParamSpec("P")
T = TypeVar("T")


class SqliteLedger(Face):
    """The Ledger in dispatch.db."""

    def __init__(self, database: Database, threaded: bool, journal: Journal = silent) -> None:
        super().__init__(database, threaded)
        self._journal = journal

    @classmethod
    def open(
        cls,
        directory: Path,
        *,
        threaded: bool = True,
        medium: Medium = DISK,
        ballast: Ballast | None = None,
        allow_network: bool = False,
        journal: Journal = silent,
    ) -> "SqliteLedger":
        """Open dispatch.db to write it, in a thread of its own unless told otherwise; it is made if it is not there."""
        if medium.vfs is None:
            volume.check_directory(directory, allow_network)
        database = Database(directory / DISPATCH.file, DISPATCH, medium=medium, ballast=ballast, journal=journal)
        return cls(database, threaded, journal)

    @classmethod
    def open_reader(cls, directory: Path, *, threaded: bool = False, journal: Journal = silent) -> "SqliteLedger":
        """Open dispatch.db to read it, inline unless told otherwise: such reads are short.

        Verbs that write raise io.UnsupportedOperation.
        """
        database = Database(directory / DISPATCH.file, DISPATCH, read_only=True, journal=journal)
        return cls(database, threaded, journal)

    async def lanes(self) -> list[Lane]:
        return await self._read(ledger_file.lanes)

    async def lane(self, id: int) -> Lane | None:
        return await self._read(ledger_file.lane, id)

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

    async def next_burial_at(self) -> int | None:
        return await self._read(burial_file.next_burial_at)

    async def burials_due(self, now: int, limit: int, limit_bytes: int, skip: frozenset[int]) -> Group | None:
        return await self._read_around(burial_file.burials_due, now, limit, limit_bytes, skip)

    async def name_group(self, group: Group, path: str, tried_at: int) -> None:
        await self._drain(burial_file.name_group, group, path, tried_at)

    async def written(self, lane: int, path: str) -> None:
        await self._drain(burial_file.written, lane, path)

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
