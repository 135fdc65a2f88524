"""The ballast: a file that only takes up room, so that there is some when the disk is full.

SQLite can not even delete on a full disk. The verbs that drain get the ballast's room then, so that dispatch goes on;
it is taken again when there is plenty.
"""

import contextlib
import os
from pathlib import Path

from recapito.domain import limits
from recapito.stores.sqlite.volume import free_bytes, sync_directory, total_bytes

FILE = "ballast"
PLENTY = 4  # times its size must be free before it is taken again


class Ballast:
    """The ballast of one data directory; both roles have the same one."""

    def __init__(self, directory: Path, size: int | None = None) -> None:
        self._directory = directory
        self._file = directory / FILE
        self.size = min(limits.BALLAST_BYTES, total_bytes(directory) // 100) if size is None else size

    def __repr__(self) -> str:
        return f"<Ballast of {self.size} bytes, {'held' if self.held else 'released'}>"

    @property
    def held(self) -> bool:
        """True while there is room to give."""
        return self._file.exists()

    def take(self) -> None:
        """Take up the room, if it is not taken and there is plenty. A failure only means that there is not."""
        if not self.size or self.held or free_bytes(self._directory) < PLENTY * self.size:
            return
        taking = self._file.with_suffix(f".{os.getpid()}")
        try:
            self._fill(taking)
            taking.rename(self._file)
            sync_directory(self._directory)
        except OSError:
            with contextlib.suppress(OSError):
                taking.unlink()

    def release(self) -> bool:
        """Give the room back; False if there was none to give."""
        try:
            self._file.unlink()
        except OSError:
            return False
        return True

    def _fill(self, path: Path) -> None:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            os.posix_fallocate(handle, 0, self.size)
            os.fsync(handle)
        finally:
            os.close(handle)
