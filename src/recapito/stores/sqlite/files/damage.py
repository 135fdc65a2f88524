"""Damage to whole files: the watch that sees it, the marker that it leaves, and the inspection that looks for it.

The marker is `damaged.json` in the data directory, from the first sign until a person removes it. Each role that sees a
sign leaves it there. While there is a marker, nothing is accepted and nothing is trimmed, after a restart too.

SQLite goes on writing to a file that was removed or replaced, and does not notice that another program cut or overwrote
it; the watch does. The database file changes only when the WAL is copied into it, and the WAL is never shorter
than the pages committed to it. A commit costs three calls of stat, three or four microseconds.

After a start that may have followed a crash, SQLite's quick_check runs beside the work. It takes about two seconds a
gigabyte, so nothing waits for it. Rows and segments have checksums: no damaged event is delivered meanwhile.
"""

import asyncio
import contextlib
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import apsw
import msgspec

from recapito.errors import SettingsError
from recapito.observability.journal import Journal
from recapito.stores.sqlite.files.connection import DISPATCH, LOG, open_reader
from recapito.stores.sqlite.files.wal import FRAME_HEADER_BYTES, WAL_HEADER_BYTES, wal_of
from recapito.system.durable_names import sync_directory

MARKER = "damaged.json"
SIGNS = 10  # further signs add nothing
FAULTS = 10  # of one file; further ones add nothing
WHY_CHARS = 200


class DamageSign(msgspec.Struct, frozen=True):
    """A sign of damage to a file. `at` is the time in ISO 8601."""

    file: str
    why: str
    at: str


UNREADABLE = DamageSign(MARKER, "the marker itself cannot be read", "")
_decode = msgspec.json.Decoder(list[DamageSign]).decode


def read_signs(directory: Path) -> list[DamageSign]:
    """The signs in the marker; none if there is no marker."""
    try:
        return _decode((directory / MARKER).read_bytes()) or [UNREADABLE]
    except FileNotFoundError:
        return []
    except (OSError, msgspec.DecodeError):
        return [UNREADABLE]


def leave_sign(directory: Path, file: str, why: str) -> None:
    """Add a sign, durably, once. A disk that cannot store it is no reason to fail: the caller fails anyway."""
    signs = read_signs(directory)
    if len(signs) >= SIGNS or any((sign.file, sign.why) == (file, why) for sign in signs):
        return
    at = datetime.now(UTC).isoformat(timespec="seconds")
    unfinished = directory / f"{MARKER}.{os.getpid()}"
    with contextlib.suppress(OSError):
        handle = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            os.write(handle, msgspec.json.encode([*signs, DamageSign(file, why, at)]))
            os.fsync(handle)
        finally:
            os.close(handle)
        unfinished.rename(directory / MARKER)
        sync_directory(directory)


def clear_signs(directory: Path) -> bool:
    """Remove the marker; return whether there was one."""
    try:
        (directory / MARKER).unlink()
    except FileNotFoundError:
        return False
    sync_directory(directory)
    return True


def reason(directory: Path) -> str:
    """The reason why nothing is accepted, for publishers and operators; empty without a marker."""
    for sign in read_signs(directory):
        return (
            f"{sign.file} may be damaged ({sign.why}): run `recapito doctor --data {directory}`, which says what to do."
        )
    return ""


class FileFault(NamedTuple):
    """A fault of a file. `gone`: its name is gone or leads to another file. `suspect`: a person has to look at it."""

    why: str
    gone: bool = False
    suspect: bool = True


REMOVED = FileFault("it was removed", gone=True, suspect=False)  # that is plain to see, and it may be put back
REPLACED = FileFault("it was replaced by another file", gone=True)
TRUNCATED = FileFault("it was truncated")
OVERWRITTEN = FileFault("another program wrote to it")
WAL_LOST = FileFault("its -wal was removed or replaced")
WAL_TRUNCATED = FileFault("its -wal was truncated")


