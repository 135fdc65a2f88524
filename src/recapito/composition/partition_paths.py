"""The places of a partition in the data directory of a node of several, and in a backup."""

from pathlib import Path

from recapito.domain.cluster.partition import Partition


def directory_of(data: Path, partition: Partition) -> Path:
    """The copies of its streams, and its history; one that is alone has the data directory itself."""
    return data if partition.alone else data / _name(partition)


def file_of(partition: Partition, file: str) -> str:
    """The path of a file of a partition, from the data directory."""
    return file if partition.alone else f"{_name(partition)}/{file}"


def socket_of(data: Path, partition: int) -> Path:
    """The Unix socket at which its intake listens, while this node owns it."""
    return data / f"partition-{partition}.sock"


def _name(partition: Partition) -> str:
    return f"partition-{partition.number}"
