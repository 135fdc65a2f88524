"""The places of a partition in the data directory of a node of several."""

from pathlib import Path


def directory_of(data: Path, partition: int) -> Path:
    """The copies of its streams, and its history."""
    return data / f"partition-{partition}"


def socket_of(data: Path, partition: int) -> Path:
    """The Unix socket at which its intake listens, while this node owns it."""
    return data / f"partition-{partition}.sock"
