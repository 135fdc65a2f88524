"""Opening a database file safely: every setting is read back, and any doubt refuses the file.

An old SQLite, a foreign or newer file, a setting that did not take: a SettingsError that names the file and what to do.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Protocol

import apsw

from recapito.domain import limits
from recapito.errors import SettingsError
from recapito.stores.sqlite.sql_files import migrate, migrations, version
from recapito.system.durable_names import FileNames

OLDEST_SQLITE = (3, 51, 3)  # before it the WAL-reset race can corrupt a file
PATIENCE_MS = 5000  # while another process recovers the WAL

_REMEDY = "restore a backup if a server has used it, or choose another directory"


class FileKind(NamedTuple):
    """One of our kinds of file, the number that identifies it, and the page size of a new one.

    No event depends on a file that is not `promised`: its damage does not stop intake. `version` is that of an older
    schema, which a cluster's upgrade begins with.
    """

    name: str
    application_id: int
    page_bytes: int
    promised: bool = True
    version: int | None = None

    @property
    def steps(self) -> tuple[str, ...]:
        """The migrations that make a file of this kind."""
        return migrations(self.name)[: self.version]

    @property
    def file(self) -> str:
        """Its name in a data directory."""
        return f"{self.name}.db"


LOG = FileKind("log", 0x52636C67, limits.LOG_PAGE_BYTES)  # "Rclg"
DISPATCH = FileKind("dispatch", 0x52636470, limits.DISPATCH_PAGE_BYTES)  # "Rcdp"
HISTORY = FileKind("history", 0x52636873, limits.LOG_PAGE_BYTES, promised=False)  # "Rchs"


class FileNaming(Protocol):
    """Gives names to files and makes them durable."""

    def make(self, path: Path) -> None:
        """Make an empty file, unless it exists."""

    def sync(self, directory: Path) -> None:
        """Make the names in a directory durable."""


class FileMedium(NamedTuple):
    """The medium of files: the disk; or, in the power-loss test alone, a VFS that loses writes that were not synced.

    `trusted_times`: modification times are reliable, as on every local file system.
    """

    vfs: str | None = None
    synchronous: str = "FULL"
    checkpoint_bytes: int = limits.WAL_CHECKPOINT_BYTES
    trusted_times: bool = True
    wal_kept_bytes: int = limits.WAL_KEPT_BYTES
    names: FileNaming = FileNames()


DISK = FileMedium()
SYNCHRONOUS = {"OFF": 0, "NORMAL": 1, "FULL": 2}


def open_writer(path: Path, kind: FileKind, medium: FileMedium = DISK, make: bool = True) -> apsw.Connection:
    """The one connection that writes a file, after its migration.

    With `make`, a missing or empty file is made. Without it, a missing file was lost, or its volume is gone.
    """
    _check_sqlite()
    if make:
        with _named(path):
            medium.names.make(path)
    with _translated(path):
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE, vfs=medium.vfs)
        try:
            connection.set_busy_timeout(PATIENCE_MS)
            if medium.vfs is not None:
                connection.pragma("locking_mode", "EXCLUSIVE")  # a VFS in Python has no shared memory
            if make and _is_empty(connection):
                connection.pragma("page_size", kind.page_bytes)
            else:
                _check_ours(connection, path, kind)
            _configure(connection, path, _WRITER)
            _configure(connection, path, _by_medium(medium))
            migrate(connection, kind.application_id, kind.steps)
            if make:
                with _named(path):
                    medium.names.sync(path.parent)
            connection.set_busy_timeout(0)  # from here on this is the only writer
        except BaseException:
            connection.close(True)
            raise
    return connection


def open_reader(path: Path, kind: FileKind, any_version: bool = False) -> apsw.Connection:
    """A connection that can only read, in the process of the other role or in ours.

    An older version of the schema is refused, for our verbs would fail on it, unless `any_version` is set.
    """
    _check_sqlite()
    if not path.exists():
        raise SettingsError(f"{path} does not exist: was the data directory ever served?")
    with _translated(path):
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            connection.set_busy_timeout(PATIENCE_MS)
            found, known = _check_ours(connection, path, kind), len(kind.steps)
            if found < known and not any_version:
                raise SettingsError(f"{path} has schema {found}, not {known}: run `recapito serve`, which migrates it.")
            _configure(connection, path, _READER)
        except BaseException:
            connection.close(True)
            raise
    return connection


# The value to set, and the values that may be read back.
_READER: dict[str, tuple[object, ...]] = {
    "trusted_schema": ("OFF", 0),
    "cell_size_check": ("ON", 1),
    "mmap_size": (0, 0, None),  # None: the VFS has no such thing
    "cache_size": (-limits.PAGE_CACHE_BYTES // limits.KB, -limits.PAGE_CACHE_BYTES // limits.KB),
}
_WRITER: dict[str, tuple[object, ...]] = _READER | {
    "journal_mode": ("WAL", "wal"),
    "foreign_keys": ("ON", 1),
    "wal_autocheckpoint": (0, 0),
    "temp_store": ("MEMORY", 2),  # a statement journal of five pages would be a file otherwise
}


def _by_medium(medium: FileMedium) -> dict[str, tuple[object, ...]]:
    return {
        "synchronous": (medium.synchronous, SYNCHRONOUS[medium.synchronous]),
        "journal_size_limit": (medium.wal_kept_bytes, medium.wal_kept_bytes),
    }


def _configure(connection: apsw.Connection, path: Path, settings: dict[str, tuple[object, ...]]) -> None:
    if connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1) != 1:
        raise SettingsError(f"{path}: SQLite did not become defensive.")
    for name, (value, *accepted) in settings.items():
        connection.execute(f"PRAGMA {name} = {value}").fetchall()
        taken = connection.pragma(name)
        if taken not in accepted:
            raise SettingsError(f"{path}: SQLite's {name} is {taken}, not {value}.")


def _check_sqlite() -> None:
    numbers = tuple(int(part) for part in apsw.sqlite_lib_version().split("."))
    if numbers < OLDEST_SQLITE:
        wanted = ".".join(map(str, OLDEST_SQLITE))
        raise SettingsError(f"SQLite {apsw.sqlite_lib_version()} can corrupt files: apsw with {wanted} is needed.")


def _is_empty(connection: apsw.Connection) -> bool:
    tables = connection.execute("SELECT count(*) FROM sqlite_schema").get
    return not (tables or connection.pragma("application_id") or version(connection))


def _check_ours(connection: apsw.Connection, path: Path, kind: FileKind) -> int:
    """Refuse a foreign or newer file, and return the version of its schema."""
    if connection.pragma("application_id") != kind.application_id:
        raise SettingsError(f"{path} is not recapito's {kind.name} file: {_REMEDY}.")
    found, known = version(connection), len(kind.steps)
    if found > known:
        raise SettingsError(
            f"{path} was written by a newer recapito (schema {found}, this one knows {known}): upgrade recapito."
        )
    return found


@contextlib.contextmanager
def _named(path: Path) -> Iterator[None]:
    """Around the calls that make the name of a file durable, before any of its content is acknowledged.

    They also make the removal of the journal durable that the switch to a WAL used: if it came back, it would undo all
    that followed. SQLite syncs the directory when it makes a WAL, but builds of it may omit that.
    """
    try:
        yield
    except OSError as error:
        raise SettingsError(f"{path} cannot be made: {error.strerror}.") from error


@contextlib.contextmanager
def _translated(path: Path) -> Iterator[None]:
    try:
        yield
    except apsw.NotADBError as error:
        raise SettingsError(f"{path} is not a database: {_REMEDY}.") from error
    except (apsw.CantOpenError, apsw.ReadOnlyError) as error:
        raise SettingsError(f"{path} cannot be opened: {error}.") from error
    except apsw.CorruptError as error:
        raise SettingsError(f"{path} is damaged ({error}): restore a backup.") from error
