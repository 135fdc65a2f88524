"""One database file and its connection: verbs run in transactions, and a failure puts us back on what is stored.

A failed commit is unknown, not undone: the connection is closed and the file opened again, so that what is served next
is what the disk has. Until that works every call tries it again and raises StoreFailed.
"""

import contextlib
import io
from collections.abc import Callable
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

import apsw

from recapito.domain import limits
from recapito.errors import SettingsError, StoreDamaged, StoreFailed, VolumeFull
from recapito.observability.journal import Journal, silent
from recapito.stores.sqlite.files import damage
from recapito.stores.sqlite.files.connection import DISK, FileKind, Medium, open_reader, open_writer
from recapito.stores.sqlite.files.damage import FileWatch, Lost
from recapito.stores.sqlite.files.volume import Ballast, free_bytes
from recapito.stores.sqlite.sql_files import transact

P = ParamSpec("P")
T = TypeVar("T")
DAMAGE = (apsw.CorruptError, apsw.NotADBError)  # how SQLite says that a file is not what it wrote


class Database:
    """A file of one kind. A verb is a function of the connection; it is run whole or not at all."""

    def __init__(
        self,
        path: Path,
        kind: FileKind,
        *,
        read_only: bool = False,
        medium: Medium = DISK,
        ballast: Ballast | None = None,
        journal: Journal = silent,
    ) -> None:
        self.path = path
        self._kind = kind
        self.read_only = read_only
        self._medium = medium
        self._ballast = ballast
        self._journal = journal
        self._page_bytes = 0
        self._wal_pages = 0
        self._checkpointed_pages = 0
        self._closed = False
        self._signs: set[str] = set()
        self._watched = kind.promised and medium.vfs is None
        self._footing: FileWatch | None = None
        self._connection: apsw.Connection | None = self._open_first()
        self._number = None if medium.vfs else path.stat().st_ino
        if ballast is not None:
            ballast.take()

    def __repr__(self) -> str:
        state = "reading" if self.read_only else "open"
        if self._connection is None:
            state = "closed" if self._closed else "failed"
        return f"<Database {self.path} {state}>"

    @property
    def in_place(self) -> bool:
        """Whether the file still has its name. SQLite goes on writing to one that was removed, as if nothing were.

        Any thread may ask: it does not look at what a checkpoint, in the thread that writes, is changing.
        """
        try:
            return self._number in (None, self.path.stat().st_ino)
        except OSError:
            return False

    def suspect(self, why: str) -> None:
        """A sign that the file is damaged: it is journalled once, and marked until a person has looked."""
        if why not in self._signs:
            self._signs.add(why)
            self._journal("store.suspect", file=self.path.name, why=why)
            if self._watched:
                damage.leave_sign(self.path.parent, self.path.name, why)

    def read(self, verb: Callable[Concatenate[apsw.Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a verb that reads: it sees one state of the file. Signs of damage are noted; what can be read is."""
        connection = self._connected()
        self._look()
        try:
            connection.execute("BEGIN")
            try:
                return verb(connection, *args, **kwargs)
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")  # after a damaged page was met a COMMIT would fail
        except apsw.Error as error:
            raise self._failed(error) from error

    def write(self, verb: Callable[Concatenate[apsw.Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a verb that writes: what it wrote is durable when this returns."""
        return self._commit(lambda connection: verb(connection, *args, **kwargs), drains=False)

    def drain(self, verb: Callable[Concatenate[apsw.Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """As `write`, for what brings work to an end: on a full disk it gets the ballast's room."""
        return self._commit(lambda connection: verb(connection, *args, **kwargs), drains=True)

    @property
    def uncopied(self) -> int:
        """The bytes in the WAL that are not in the file yet; for a reader 0."""
        return (self._wal_pages - self._checkpointed_pages) * self._page_bytes

    def checkpoint(self) -> None:
        """Copy the WAL into the file if it has grown: after a commit, never inside one, by its only writer."""
        if self._connection is None or self.uncopied < self._medium.checkpoint_bytes or self._look():
            return
        try:
            self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        except apsw.Error as error:  # nothing is lost: the WAL has it, and is copied after the next commit
            self._journal("store.checkpoint_failed", file=self.path.name, why=error)
            if isinstance(error, apsw.FullError):
                self._release_ballast()
            return
        finally:
            if self._footing is not None:
                self._footing.remember()  # a checkpoint that failed has written as well
        self._checkpointed_pages = self._wal_pages
        if self._ballast is not None:
            self._ballast.take()

    def close(self) -> None:
        """Close the file for good. SQLite copies the WAL into it if nobody else reads."""
        self._closed = True
        self._disconnect()

    def _connected(self) -> apsw.Connection:
        if self._connection is None:
            if self._closed:
                raise StoreFailed(f"{self.path.name} is closed")
            try:
                self._connection = self._open(make=False)
            except (apsw.Error, OSError, SettingsError) as error:
                raise StoreFailed(f"{self.path.name} can not be opened: {error}") from error
            self._journal("store.reopened", file=self.path.name)
        return self._connection

    def _disconnect(self) -> None:
        if self._connection is not None:
            connection, self._connection = self._connection, None
            connection.close(True)

    def _open(self, make: bool) -> apsw.Connection:
        if self.read_only:
            return open_reader(self.path, self._kind)
        connection = open_writer(self.path, self._kind, self._medium, make)
        try:
            self._wal_pages = self._checkpointed_pages = 0
            self._page_bytes = int(connection.pragma("page_size"))
            connection.set_wal_hook(self._committed)
            self._make_durable(connection)
            if self._watched:
                self._footing = FileWatch(self.path, self._page_bytes, self._medium.trusted_times)
        except BaseException:
            connection.close(True)
            raise
        return connection

    def _open_first(self) -> apsw.Connection:
        """Open the file as we start; on a full volume with the ballast's room, for what is stored is to be drained."""
        try:
            return self._open(make=True)
        except (apsw.Error, SettingsError) as error:
            if self._medium.vfs is None and _has_no_room(self.path.parent):
                if self._release_ballast():
                    return self._open_first()
                raise VolumeFull(f"{self.path} can not be opened, for its volume is full: make room.") from error
            if isinstance(error, SettingsError):
                raise
            raise SettingsError(f"{self.path} can not be opened: {error}.") from error

    def _make_durable(self, connection: apsw.Connection) -> None:
        """Whatever the WAL held is copied into the file and synced before anything is built on it.

        A commit whose sync failed may be read back from the page cache and yet never reach the disk; with it would be
        lost all that follows it in the WAL. A reader in the way means that the WAL was never out of use.
        """
        with contextlib.suppress(apsw.BusyError, apsw.FullError):
            connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)

    def _committed(self, connection: apsw.Connection, name: str, pages: int) -> int:
        """SQLite calls this after each commit, with the length of the WAL; a shorter one has begun anew."""
        if pages < self._wal_pages:
            self._checkpointed_pages = 0
        self._wal_pages = pages
        return apsw.SQLITE_OK

    def _commit(self, work: Callable[[apsw.Connection], T], drains: bool) -> T:
        if self.read_only:
            raise io.UnsupportedOperation(f"{self.path.name} was opened to be read")
        connection = self._connected()
        self._stand()  # a WAL that was cut is as long as it should be after the next commit, with a hole in it
        try:
            result = transact(connection, work)
            self._stand()
            return result
        except apsw.Error as error:
            if not _is_full(error) or connection.in_transaction:
                raise self._failed(error) from error
            if not drains or not self._release_ballast():  # it is known that nothing was stored: we are on what is
                self._journal("store.full", file=self.path.name, why=error)
                raise StoreFailed(f"{self.path.name}: {error}") from error
        return self._commit(work, drains=False)

    def _stand(self) -> None:
        """The files have our names and what we left in them, or the commit fails."""
        lost = self._look()
        if lost is not None:
            raise StoreFailed(f"{self.path.name}: {lost.why}")

    def _look(self) -> Lost | None:
        lost = None if self._footing is None else self._footing.look(self._wal_pages)
        if lost is not None and lost.suspect:
            self.suspect(lost.why)
        return lost

    def _release_ballast(self) -> bool:
        if self._ballast is None or not self._ballast.release():
            return False
        self._journal("store.ballast_released", file=self.path.name)
        return True

    def _failed(self, error: apsw.Error) -> StoreFailed:
        """Go back to what is stored. If that fails too, the next call tries again."""
        if isinstance(error, DAMAGE):
            self.suspect(str(error))
        self._journal("store.failed", file=self.path.name, why=error)
        with contextlib.suppress(apsw.Error):
            self._disconnect()
        with contextlib.suppress(StoreFailed):
            self._connected()
        kind = StoreDamaged if isinstance(error, DAMAGE) else StoreFailed
        return kind(f"{self.path.name}: {error}")


def _is_full(error: apsw.Error) -> bool:
    """Whether there was no room, be it for the index of the WAL, which is a file as well."""
    return isinstance(error, apsw.FullError) or getattr(error, "extendedresult", 0) == apsw.SQLITE_IOERR_SHMSIZE


def _has_no_room(directory: Path) -> bool:
    try:
        return free_bytes(directory) < limits.OPENING_BYTES
    except OSError:
        return False
