"""Whether the files that a connection writes are still those that have its names, and what it left there.

SQLite goes on writing to a file that was removed or replaced, and does not look whether somebody cut or overwrote it.
The database file changes only when we copy the WAL into it; the WAL is never shorter than what was committed to it.
Looking costs two calls of stat, two or three microseconds.
"""

import os
from pathlib import Path
from typing import NamedTuple

WAL_HEADER_BYTES = 32
FRAME_HEADER_BYTES = 24


class Lost(NamedTuple):
    """What is wrong. `gone`: the file has not its name any more. `suspect`: a person has to look, now or later."""

    why: str
    gone: bool = False
    suspect: bool = True


REMOVED = Lost("it was removed", gone=True, suspect=False)  # which everybody sees, and it may be put back
REPLACED = Lost("it was replaced by another file", gone=True)
TRUNCATED = Lost("it was truncated")
OVERWRITTEN = Lost("another program wrote to it")
WAL_LOST = Lost("its -wal was removed or replaced")
WAL_TRUNCATED = Lost("its -wal was truncated")


class FileWatch:
    """Knows the files of one connection that writes. `trusted_times`: the file system tells when a file was written."""

    def __init__(self, path: Path, page_bytes: int, trusted_times: bool) -> None:
        self._path = str(path)
        self._wal_path = f"{path}-wal"
        self._frame_bytes = page_bytes + FRAME_HEADER_BYTES
        self._trusted_times = trusted_times
        self._wal_number: int | None = None
        self.remember()

    def remember(self) -> None:
        """The file is as we left it just now: it was opened, or the WAL was copied into it."""
        stored = os.stat(self._path)  # noqa: PTH116 - a Path takes twice as long
        self._number, self._size, self._written_at = stored.st_ino, stored.st_size, stored.st_mtime_ns

    def look(self, wal_pages: int) -> Lost | None:
        """What is wrong, given how many pages were committed to the WAL; None if all is well."""
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
        return self._look_at_wal(wal_pages) if wal_pages else None

    def _look_at_wal(self, pages: int) -> Lost | None:
        try:
            wal = os.stat(self._wal_path)  # noqa: PTH116
        except OSError:
            return WAL_LOST
        if self._wal_number is None:
            self._wal_number = wal.st_ino
        if wal.st_ino != self._wal_number:
            return WAL_LOST
        return WAL_TRUNCATED if wal.st_size < WAL_HEADER_BYTES + pages * self._frame_bytes else None
