"""History on SQLite: one file, history.db, that dispatch writes and both roles read; no delivery waits for its disk.

Attempts gather in memory and are stored in chunks. A file that cannot be opened or is damaged is set aside and begun
anew; attempts that a file could not take are lost and counted.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

import apsw

from recapito.clock import SECOND, Clock
from recapito.contracts.history import AttemptPage, HistoryBounds, HistoryExtent, SeriesPage
from recapito.domain import limits
from recapito.domain.history.attempt import Attempt, AttemptQuery
from recapito.errors import SettingsError, StoreFailed
from recapito.observability.journal import Journal, silent
from recapito.stores.sqlite.database import Database
from recapito.stores.sqlite.files.connection import HISTORY, FileMedium
from recapito.stores.sqlite.sql import history_sql
from recapito.stores.sqlite.sql.history_sql import ChunkTotals
from recapito.stores.sqlite.worker import InlineWorker, ThreadWorker, Worker

P = ParamSpec("P")
T = TypeVar("T")

FLUSH_EVERY_NS = SECOND // 2
TIDY_EVERY = 120  # flushes: old attempts are removed even when nothing is recorded
UNSYNCED = FileMedium(synchronous="OFF")
ASIDE = ".damaged"


class SqliteHistoryReader:
    """Reads history.db, also one that is made or replaced meanwhile."""

    def __init__(self, directory: Path, *, threaded: bool = True, journal: Journal = silent) -> None:
        self._path = directory / HISTORY.file
        self._journal = journal
        self._database: Database | None = None
        self._file: int | None = None  # its inode, to see whether its name still leads to it
        self._worker: Worker = (
            ThreadWorker("store-history", self._clean_up) if threaded else InlineWorker(self._clean_up)
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__} on {self._path}>"

    async def newest_first(self, selection: AttemptQuery, before: int | None, limit: int) -> AttemptPage:
        return await self._read(history_sql.newest_first, selection, before, limit)

    async def oldest_first(self, selection: AttemptQuery, after: int, limit: int) -> AttemptPage:
        return await self._read(history_sql.oldest_first, selection, after, limit)

    async def series(self, selection: AttemptQuery, width: int, after: int, before: int | None) -> SeriesPage:
        return await self._read(history_sql.series, selection, width, after, before)

    async def extent(self) -> HistoryExtent:
        return await self._read(history_sql.extent)

    async def close(self) -> None:
        try:
            await self._worker(self._disconnect)
        finally:
            await self._worker.close()

    async def _read(self, verb: Callable[Concatenate[apsw.Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._worker(lambda: self._opened().read(verb, *args, **kwargs))

    def _opened(self) -> Database:
        """The file under its name now."""
        found = _number(self._path)
        if self._database is None or found != self._file:
            self._disconnect()
            try:
                self._database = Database(self._path, HISTORY, read_only=True, journal=self._journal)
            except SettingsError as error:
                raise StoreFailed(str(error)) from error
            self._file = found
        return self._database

    def _disconnect(self) -> None:
        if self._database is not None:
            database, self._database = self._database, None
            database.close()

    def _clean_up(self) -> None:
        """A reader has no housekeeping."""


class SqliteHistory(SqliteHistoryReader):
    """Writes history.db while its disk `has_room`: the last room is for the stores that may not lose anything.

    `now` is the clock of the attempts; if the file is lost, marks continue from the time of `wall`.
    """

    def __init__(
        self,
        directory: Path,
        keep: HistoryBounds,
        now: Callable[[], int],
        wall: Clock,
        *,
        threaded: bool = True,
        has_room: Callable[[], bool] = lambda: True,
        journal: Journal = silent,
    ) -> None:
        self._keep = keep
        self._has_room = has_room
        self._now = now
        self._wall = wall
        self._waiting: list[Attempt] = []
        self._events = 0
        self._omitted = 0
        self._bounds = ChunkTotals(0, 0)
        super().__init__(directory, threaded=threaded, journal=journal)

    def record(self, attempt: Attempt) -> None:
        if self._events >= limits.HISTORY_WAITING_EVENTS:
            self._omitted += 1
            return
        self._waiting.append(attempt)
        self._events += len(attempt.ids) + 1
        if attempt.headers is not None:
            self._events += limits.HISTORY_HEADERS_WEIGHT

    async def flush(self) -> None:
        waiting, self._waiting, self._events = self._waiting, [], 0
        omitted, self._omitted = self._omitted, 0
        self._omitted += await self._worker(partial(self._store, waiting, omitted))

    async def run(self) -> None:
        """Store recorded attempts twice a second, forever."""
        flushes = 0
        while True:
            await self._wall.sleep_until(self._wall.now() + FLUSH_EVERY_NS)
            flushes += 1
            if self._waiting or self._omitted or flushes % TIDY_EVERY == 0:
                await self.flush()

    async def close(self) -> None:
        await self.flush()
        await super().close()

    async def _read(self, verb: Callable[Concatenate[apsw.Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        await self.flush()
        return await super()._read(verb, *args, **kwargs)

    def _opened(self) -> Database:
        """The file; one that cannot be read is set aside first."""
        if self._database is None:
            try:
                self._begin()
            except StoreFailed as error:
                self._journal("history.set_aside", file=self._path.name, why=str(error))
                self._set_aside()
                self._begin()
        assert self._database is not None
        return self._database

    def _begin(self) -> None:
        try:
            database = Database(self._path, HISTORY, medium=UNSYNCED, journal=self._journal)
        except SettingsError as error:
            raise StoreFailed(str(error)) from error
        try:
            found = database.read(history_sql.bounds)
        except BaseException:
            database.close()
            raise
        self._database = database
        self._bounds = found._replace(newest=max(found.newest, self._wall.now() // 1000))

    def _clean_up(self) -> None:
        if self._database is not None:
            self._database.checkpoint()

    def _store(self, attempts: list[Attempt], omitted: int) -> int:
        """In the worker: store attempts, and return the number of those lost. A faulty file does not stop delivery."""
        if attempts and not self._has_room():
            return len(attempts) + omitted
        try:
            database = self._opened()
            self._bounds = database.write(history_sql.write, attempts, omitted, self._bounds, self._keep, self._now())
        except StoreFailed as error:
            self._journal("history.failed", why=str(error), attempts=len(attempts))
            if _is_damage(error):
                self._disconnect()
            return len(attempts) + omitted
        return 0

    def _set_aside(self) -> None:
        """Rename the file, for inspection; the one that was set aside before is replaced."""
        for tail in ("", "-wal", "-shm"):
            part = self._path.with_name(self._path.name + tail)
            try:
                part.replace(self._path.with_name(self._path.name + ASIDE + tail))
            except FileNotFoundError:
                continue
            except OSError as error:
                raise StoreFailed(f"{part.name} cannot be moved away: {error.strerror}") from error


def _number(path: Path) -> int | None:
    try:
        return path.stat().st_ino
    except OSError:
        return None


def _is_damage(error: Exception) -> bool:
    """Whether the file must be opened again; after a full disk that is not necessary."""
    return isinstance(error.__cause__, apsw.CorruptError | apsw.NotADBError | apsw.SQLError | SettingsError)
