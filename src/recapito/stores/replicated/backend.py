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
from recapito.contracts.stream import Stream, StreamMissing, Streams, StreamUnknown
from recapito.domain import limits
from recapito.domain.capacity import Room, Space, StreamRoom
from recapito.errors import SettingsError, StoreDamaged, StoreFailed, StoreLost
from recapito.observability.journal import Journal, silent
from recapito.stores.replicated.copy import is_blank
from recapito.stores.replicated.database import ReplicatedDatabase, marker_file, spoilt_file
from recapito.stores.replicated.message import unpack
from recapito.stores.replicated.rows import Digest
from recapito.stores.sqlite.async_store import AsyncStore
from recapito.stores.sqlite.backend import SqliteBackend, SqliteOptions, closing
from recapito.stores.sqlite.database import Database
from recapito.stores.sqlite.files.backup import check_cursors
from recapito.stores.sqlite.files.connection import DISK, DISPATCH, LOG, FileKind, open_reader
from recapito.stores.sqlite.files.lock import lock_role
from recapito.stores.sqlite.files.volume import Ballast, check_directory
from recapito.stores.sqlite.ledger import SqliteLedger
from recapito.stores.sqlite.log import SqliteLog
from recapito.system.durable_names import make_directory

S = TypeVar("S", SqliteLog, SqliteLedger)
T = TypeVar("T")
SNAPSHOT_TRIES = 20  # the owner trims once a second
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

    async def snapshot(self) -> dict[str, Digest]:
        """Load both streams into an empty directory so that they fit together, while their owner goes on.

        It owns nothing. The lanes are read before the log, so that every cursor lies within it. If the owner trimmed
        entries in between that a cursor needs, both are read on. The digests are those that the owner published.
        """
        self._make_directory()
        async with self._alone() as (log, lanes):
            for tries in reversed(range(SNAPSHOT_TRIES)):
                await _in_thread(lanes.catch_up)
                await _in_thread(log.catch_up)
                try:
                    await _in_thread(lambda: _check_fit(self._data))
                    break
                except SettingsError as error:
                    if not tries:
                        raise StoreFailed(str(error)) from error
            for database in (log, lanes):
                if await _in_thread(database.digest) != database.note.digest:
                    raise StoreDamaged(f"stream {database.stream.name} does not have all rows that its owner stored")
            return {database.path.name: database.note.digest for database in (log, lanes)}

    async def upgrade(self) -> dict[str, tuple[int, int]]:
        """Bring both streams to the schema of this version, in an empty directory, while no node runs.

        Each is loaded with its own schema, claimed, migrated as an embedded file is, and published again as a whole;
        then the old messages are purged. Broken off at any moment, it can be run again. The result has, by file, the
        schemas before and after.
        """
        self._make_directory()
        done = {}
        with lock_role(self._data, "intake"), lock_role(self._data, "dispatch"):
            for kind in (LOG, DISPATCH):
                before = await _in_thread(lambda kind=kind: _schema_in(self._stream_of(kind)))  # type: ignore[misc]
                if before > len(kind.steps):
                    raise StoreFailed(f"{kind.file} has schema {before}, and this version of recapito is older")
                done[kind.file] = before, len(kind.steps)
                if before < len(kind.steps):
                    with self._opened(kind._replace(version=before)) as old:
                        await _in_thread(old.claim)
                    with self._opened(kind) as new:
                        await _in_thread(new.found_anew)
        return done

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
        if path.exists() and not marker_file(path).exists() and not founding and not is_blank(path):
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
        return self._streams.log if kind.name == LOG.name else self._streams.lanes

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
        of_volume = super()._measure_of(log, ledger)

        def measure() -> Space:
            left, database = _left(log, limits.STREAM_APPENDS_FILL), log.database
            if left is None or not isinstance(database, ReplicatedDatabase):
                return of_volume()
            bound = int(limits.STREAM_APPENDS_FILL * database.fill.max_bytes)
            return of_volume()._replace(stream=StreamRoom(database.stream.name, left, bound))

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


def _check_fit(data: Path) -> None:
    """SettingsError if the cursors of one file do not lie within the log of the other."""
    with (
        contextlib.closing(open_reader(data / LOG.file, LOG)) as log,
        contextlib.closing(open_reader(data / DISPATCH.file, DISPATCH)) as dispatch,
    ):
        check_cursors(log, dispatch)


def _schema_in(stream: Stream) -> int:
    """The schema of the oldest message of a stream. StoreFailed: it cannot be read, or is newer than this version."""
    try:
        messages = stream.read(0, 1, leader=True)
    except (StreamUnknown, StreamMissing) as error:
        raise StoreFailed(f"stream {stream.name} cannot be read: {error}") from error
    if not messages:
        raise StoreFailed(f"stream {stream.name} is empty")
    return unpack(messages[0].body, None).head.schema


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