class FileWatch:
    """Compares the files of one connection with its last write. `trusted_times`: modification times are reliable."""

    def __init__(self, path: Path, page_bytes: int, trusted_times: bool) -> None:
        self._path = str(path)
        self._wal_path = str(wal_of(path))
        self._frame_bytes = page_bytes + FRAME_HEADER_BYTES
        self._trusted_times = trusted_times
        self._wal_number: int | None = None
        self._harmed = False  # when last looked at: then no further commit is even begun
        self.remember()

    def remember(self) -> None:
        """Note the state of the file after we opened it or copied the WAL into it."""
        stored = os.stat(self._path)  # noqa: PTH116 - a Path takes twice as long
        self._number, self._size, self._written_at = stored.st_ino, stored.st_size, stored.st_mtime_ns

    def look(self, wal_pages: int) -> FileFault | None:
        """The fault of the files, given the number of pages committed to the WAL; None if there is none."""
        lost = self._look_at_file() or self._look_at_wal(wal_pages)
        self._harmed = lost is not None
        return lost

    def look_before_commit(self, wal_pages: int) -> FileFault | None:
        """The fault of the WAL: a commit hides it by writing on. Harm to the file shows as well after the commit."""
        return self.look(wal_pages) if self._harmed else self._look_at_wal(wal_pages)

    def _look_at_file(self) -> FileFault | None:
        try:
            stored = os.stat(self._path)  # noqa: PTH116 - a Path takes twice as long
        except OSError:
            return REMOVED
        if stored.st_ino != self._number:
            return REPLACED
        if stored.st_size < self._size:
            return TRUNCATED
        if self._trusted_times and stored.st_mtime_ns != self._written_at:
            return OVERWRITTEN
        return None

    def _look_at_wal(self, pages: int) -> FileFault | None:
        if not pages:
            return None
        try:
            wal = os.stat(self._wal_path)  # noqa: PTH116
        except OSError:
            return WAL_LOST
        if self._wal_number is None:
            self._wal_number = wal.st_ino
        if wal.st_ino != self._wal_number:
            return WAL_LOST
        return WAL_TRUNCATED if wal.st_size < WAL_HEADER_BYTES + pages * self._frame_bytes else None


def stopped_uncleanly(directory: Path) -> bool:
    """Whether a write-ahead log was left: a clean stop mostly leaves none, a crash always does."""
    logs = (wal_of(directory / kind.file) for kind in (LOG, DISPATCH))
    return any(wal.exists() and wal.stat().st_size for wal in logs)


async def inspect(directory: Path, journal: Journal) -> None:
    """Check both files, one after the other, in a thread, and leave signs of faults. Cancelling ends it at once."""
    for kind in (LOG, DISPATCH):
        connection = open_reader(directory / kind.file, kind)
        try:
            faults = await _in_thread(connection)
        finally:
            connection.close(True)
        if faults:
            leave_sign(directory, kind.file, f"quick_check: {faults[0]}"[:WHY_CHARS])
            journal("store.suspect", file=kind.file, faults=faults, remedy=f"recapito doctor --data {directory}")
        else:
            journal("store.checked", file=kind.file)


async def _in_thread(connection: apsw.Connection) -> list[str]:
    check = asyncio.get_running_loop().run_in_executor(None, _check, connection)
    try:
        return await asyncio.shield(check)
    except asyncio.CancelledError:
        connection.interrupt()
        await asyncio.wait([check])
        raise


def check(directory: Path) -> dict[str, list[str]]:
    """The faults of both files, in the foreground; of a file that cannot be opened, the reason."""
    found: dict[str, list[str]] = {}
    for kind in (LOG, DISPATCH):
        try:
            with contextlib.closing(open_reader(directory / kind.file, kind, any_version=True)) as connection:
                found[kind.file] = _check(connection)
        except SettingsError as error:
            found[kind.file] = [str(error)]
    return found


def _check(connection: apsw.Connection) -> list[str]:
    try:
        lines = [str(row[0]) for row in connection.execute(f"PRAGMA quick_check({FAULTS})")]
    except apsw.InterruptError:
        return []
    except apsw.Error as error:
        return [str(error)]
    return [] if lines == ["ok"] else lines
