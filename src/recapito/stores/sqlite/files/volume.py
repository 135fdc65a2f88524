"""The volume of a data directory: whether SQLite can rely on it, its room, and the ballast that keeps some in reserve.

SQLite cannot even delete on a full disk. The ballast is a file that only takes up room; when the disk is full,
the verbs that drain get that room, so that dispatch goes on. The ballast is taken again when there is plenty.
"""

import contextlib
import os
from pathlib import Path

from recapito.errors import SettingsError
from recapito.system.durable_names import sync_directory

BALLAST_FILE = "ballast"
PLENTY = 8  # the ballast takes one part in eight of the free room, until it has its size

NETWORK_FILE_SYSTEMS = frozenset(
    {"9p", "afs", "beegfs", "ceph", "cifs", "coda", "fuse", "gfs2", "gpfs", "lustre", "ncpfs", "nfs", "nfs4"}
    | {"ocfs2", "smb2", "smb3", "smbfs", "sshfs", "vboxsf"}
)
MOUNTS = Path("/proc/self/mountinfo")


def check_directory(directory: Path, allow_network: bool = False) -> None:
    """Refuse a directory that cannot be written, or whose file system has no reliable locks and syncs."""
    if not _is_directory(directory):
        raise SettingsError(f"The data directory {directory} does not exist, cannot be read, or is not a directory.")
    if not os.access(directory, os.W_OK | os.X_OK, effective_ids=os.access in os.supports_effective_ids):
        raise SettingsError(f"The data directory {directory} is read-only: the server must be able to write to it.")
    kind = file_system(directory, MOUNTS.read_text("utf-8", "replace") if MOUNTS.exists() else "")
    if is_network(kind) and not allow_network:
        raise SettingsError(
            f"The data directory {directory} is on a network file system ({kind}), on which SQLite can lose data: "
            "choose a local disk."
        )


def _is_directory(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:
        return False


def file_system(directory: Path, mounts: str) -> str:
    """The kind of file system of a directory, by the text of /proc/self/mountinfo; "" if unknown."""
    path = str(directory.resolve())
    best, kind = "", ""
    for line in mounts.splitlines():
        fields, _, tail = line.partition(" - ")
        mounted_on = fields.split(" ")[4].encode("latin-1", "replace").decode("unicode_escape")
        inside = path == mounted_on or path.startswith(mounted_on.rstrip("/") + "/")
        if inside and len(mounted_on) >= len(best):
            best, kind = mounted_on, tail.split(" ")[0]
    return kind


def is_network(kind: str) -> bool:
    """Whether a file system is on another machine, or is served by a program that may forward to one."""
    return kind.partition(".")[0] in NETWORK_FILE_SYSTEMS


def room_on(directory: Path | str) -> tuple[int, int]:
    """The bytes of the volume that are free for us, and its size."""
    volume = os.statvfs(directory)
    return volume.f_bavail * volume.f_frsize, volume.f_blocks * volume.f_frsize


def free_bytes(directory: Path | str) -> int:
    return room_on(directory)[0]


def total_bytes(directory: Path) -> int:
    return room_on(directory)[1]


class Ballast:
    """The ballast of one data directory, of `size` bytes at most. Both roles share one file."""

    def __init__(self, directory: Path, size: int) -> None:
        self._directory = directory
        self._file = directory / BALLAST_FILE
        self._size = size

    def __repr__(self) -> str:
        return f"<Ballast of {self.held} bytes, {self._size} are wanted>"

    @property
    def held(self) -> int:
        """The bytes that a release would free."""
        try:
            return self._file.stat().st_size
        except OSError:
            return 0

    def take(self) -> None:
        """Take up the room, or a fair part of it. A failure only means that there was none."""
        held = self.held
        fair = min(self._size, (free_bytes(self._directory) + held) // PLENTY)
        if fair == self._size > held or fair >= 2 * max(held, self._size // PLENTY, 1):
            with contextlib.suppress(OSError):
                self._grow(held, fair)

    def release(self) -> bool:
        """Give the room back; return False if there was none."""
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
