"""The volume that a data directory lies on: whether SQLite may be trusted to it, and how much room it has."""

import os
from pathlib import Path

from recapito.errors import SettingsError

NETWORK_FILE_SYSTEMS = frozenset(
    {"9p", "afs", "beegfs", "ceph", "cifs", "coda", "fuse", "gfs2", "gpfs", "lustre", "ncpfs", "nfs", "nfs4"}
    | {"ocfs2", "smb2", "smb3", "smbfs", "sshfs", "vboxsf"}
)
MOUNTS = Path("/proc/self/mountinfo")


def check_directory(directory: Path, allow_network: bool = False) -> None:
    """Refuse a directory that can not be written, or whose file system has no locks and syncs to rely on."""
    if not _is_directory(directory):
        raise SettingsError(f"The data directory {directory} does not exist, or is out of reach, or no directory.")
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
    """The kind of file system that a directory is on, given the text of /proc/self/mountinfo; "" if unknown."""
    place = str(directory.resolve())
    best, kind = "", ""
    for line in mounts.splitlines():
        fields, _, tail = line.partition(" - ")
        mounted_on = fields.split(" ")[4].encode("latin-1", "replace").decode("unicode_escape")
        inside = place == mounted_on or place.startswith(mounted_on.rstrip("/") + "/")
        if inside and len(mounted_on) >= len(best):
            best, kind = mounted_on, tail.split(" ")[0]
    return kind


def is_network(kind: str) -> bool:
    """Whether a file system is of another machine, or of a program that may pass it on to one."""
    return kind.partition(".")[0] in NETWORK_FILE_SYSTEMS


def room_on(directory: Path | str) -> tuple[int, int]:
    """The bytes that are left on the volume for us, and its size."""
    volume = os.statvfs(directory)
    return volume.f_bavail * volume.f_frsize, volume.f_blocks * volume.f_frsize


def free_bytes(directory: Path | str) -> int:
    """The bytes that are left on the volume for us."""
    return room_on(directory)[0]


def total_bytes(directory: Path) -> int:
    """The size of the volume."""
    return room_on(directory)[1]
