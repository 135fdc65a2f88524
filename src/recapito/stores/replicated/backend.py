"""The backend on replicated SQLite files: one node owns the streams and writes, the others follow.

The files are those of the embedded store, and so are the stores that the roles get; only the way to a commit differs.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar

from recapito.contracts.backend import PreparedState
from recapito.contracts.stream import Stream, Streams
from recapito.domain import limits
from recapito.domain.capacity import Room, Space
from recapito.errors import SettingsError, StoreFailed, StoreLost
from recapito.observability.journal import Journal, silent
from recapito.stores.replicated.database import ReplicatedDatabase, marker_file, spoilt_file
from recapito.stores.sqlite.async_store import AsyncStore
from recapito.stores.sqlite.backend import SqliteBackend, SqliteOptions, closing
from recapito.stores.sqlite.database import Database
from recapito.stores.sqlite.files.connection import DISK, DISPATCH, LOG, FileKind
from recapito.stores.sqlite.files.lock import lock_role
from recapito.stores.sqlite.files.volume import Ballast, check_directory
from recapito.stores.sqlite.ledger import SqliteLedger
from recapito.stores.sqlite.log import SqliteLog
from recapito.system.durable_names import make_directory

S = TypeVar("S", SqliteLog, SqliteLedger)
T = TypeVar("T")
LOOK_S = 0.2  # between the looks of a standby at streams that do not move


class View(NamedTuple):
    """How far the local copy of a stream is, and how full the stream was when it was last measured.

    `doubt`: the outcome of a commit is unknown.
    """

    stream: str
    applied: int
    epoch: int
    bytes: int
    max_bytes: int
    doubt: bool = False


class ReplicatedBackend(SqliteBackend):
    """The copies of a cluster's stores in one data directory, and the streams that they are copies of.

    A node's life: `prepare` brings the copies up to date; a standby calls `follow` until it is cancelled; the node that
    is to own calls `claim`, which fences every other owner, and then opens the roles, in this process or in others with
    backends of their own on the same directory: they continue the claim that the directory holds. A verb of a store
    that another node has claimed raises StoreLost, and `lost` is called once for each file, from any thread.
    """

    def __init__(
        self,
        options: SqliteOptions,
        streams: Streams,
        node: str,
        journal: Journal = silent,
        lost: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(options, journal)
        self._streams = streams
        self._node = node
        self._lost = lost
        self._databases: dict[str, ReplicatedDatabase] = {}

    def __repr__(self) -> str:
        return f"<ReplicatedBackend of {self._node} on {self._data}>"

    async def prepare(self) -> PreparedState:
        """Load the copies, or bring them up to date, without owning anything."""
        self._make_directory()
        newest = max((file.stat().st_mtime_ns for file in self._data.glob("*.db*")), default=0)
        async with self._alone() as databases:
            for database in databases:
                await _in_thread(database.catch_up)
                await _in_thread(database.verify)
        return PreparedState(newest, doubtful=False)

    async def follow(self) -> None:
        """Apply the owner's commits as they come, until cancelled. A stream that is out of reach is tried again."""
        async with self._alone() as databases:
            while True:
                moved = False
                for database in databases:
                    before = database.note.sequence
                    try:
                        moved |= await _in_thread(database.catch_up) != before
                    except StoreFailed as error:
                        self._journal("replica.behind", stream=database.stream.name, why=error)
                if not moved:
                    await asyncio.sleep(LOOK_S)

    async def claim(self) -> int:
        """Own both streams: fence every other owner, then read the rest. Return the epoch of the claim.

        StoreFailed: out of reach, nothing is owned for certain; calling again is safe.
        """
        async with self._alone() as databases:
            epochs = [await _in_thread(database.claim) for database in databases]
        return epochs[0]

    async def found(self, first_id: int = 0) -> None:
        """Publish the content of the directory, or empty stores, as the beginning of two new streams.

        Topics and subscriptions of an empty store get ids above `first_id`.
        """
        self._make_directory()
        async with self._alone(founding=True) as databases:
            for database in databases:
                await _in_thread(partial(database.found, first_id))

    def views(self) -> list[View]:
        """The copies that are open here, for status and metrics."""
        return [
            View(
                database.stream.name,
                database.note.sequence,
                database.note.epoch,
                database.fill.bytes,
                database.fill.max_bytes,
                database.in_doubt,
            )
            for database in self._databases.values()
        ]

    async def inspect(self) -> None:
        """A copy is not inspected: it is read whole when it is claimed."""

    def _make_directory(self) -> None:
        try:
            make_directory(self._data)
        except OSError as error:
            raise SettingsError(f"server.data: {self._data} cannot be created: {error.strerror}") from None
        check_directory(self._data, self._options.allow_network)

    @asynccontextmanager
    async def _alone(self, founding: bool = False) -> AsyncIterator[list[ReplicatedDatabase]]:
        """Both files, while no role has them open."""
        with lock_role(self._data, "intake"), lock_role(self._data, "dispatch"), contextlib.ExitStack() as opened:
            databases = []
            for kind in (LOG, DISPATCH):
                if not founding:
                    _discard_if_spoilt(self._data / kind.file)
                databases.append(opened.enter_context(self._opened(kind, founding)))
            yield databases

    @contextmanager
    def _opened(self, kind: FileKind, founding: bool = False) -> Iterator[ReplicatedDatabase]:
        database = self._open_copy(kind, founding)
        try:
            yield database
        finally:
            self._forget(database)
            database.close()

    def _open_copy(self, kind: FileKind, founding: bool = False) -> ReplicatedDatabase:
        path = self._data / kind.file
        if path.exists() and not marker_file(path).exists() and not founding:
            raise SettingsError(
                f"{path} is an embedded store, not a copy of a cluster's: choose another directory, or bring it into "
                "the cluster by `recapito move`."
            )
        shares = self._shares()
        medium = DISK._replace(synchronous="OFF", checkpoint_bytes=shares.checkpoint, wal_kept_bytes=shares.wal_kept)
        database = ReplicatedDatabase(
            path,
            kind,
            self._stream_of(kind),
            self._node,
            medium,
            founding=founding,
            ballast=Ballast(self._data, shares.ballast),
            journal=self._journal,
            lost=self._lost,
        )
        self._databases[kind.name] = database
        return database

    def _forget(self, database: Database) -> None:
        for name, known in list(self._databases.items()):
            if known is database:
                del self._databases[name]

    def _stream_of(self, kind: FileKind) -> Stream:
        return self._streams.log if kind == LOG else self._streams.lanes

    def _writing(self, kind: type[S]) -> AbstractAsyncContextManager[S]:
        return self._owned(kind)

    @asynccontextmanager
    async def _owned(self, kind: type[S]) -> AsyncIterator[S]:
        if not (self._data / kind.KIND.file).exists():
            raise SettingsError(f"{self._data / kind.KIND.file} does not exist: the node has claimed nothing.")
        database = self._open_copy(kind.KIND)
        try:
            await _in_thread(database.resume)
            store = kind(database, threaded=True, journal=self._journal)
        except BaseException:
            self._forget(database)
            database.close()
            raise
        async with closing(store):
            try:
                yield store
            finally:
                self._forget(database)

    def _open_reader(self, kind: type[S], threaded: bool) -> S:
        path = self._data / kind.KIND.file
        return kind(CopyReader(path, kind.KIND, self._lost, self._journal), threaded, self._journal)

    def _room_of(self, ledger: SqliteLedger) -> Callable[[], Room]:
        of_volume = super()._room_of(ledger)

        def room() -> Room:
            room, left = of_volume(), _left(ledger, limits.STREAM_WRITES_FILL)
            return room if left is None else Room(min(room.free, room.floor + left), room.floor)

        return room

    def _measure_of(self, log: SqliteLog, ledger: SqliteLedger) -> Callable[[], Space]:
        of_volume, stop = super()._measure_of(log, ledger), self._shares().stop

        def measure() -> Space:
            space, left = of_volume(), _left(log, limits.STREAM_APPENDS_FILL)
            if left is None or stop + left >= space.usable:
                return space
            return space._replace(free=min(space.free, stop + left), reusable=0)

        return measure


