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

from recapito.errors import SettingsError, StoreFailed
from recapito.stores.sqlite.ballast import Ballast
from recapito.stores.sqlite.connection import DISK, FileKind, Medium, open_reader, open_writer
from recapito.stores.sqlite.transaction import transact
from recapito.telemetry import Journal, silent

P = ParamSpec("P")
T = TypeVar("T")


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
        try:
            self._connection: apsw.Connection | None = self._open(make=True)
        except apsw.Error as error:
            raise SettingsError(f"{path} can not be opened: {error}.") from error
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
        """Whether the file still has its name. SQLite goes on writing to one that was removed, as if nothing were."""
        try:
            return self._number in (None, self.path.stat().st_ino)
        except OSError:
            return False

    def read(self, verb: Callable[Concatenate[apsw.Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a verb that reads: it sees one state of the file."""
        connection = self._connected()
        try:
            connection.execute("BEGIN")
            try:
                return verb(connection, *args, **kwargs)
            finally:
                if connection.in_transaction:
                    connection.execute("COMMIT")
        except apsw.Error as error:
            raise self._failed(error) from error

    def write(self, verb: Callable[Concatenate[apsw.Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a verb that writes: what it wrote is durable when this returns."""
        return self._commit(lambda connection: verb(connection, *args, **kwargs), drains=False)

    def drain(self, verb: Callable[Concatenate[apsw.Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """As `write`, for what brings work to an end: on a full disk it gets the ballast's room."""
        return self._commit(lambda connection: verb(connection, *args, **kwargs), drains=True)

    def checkpoint(self) -> None:
        """Copy the WAL into the file if it has grown: after a commit, never inside one, by its only writer."""
        grown = self._wal_pages - self._checkpointed_pages
        if self._connection is None or grown * self._page_bytes < self._medium.checkpoint_bytes:
            return
        try:
            self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        except apsw.Error as error:  # nothing is lost: the WAL has it, and is copied after the next commit
            self._journal("store.checkpoint_failed", file=self.path.name, why=error)
            if isinstance(error, apsw.FullError):
                self._release_ballast()
            return
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
        except BaseException:
            connection.close(True)
            raise
        return connection

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
        try:
            return transact(connection, work)
        except apsw.FullError as error:
            if not drains or connection.in_transaction or not self._release_ballast():
                raise self._failed(error) from error
        except apsw.Error as error:
            raise self._failed(error) from error
        return self._commit(work, drains=False)

    def _release_ballast(self) -> bool:
        if self._ballast is None or not self._ballast.release():
            return False
        self._journal("store.ballast_released", file=self.path.name)
        return True

    def _failed(self, error: apsw.Error) -> StoreFailed:
        """Go back to what is stored. If that fails too, the next call tries again."""
        self._journal("store.failed", file=self.path.name, why=error)
        with contextlib.suppress(apsw.Error):
            self._disconnect()
        with contextlib.suppress(StoreFailed):
            self._connected()
        return StoreFailed(f"{self.path.name}: {error}")
