"""The locks of a data directory: one process per role, and no trimming while a backup is taken.

They are advisory locks of the operating system, which end with the process that holds them. A lock of a process that is
ending is waited for.
"""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from recapito.errors import SettingsError

ROLES = ("intake", "dispatch")
TRIM = "trim"
PATIENCE_S = 10.0  # for a process that is ending: it may wait for the disk
LOOK_S = 0.02


@contextmanager
def lock_role(directory: Path, role: str) -> Iterator[None]:
    """Hold the data directory for one role; SettingsError if another process does, and is not ending."""
    path = directory / f"{role}.lock"
    handle = _open(path)
    try:
        _lock(handle, directory)
        with suppress(OSError):  # a full disk: our process id is not recorded, and the lock is ours all the same
            os.ftruncate(handle, 0)
            os.pwrite(handle, f"{os.getpid()} {os.getppid()}\n".encode("ascii"), 0)
        os.close(_open(directory / f"{TRIM}.lock"))  # made by the user of the server: another user may make a backup
        yield
    finally:
        os.close(handle)


@contextmanager
def trimming_allowed(directory: Path) -> Iterator[bool]:
    """Around each trim, and each renewal of a lane, which exclude each other. False while another, or a backup, runs.

    No backup begins before this ends.
    """
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


def _lock(handle: int, directory: Path) -> None:
    tries = int(PATIENCE_S / LOOK_S)
    while not _try_lock(handle):
        owner, _, parent = os.pread(handle, 32, 0).decode("ascii", "replace").strip().partition(" ")
        tries -= 1
        if tries < 0 or not _is_ending(owner, parent):
            raise SettingsError(
                f"{directory} is in use by process {owner or 'unknown'}: another recapito runs on this data directory."
            )
        time.sleep(LOOK_S)


def _is_ending(owner: str, parent: str) -> bool:
    """Whether a process is gone, or has lost the parent that it had when it took the lock: then it ends soon."""
    try:
        state, ppid = Path(f"/proc/{owner}/stat").read_text("ascii", "replace").rpartition(")")[2].split()[:2]
    except (OSError, ValueError):
        return True
    return state in "ZX" or (parent != "" and ppid != parent)


def _open(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise SettingsError(f"The lock {path} cannot be opened: {error.strerror}.") from error


def _try_lock(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
