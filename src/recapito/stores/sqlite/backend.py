"""The backend on SQLite: the files of a data directory, locked for each role and opened as it may use them."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar

from recapito.clock import Clock, SystemClock
from recapito.contracts.backend import PreparedState, Stores
from recapito.contracts.history import HistoryBounds, HistoryReader
from recapito.domain import limits
from recapito.domain.capacity import Room, Shares, Space, share_out
from recapito.errors import SettingsError
from recapito.observability.journal import Journal, silent
from recapito.stores.sqlite.files.backup import COPY_MARKERS
from recapito.stores.sqlite.files.connection import DISK, LOG
from recapito.stores.sqlite.files.damage import inspect, leave_sign, reason, stopped_uncleanly
from recapito.stores.sqlite.files.fit import find_misfit
from recapito.stores.sqlite.files.lock import lock_role, trimming_allowed
from recapito.stores.sqlite.files.volume import Ballast, check_directory, free_bytes, room_on, total_bytes
from recapito.stores.sqlite.history import SqliteHistory, SqliteHistoryReader
from recapito.stores.sqlite.ledger import SqliteLedger
from recapito.stores.sqlite.log import SqliteLog
from recapito.system.durable_names import make_directory

S = TypeVar("S", SqliteLog, SqliteLedger)
R = TypeVar("R", SqliteLog, SqliteLedger, SqliteHistoryReader)


class SqliteOptions(NamedTuple):
    """The data directory of a server and the use that it makes of its volume.

    keep: the bounds of the history; None: none is kept.
    stop_fraction, stop_bytes: the free room below which intake closes is the smaller of both.
    ballast_bytes: the most that the ballast may take.
    allow_network: whether the directory may be on a network file system.
    """

    data: Path
    keep: HistoryBounds | None
    stop_fraction: float = limits.DISK_STOP_FRACTION
    stop_bytes: int = limits.DISK_STOP_BYTES
    ballast_bytes: int = limits.BALLAST_BYTES
    allow_network: bool = False


class SqliteBackend:
    """The files of one data directory. Locks of the operating system keep each role to one process."""

    def __init__(self, options: SqliteOptions, journal: Journal = silent) -> None:
        self._options = options
        self._data = options.data
        self._journal = journal

    def __repr__(self) -> str:
        return f"<SqliteBackend on {self._data}>"

    async def prepare(self) -> PreparedState:
        data = self._data
        try:
            make_directory(data)
        except OSError as error:
            raise SettingsError(f"server.data: {data} cannot be created: {error.strerror}") from None
        check_directory(data, self._options.allow_network)
        _check_whole(data)
        newest = max((file.stat().st_mtime_ns for file in data.glob("*.db*")), default=0)
        doubtful = stopped_uncleanly(data)
        async with self.open_both(SystemClock()):
            self._check_fit()
            return PreparedState(newest, doubtful)

    @asynccontextmanager
    async def open_both(self, clock: Clock) -> AsyncIterator[Stores]:
        with lock_role(self._data, "intake"), lock_role(self._data, "dispatch"):
            async with (
                self._writing(SqliteLog) as log,
                self._writing(SqliteLedger) as ledger,
                self._recording(clock) as history,
            ):
                stores = self._stores_of_intake(log, ledger, history)
                no_trimming = partial(trimming_allowed, self._data)
                yield replace(stores, recording=history, room=self._room_of(ledger), no_trimming=no_trimming)

    @asynccontextmanager
    async def open_intake(self, clock: Clock) -> AsyncIterator[Stores]:
        with lock_role(self._data, "intake"):
            async with (
                self._writing(SqliteLog) as log,
                closing(self._open_reader(SqliteLedger, threaded=True)) as ledger,
                closing(SqliteHistoryReader(self._data, journal=self._journal)) as history,
            ):
                yield self._stores_of_intake(log, ledger, None if self._options.keep is None else history)

    @asynccontextmanager
    async def open_dispatch(self, clock: Clock) -> AsyncIterator[Stores]:
        with lock_role(self._data, "dispatch"):
            async with (
                self._writing(SqliteLedger) as ledger,
                closing(self._open_reader(SqliteLog, threaded=False)) as log,
                self._recording(clock) as history,
            ):
                yield Stores(
                    log,
                    log,
                    ledger,
                    history,
                    history,
                    room=self._room_of(ledger),
                    no_trimming=partial(trimming_allowed, self._data),
                )

    def _check_fit(self) -> None:
        """Close intake if lanes and logs do not fit: it would use positions again that lanes have passed."""
        found = find_misfit(self._data)
        if found:
            leave_sign(self._data, LOG.file, found)
            remedy = f"recapito doctor --data {self._data}"
            self._journal("store.suspect", file=LOG.file, why=found, remedy=remedy)

    async def inspect(self) -> None:
        await inspect(self._data, self._journal)

    def _stores_of_intake(self, log: SqliteLog, ledger: SqliteLedger, history: HistoryReader | None) -> Stores:
        measure = self._measure_of(log, ledger)
        return Stores(
            log,
            log,
            ledger,
            history,
            space=_space_of(log, ledger, measure),
            measure=measure,
            trimming=partial(_trimming, self._data),
            damage=partial(reason, self._data),
        )

    def _shares(self) -> Shares:
        options = self._options
        return share_out(total_bytes(self._data), options.stop_fraction, options.stop_bytes, options.ballast_bytes)

    def _writing(self, kind: type[S]) -> AbstractAsyncContextManager[S]:
        """A store that is open to be written."""
        shares = self._shares()
        medium = DISK._replace(checkpoint_bytes=shares.checkpoint, wal_kept_bytes=shares.wal_kept)
        return closing(
            kind.open(
                self._data,
                medium=medium,
                ballast=Ballast(self._data, shares.ballast),
                allow_network=self._options.allow_network,
                journal=self._journal,
            )
        )

    def _open_reader(self, kind: type[S], threaded: bool) -> S:
        """A store of the other role."""
        return kind.open_reader(self._data, threaded=threaded, journal=self._journal)

    @asynccontextmanager
    async def _recording(self, clock: Clock) -> AsyncIterator[SqliteHistory | None]:
        """The history that is written here, if one is kept; a task stores it twice a second."""
        if self._options.keep is None:
            yield None
            return
        data, shares, keep = self._data, self._shares(), self._options.keep
        history = SqliteHistory(
            data,
            keep._replace(size=min(keep.size, shares.history)),
            clock.now,
            SystemClock(),
            has_room=lambda: free_bytes(data) >= 2 * shares.stop,
            journal=self._journal,
        )
        await history.flush()  # makes the file
        storing = asyncio.create_task(history.run())
        try:
            yield history
        finally:
            storing.cancel()
            await asyncio.wait([storing])
            await history.close()

    def _room_of(self, ledger: SqliteLedger) -> Callable[[], Room]:
        data, floor = str(self._data), self._shares().floor
        return lambda: Room(free_bytes(data) + ledger.reusable, floor)

    def _measure_of(self, log: SqliteLog, ledger: SqliteLedger) -> Callable[[], Space]:
        directory = str(self._data)

        def measure() -> Space:
            free, total = room_on(directory)
            return Space(free, total, reusable=log.reusable + ledger.reusable)

        return measure


def _check_whole(data: Path) -> None:
    """Refuse a ledger without its log: a new log would use positions again that lanes have passed.

    Also refuse copies of streams: commits that are not published would be lost with the copy.
    """
    for marker in data.glob(COPY_MARKERS):
        raise SettingsError(
            f"{data} has copies of a cluster's stores ({marker.name}): serve it with the cluster's `server.store`, or "
            "choose another directory."
        )
    log, ledger = data / SqliteLog.KIND.file, data / SqliteLedger.KIND.file
    if ledger.exists() and not log.exists():
        raise SettingsError(
            f"{log} is missing, and {ledger.name} is there: put it back, restore a backup, or move {ledger.name} away "
            "too to begin anew."
        )


@asynccontextmanager
async def closing(store: R) -> AsyncIterator[R]:
    try:
        yield store
    finally:
        await store.close()


def _space_of(log: SqliteLog, ledger: SqliteLedger, measure: Callable[[], Space]) -> Callable[[], Space]:
    directory = log.database.path.parent

    def space() -> Space:
        lost = (store.KIND.file for store in (log, ledger) if not store.database.in_place)
        return measure()._replace(lost=next(lost, ""), damage=reason(directory))

    return space


def _trimming(data: Path) -> AbstractContextManager[bool]:
    """Nothing is trimmed from files that may be damaged: a person wants to see them, and deleting makes it worse."""
    return nullcontext(False) if reason(data) else trimming_allowed(data)
