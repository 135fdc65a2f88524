"""One database file and its connection: verbs run in transactions, and a failure returns to the content of the disk.

A failed commit is unknown, not undone: the connection is closed and the file opened again, so that the next call sees
the content of the disk. Until that works every call tries it again and raises StoreFailed.
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
from recapito.stores.sqlite.files.connection import DISK, FileKind, FileMedium, open_reader, open_writer
from recapito.stores.sqlite.files.damage import FileFault, FileWatch
from recapito.stores.sqlite.files.volume import Ballast, free_bytes
from recapito.stores.sqlite.files.wal import TORN_COMMITS, keep_copy, unread_commits, wal_of
from recapito.stores.sqlite.sql_files import transact

P = ParamSpec("P")
T = TypeVar("T")
NO_TEXT = "a text is not UTF-8"
DAMAGE = (apsw.CorruptError, apsw.NotADBError)  # SQLite's errors for a file that differs from what it wrote


class Database:
    """A file of one kind. A verb is a function of the connection; it is applied as a whole or not at all."""

    def __init__(
        self,
        path: Path,
        kind: FileKind,
        *,
        read_only: bool = False,
        medium: FileMedium = DISK,
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
        self._watched = kind.promised and medium.vfs is None and medium.synchronous == "FULL"
        self._file_watch: FileWatch | None = None
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
        """Whether the file still has its name. SQLite goes on writing to a file that was removed.

        Any thread may call this: it reads nothing that a checkpoint, in the thread that writes, changes.
        """
        try:
            return self._number in (None, self.path.stat().st_ino)
        except OSError:
            return False

    def suspect(self, why: str) -> bool:
        """Leave a sign of damage in the marker, which a person may have removed too early, and journal it once.

        Returns whether the sign is new.
        """
        if self._watched:
            damage.leave_sign(self.path.parent, self.path.name, why)
        if why in self._signs:
            return False
        self._signs.add(why)
        remedy = f"recapito doctor --data {self.path.parent}"
        self._journal("store.suspect", file=self.path.name, why=why, remedy=remedy)
        return True

    def meet_damage(self, why: str) -> None:
        """Called when a row differs from the one that was stored, before it is set aside. A copy raises instead."""

    def read(self, verb: Callable[Concatenate[apsw.Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a verb that reads: it sees one state of the file. Signs of damage do not stop it."""
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
        except UnicodeDecodeError as error:
            raise self._no_text() from error

    def write(self, verb: Callable[Concatenate[apsw.Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a verb that writes: its writes are durable when this returns."""
        return self._commit(lambda connection: verb(connection, *args, **kwargs), drains=False)

    def drain(self, verb: Callable[Concatenate[apsw.Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """As `write`, for verbs that finish work: on a full disk they get the ballast's room."""
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
        except apsw.Error as error:  # nothing is lost: the WAL is copied after the next commit
            self._journal("store.checkpoint_failed", file=self.path.name, why=error)
            if isinstance(error, apsw.FullError):
                self._release_ballast()
            return
        finally:
            if self._file_watch is not None:
                self._file_watch.remember()  # a checkpoint that failed has written as well
        self._checkpointed_pages = self._wal_pages
        if self._ballast is not None:
            self._ballast.take()

    def close(self) -> None:
        """Close the file for good. SQLite copies the WAL into it if no other connection reads."""
        self._closed = True
        self._disconnect()

    def _connected(self, news: bool = True) -> apsw.Connection:
        if self._connection is None:
            if self._closed:
                raise StoreFailed(f"{self.path.name} is closed")
            try:
                self._connection = self._open(make=False)
            except (apsw.Error, OSError, SettingsError) as error:
                raise StoreFailed(f"{self.path.name} cannot be opened: {error}") from error
            if news:
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
            if self._watched and make:
                self._look_for_lost_commits(connection)
            self._make_durable(connection)
            if self._watched:
                self._file_watch = FileWatch(self.path, self._page_bytes, self._medium.trusted_times)
        except BaseException:
            connection.close(True)
            raise
        return connection

    def _open_first(self) -> apsw.Connection:
        """Open the file at the start; on a full volume with the ballast's room, so that dispatch goes on."""
        try:
            return self._open(make=True)
        except (apsw.Error, SettingsError) as error:
            if self._medium.vfs is None and _has_no_room(self.path.parent):
                if self._release_ballast():
                    return self._open_first()
                raise VolumeFull(f"{self.path} cannot be opened because its volume is full: make room.") from error
            if isinstance(error, SettingsError):
                raise
            raise SettingsError(f"{self.path} cannot be opened: {error}.") from error

    def _look_for_lost_commits(self, connection: apsw.Connection) -> None:
        """Leave a sign of commits that SQLite could not read in the WAL, and keep them, before it writes over them."""
        frames, _ = connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)
        wal = wal_of(self.path)
        lost = unread_commits(wal, max(frames, 0), self._page_bytes)
        if lost <= TORN_COMMITS:
            return
        try:
            kept = f"they are in {keep_copy(wal)}"
        except OSError as error:
            kept = f"they could not be copied: {error.strerror}"
        self.suspect(f"a page of its -wal is damaged, and the {lost} commits from there on are lost; {kept}")

    def _make_durable(self, connection: apsw.Connection) -> None:
        """Copy the WAL into the file and sync it before anything is built on it.

        A commit whose sync failed may be read back from the page cache and yet never reach the disk; everything after
        it in the WAL would be lost with it. If a reader prevents the copy, the WAL was in use all the time.
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
        self._check(FileWatch.look_before_commit)  # after it, a WAL that was cut has its length again, with a hole
        try:
            result = self._transact(connection, work, drains)
            self._check(FileWatch.look)
            return result
        except UnicodeDecodeError as error:
            raise self._no_text() from error
        except apsw.Error as error:
            if not _is_full(error) or connection.in_transaction:
                raise self._failed(error) from error
            if not drains or not self._release_ballast():  # nothing was stored, and the connection is sound
                self._journal("store.full", file=self.path.name, why=error)
                raise StoreFailed(f"{self.path.name}: {error}") from error
        return self._commit(work, drains=False)

    def _transact(self, connection: apsw.Connection, work: Callable[[apsw.Connection], T], drains: bool) -> T:
        return transact(connection, work)

    def _check(self, look: Callable[[FileWatch, int], FileFault | None]) -> None:
        """Raise StoreFailed unless the files have their names and the content that we left in them."""
        lost = self._look(look)
        if lost is not None:
            raise StoreFailed(f"{self.path.name}: {lost.why}")

    def _look(self, look: Callable[[FileWatch, int], FileFault | None] = FileWatch.look) -> FileFault | None:
        lost = None if self._file_watch is None else look(self._file_watch, self._wal_pages)
        if lost is not None and lost.suspect:
            self.suspect(lost.why)
        return lost

    def _release_ballast(self) -> bool:
        if self._ballast is None or not self._ballast.release():
            return False
        self._journal("store.ballast_released", file=self.path.name)
        return True

    def _no_text(self) -> StoreDamaged:
        """A text that is not UTF-8, in a column without a checksum."""
        self.suspect(NO_TEXT)
        return StoreDamaged(f"{self.path.name}: {NO_TEXT}")

    def _failed(self, error: apsw.Error) -> StoreFailed:
        """Return to the content of the disk. If that fails too, the next call tries again."""
        news = not isinstance(error, DAMAGE) or self.suspect(str(error))
        if news:
            self._journal("store.failed", file=self.path.name, why=error)
        with contextlib.suppress(apsw.Error):
            self._disconnect()
        with contextlib.suppress(StoreFailed):
            self._connected(news)
        kind = StoreDamaged if isinstance(error, DAMAGE) else StoreFailed
        return kind(f"{self.path.name}: {error}")


def _is_full(error: apsw.Error) -> bool:
    """Whether there was no room, also for the index of the WAL, which is a file too."""
    return isinstance(error, apsw.FullError) or getattr(error, "extendedresult", 0) == apsw.SQLITE_IOERR_SHMSIZE


def _has_no_room(directory: Path) -> bool:
    try:
        return free_bytes(directory) < limits.OPENING_BYTES
    except OSError:
        return False