class CopyReader(Database):
    """A copy of the other role's stream, which its own process writes."""

    def __init__(self, path: Path, kind: FileKind, lost: Callable[[], None], journal: Journal) -> None:
        super().__init__(path, kind, read_only=True, journal=journal)
        self._lost = lost

    def meet_damage(self, why: str) -> None:
        """Leave the damaged row to the stream, which has it whole: the copy is thrown away when it is opened next."""
        spoilt_file(self.path).touch()
        self._lost()
        raise StoreLost(f"{self.path.name} is spoilt: {why}")


def _left(store: AsyncStore, fraction: float) -> int | None:
    """The bytes that a stream may still take before a fraction of it is full; None: it has no bound."""
    database = store.database
    if not isinstance(database, ReplicatedDatabase) or not database.fill.max_bytes:
        return None
    return max(0, int(fraction * database.fill.max_bytes) - database.fill.bytes)


def _discard_if_spoilt(path: Path) -> None:
    spoilt = spoilt_file(path)
    if spoilt.exists():
        for file in (path, path.with_name(path.name + "-wal"), path.with_name(path.name + "-shm"), spoilt):
            file.unlink(missing_ok=True)


async def _in_thread(call: Callable[[], T]) -> T:
    """Run a blocking call; a cancellation waits for its end, because it uses a file that is closed then."""
    running = asyncio.ensure_future(asyncio.to_thread(call))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        with contextlib.suppress(Exception):
            await running
        raise
