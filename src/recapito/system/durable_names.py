"""Names in directories that outlive a power cut: a file or directory that was made is only there for good when the
directory that names it is synced.

Whoever finds a name does not know whether the one who made it lived to sync it, so it is synced again.
"""

import os
from contextlib import suppress
from pathlib import Path


def sync_directory(directory: Path) -> None:
    """Make the names in a directory durable: what was made, renamed or removed there."""
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def make_directory(directory: Path, mode: int = 0o700) -> None:
    """Make a directory, with those above it that are missing, for good; one that is there keeps its mode."""
    try:
        directory.mkdir(mode)
    except FileNotFoundError:
        make_directory(directory.parent, mode)
        directory.mkdir(mode, exist_ok=True)
    except FileExistsError:
        if not directory.is_dir():
            raise
        with suppress(PermissionError):  # one above it that we may not read was made by somebody else
            sync_directory(directory.parent)
        return
    sync_directory(directory.parent)


class FileNames:
    """The names of files on a real disk."""

    def make(self, path: Path) -> None:
        """Make an empty file that only we can read, unless it is there.

        One that is there is not opened: closing it would drop the locks that SQLite has on it.
        """
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))

    def sync(self, directory: Path) -> None:
        """Make the names in a directory durable."""
        sync_directory(directory)
