"""History on SQLite: one file, history.db, that dispatch writes and everybody may read; nothing waits for a disk.

What is recorded gathers in memory and is stored in chunks. A file that can not be opened or is damaged is set aside and
begun anew; one that can not be written costs the attempts that it should have kept, and they are counted.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

import apsw

from recapito.clock import SECOND, Clock
from recapito.contracts.history import Extent, Keep, Page
from recapito.domain import limits
from recapito.domain.history.attempt import Attempt, AttemptQuery
from recapito.errors import SettingsError, StoreFailed
from recapito.observability.journal import Journal, silent
from recapito.stores.sqlite.database import Database
from recapito.stores.sqlite.files.connection import HISTORY, Medium
from recapito.stores.sqlite.sql import history_sql
from recapito.stores.sqlite.sql.history_sql import Bounds
from recapito.stores.sqlite.worker import InlineWorker, ThreadWorker, Worker

P = ParamSpec("P")
T = TypeVar("T")

FLUSH_EVERY_NS = SECOND // 2
TIDY_EVERY = 120  # flushes: what has grown too old goes even when nothing is recorded
UNSYNCED = Medium(synchronous="OFF")
ASIDE = ".damaged"


class SqliteHistoryReader:
    """Reads history.db, also one that is made or begun anew while we run."""

    def __init__(self, directory: Path, *, threaded: bool = True, journal: Journal = silent) -> None:
        self._path = directory / HISTORY.file
        self._journal = journal
        self._database: Database | None = None
        self._file: int | None = None  # by its number, which tells whether it is still the one under its name
        self._worker: Worker = (
            ThreadWorker("store-history", self._clean_up) if threaded else InlineWorker(self._clean_up)
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__} on {self._path}>"

    async def newest_first(self, selection: AttemptQuery, before: int | None, limit: int) -> Page:
        return await self._read(history_sql.newest_first, selection, before, limit)

    async def oldest_first(self, selection: AttemptQuery, after: int, limit: int) -> Page:
        return await self._read(history_sql.oldest_first, selection, after, limit)

    async def extent(self) -> Extent:
        return await self._read(history_sql.extent)

    async def close(self) -> None:
        try:
            await self._worker(self._let_go)
        finally:
            await self._worker.close()

    async def _read(self, verb: Callable[Concatenate[apsw.Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._worker(lambda: self._opened().read(verb, *args, **kwargs))

    def _opened(self) -> Database:
        """The file under its name now."""
        found = _number(self._path)
        if self._database is None or found != self._file:
            self._let_go()
            try:
                self._database = Database(self._path, HISTORY, read_only=True, journal=self._journal)
            except SettingsError as error:
                raise StoreFailed(str(error)) from error
            self._file = found
        return self._database

    def _let_go(self) -> None:
        if self._database is not None:
            database, self._database = self._database, None
            database.close()

    def _clean_up(self) -> None:
        """A reader leaves nothing."""


class SqliteHistory(SqliteHistoryReader):
    """Writes history.db, while its disk `has_room`: the last of it is for what may not be lost.

    `now` is the clock of the attempts; marks go on from the wall's, should the file be lost.
    """

    def __init__(
        self,
        directory: Path,
        keep: Keep,
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
        self._bounds = Bounds(0, 0)
        super().__init__(directory, threaded=threaded, journal=journal)

    def record(self, attempt: Attempt) -> None:
        if self._events >= limits.HISTORY_WAITING_EVENTS:
            self._omitted += 1
            return
        self._waiting.append(attempt)
        self._events += len(attempt.ids) + 1

    async def flush(self) -> None:
        waiting, self._waiting, self._events = self._waiting, [], 0
        omitted, self._omitted = self._omitted, 0
        self._omitted += await self._worker(partial(self._store, waiting, omitted))

    async def run(self) -> None:
        """Store what was recorded, twice a second, for ever."""
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
        """The file; one that can not be read is set aside first."""
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
        """In the pump: store attempts. Whatever is wrong with the file, delivery goes on; how many are not counted."""
        if attempts and not self._has_room():
            return len(attempts) + omitted
        try:
            database = self._opened()
            self._bounds = database.write(history_sql.write, attempts, omitted, self._bounds, self._keep, self._now())
        except StoreFailed as error:
            self._journal("history.failed", why=str(error), attempts=len(attempts))
            if _is_damage(error):
                self._let_go()
            return len(attempts) + omitted
        return 0

    def _set_aside(self) -> None:
        """Give the file another name, for whoever wants to look; the one set aside before goes."""
        for tail in ("", "-wal", "-shm"):
            part = self._path.with_name(self._path.name + tail)
            try:
                part.replace(self._path.with_name(self._path.name + ASIDE + tail))
            except FileNotFoundError:
                continue
            except OSError as error:
                raise StoreFailed(f"{part.name} can not be moved away: {error.strerror}") from error


def _number(path: Path) -> int | None:
    try:
        return path.stat().st_ino
    except OSError:
        return None


def _is_damage(error: Exception) -> bool:
    """Whether the file must be opened anew to be better; a full disk may have room again."""
    return isinstance(error.__cause__, apsw.CorruptError | apsw.NotADBError | apsw.SQLError | SettingsError)
