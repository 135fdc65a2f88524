"""Names in directories that survive a power cut: a new file or directory is durable only when the directory that names
it is synced.

A name that exists already is synced again: the process that made it may have died before it could.
"""

import os
from contextlib import suppress
from pathlib import Path


def sync_directory(directory: Path) -> None:
    """Make the names in a directory durable: those that were made, renamed or removed there."""
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def make_directory(directory: Path, mode: int = 0o700) -> None:
    """Make a directory durably, with missing ones above it; an existing one keeps its mode."""
    try:
        directory.mkdir(mode)
    except FileNotFoundError:
        make_directory(directory.parent, mode)
        directory.mkdir(mode, exist_ok=True)
    except FileExistsError:
        if not directory.is_dir():
            raise
        with suppress(PermissionError):  # a parent that we may not read was made by another user
            sync_directory(directory.parent)
        return
    sync_directory(directory.parent)


class FileNames:
    """The names of files on a real disk."""

    def make(self, path: Path) -> None:
        """Make an empty file that only we can read, unless it exists.

        An existing file is not opened: closing it would drop the locks that SQLite has on it.
        """
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))

    def sync(self, directory: Path) -> None:
        """Make the names in a directory durable."""
        sync_directory(directory)
