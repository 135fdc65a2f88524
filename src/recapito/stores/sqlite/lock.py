"""Who may use a data directory: one process per role, and nobody trims while a backup is taken.

The locks are advisory ones of the operating system: they end with the process that holds them, however it ends.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from recapito.errors import SettingsError

ROLES = ("intake", "dispatch")
TRIM = "trim"


@contextmanager
def lock_role(directory: Path, role: str) -> Iterator[None]:
    """Hold the data directory for one role; SettingsError if another process does."""
    path = directory / f"{role}.lock"
    handle = _open(path)
    try:
        if not _try_lock(handle):
            owner = os.pread(handle, 32, 0).decode("ascii", "replace").strip() or "unknown"
            raise SettingsError(
                f"{directory} is in use by process {owner}: another recapito runs on this data directory."
            )
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"{os.getpid()}\n".encode("ascii"), 0)
        os.close(_open(directory / f"{TRIM}.lock"))  # now and as who serves: a backup may be made by somebody else
        yield
    finally:
        os.close(handle)


@contextmanager
def trimming_allowed(directory: Path) -> Iterator[bool]:
    """Around each trim: False while a backup is taken, and no backup begins before this ends."""
    handle = _open(directory / f"{TRIM}.lock")
    try:
        yield _try_lock(handle)
    finally:
        os.close(handle)


@contextmanager
def no_trimming(directory: Path) -> Iterator[None]:
    """Around a backup: waits for the trim that is under way, then nothing is trimmed until this ends."""
    handle = _open(directory / f"{TRIM}.lock")
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _open(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise SettingsError(f"The lock {path} can not be opened: {error.strerror}.") from error


def _try_lock(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
