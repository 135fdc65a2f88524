"""The ballast: a file that only takes up room, so that there is some when the disk is full.

SQLite can not even delete on a full disk. The verbs that drain get the ballast's room then, so that dispatch goes on;
it is taken again when there is plenty.
"""

import contextlib
import os
from pathlib import Path

from recapito.stores.sqlite.files.volume import free_bytes
from recapito.system.durable_names import sync_directory

FILE = "ballast"
PLENTY = 8  # one part in so many of the free room goes into the ballast, until it has its size


class Ballast:
    """The ballast of one data directory, of `size` bytes at most; both roles have the same one."""

    def __init__(self, directory: Path, size: int) -> None:
        self._directory = directory
        self._file = directory / FILE
        self._size = size

    def __repr__(self) -> str:
        return f"<Ballast of {self.held} bytes, {self._size} are wanted>"

    @property
    def held(self) -> int:
        """The bytes that could be given."""
        try:
            return self._file.stat().st_size
        except OSError:
            return 0

    def take(self) -> None:
        """Take up the room, or as much of it as is fair. A failure only means that there was none."""
        held = self.held
        fair = min(self._size, (free_bytes(self._directory) + held) // PLENTY)
        if fair == self._size > held or fair >= 2 * max(held, self._size // PLENTY, 1):
            with contextlib.suppress(OSError):
                self._grow(held, fair)

    def release(self) -> bool:
        """Give the room back; False if there was none to give."""
        try:
            self._file.unlink()
        except OSError:
            return False
        return True

    def _grow(self, held: int, size: int) -> None:
        handle = os.open(self._file, os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            os.posix_fallocate(handle, 0, size)
            os.fsync(handle)
            sync_directory(self._directory)
        except OSError:
            os.ftruncate(handle, held)
            if not held:
                self.release()
        finally:
            os.close(handle)
