"""A backup of a cluster, taken while it runs; its restoration as a new cluster; and the upgrade of stored formats.

A backup is a directory with both files as an embedded store has them, the keys of the nodes, sealed under the cluster's
secret, and a list of digests, which is written last: a directory without it is no backup. That of several partitions
has a directory for each of them. Each fits together for itself: nothing that a partition stores leads to another one.
A folder of a blob container has the same files; they are gathered, and checked, in a temporary directory.
"""

import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from recapito import __version__
from recapito.composition.cluster import backend_on, open_peers, stored_formats
from recapito.composition.cluster_setup import (
    PAPERS,
    Moved,
    StreamSizes,
    check_stopped,
    digests_of,
    found_and_read_back,
    open_partitions,
    read_paper,
    with_data,
    write_papers,
)
from recapito.composition.container import fetch, gathered, open_container, send
from recapito.composition.partition_paths import directory_of, file_of
from recapito.composition.stores import sqlite_options
from recapito.domain.cluster.partition import Partition
from recapito.errors import SettingsError, StoreFailed
from recapito.identity.cluster_secret import ClusterSecret
from recapito.settings.settings import Settings
from recapito.stores.replicated.convert import KINDS, check_empty, forget_streams
from recapito.stores.replicated.rows import Digest
from recapito.stores.sqlite.backend import SqliteBackend
from recapito.stores.sqlite.files import backup
from recapito.system.durable_names import make_directory, sync_directory
from recapito.system.secret_file import write

_KEYS = "keys.sealed"
_LIST = "backup.json"


class BackupList(msgspec.Struct, frozen=True, omit_defaults=True):
    """The contents of a backup: the cluster, the version and formats that wrote it, and the digest of each file."""

    cluster: str
    version: str
    formats: str
    digests: dict[str, Digest]
    partitions: int = 1

    @property
    def each(self) -> list[Partition]:
        return [Partition(number, self.partitions) for number in range(self.partitions)]

    @property
    def files(self) -> list[str]:
        return [file_of(partition, kind.file) for partition in self.each for kind in KINDS]


async def back_up(settings: Settings, target: Path, progress: Callable[[str], None]) -> dict[str, Digest]:
    """Copy the stores and the keys of a cluster to an empty directory; its nodes may run. The digests of the files.

    The copy has every event that was acknowledged before this began.
    """
    check_empty(target)
    async with open_peers(settings) as peers:
        sealed = await read_paper(peers, settings)
    found: dict[str, Digest] = {}
    with TemporaryDirectory(dir=target) as inside:
        there = with_data(settings, Path(inside))
        async with open_partitions(settings) as every:
            for partition, streams in every.items():
                progress("reading the streams" + _of(partition))
                try:
                    copied = await backend_on(there, streams, partition=partition).snapshot()
                except StoreFailed as error:
                    raise SettingsError(f"The streams cannot be copied: {error}. Try again.") from error
                _take_over(there.data, target, partition, copied, progress)
                found |= {file_of(partition, name): digest for name, digest in copied.items()}
    write(target / _KEYS, sealed)
    listed = BackupList(settings.cluster.name, __version__, stored_formats(), found, len(every))
    write(target / _LIST, msgspec.json.encode(listed))
    return found


async def back_up_to_container(settings: Settings, url: str, progress: Callable[[str], None]) -> dict[str, Digest]:
    """The same to an empty folder of a blob container. The result is as that of `back_up`."""
    async with open_container(settings, url) as folder:
        await folder.check_empty()
        with gathered(folder) as copy:
            found = await back_up(settings, copy, progress)
            await send(folder, copy, (*found, _KEYS, _LIST), progress)
    return found


def _take_over(
    place: Path, target: Path, partition: Partition, names: Iterable[str], progress: Callable[[str], None]
) -> None:
    """Move the files of a partition into the backup, durably, and without the marks of their streams."""
    source, directory = directory_of(place, partition), directory_of(target, partition)
    forget_streams(source)
    make_directory(directory)
    for name in names:
        _sync(source / name)
        (source / name).rename(directory / name)
        progress(f"copied {file_of(partition, name)}: {(directory / name).stat().st_size} bytes")
    sync_directory(directory)


async def restore(
    settings: Settings, source: Path, secret: ClusterSecret, sizes: StreamSizes, progress: Callable[[str], None]
) -> Moved:
    """Make a new cluster out of a backup, with as many partitions, and this node as its first; or leave nothing behind.

    The new cluster has a secret and streams of its own: nodes that remember the old streams refuse the new ones.
    """
    listed = _read_list(source)
    papers = _open_keys(source, secret, listed)
    progress("checking the backup")
    for partition in listed.each:
        backup.check(directory_of(source, partition))
    check_empty(settings.data)
    try:
        for partition in listed.each:
            await _restore_partition(settings, source, partition, listed)
        write_papers(settings, papers)
    except BaseException:
        shutil.rmtree(settings.data)  # it was empty before
        raise
    before = digests_of(settings.data, listed.each)
    return Moved(before, await found_and_read_back(settings, sizes._replace(partitions=listed.partitions), progress))


async def restore_from_container(
    settings: Settings, url: str, secret: ClusterSecret, sizes: StreamSizes, progress: Callable[[str], None]
) -> Moved:
    """The same from a folder of a blob container. Whatever can be refused is refused before the stores are fetched."""
    if settings.data.exists():
        check_empty(settings.data)
    async with open_container(settings, url) as folder:
        with gathered(folder) as copy:
            await fetch(folder, copy, (_LIST, _KEYS), progress)
            listed = _decode_list(copy)
            _open_keys(copy, secret, listed)
            await fetch(folder, copy, listed.files, progress)
            return await restore(settings, copy, secret, sizes, progress)


async def _restore_partition(settings: Settings, source: Path, partition: Partition, listed: BackupList) -> None:
    target = directory_of(settings.data, partition)
    make_directory(target)
    for kind in KINDS:
        shutil.copyfile(directory_of(source, partition) / kind.file, target / kind.file)
        (target / kind.file).chmod(0o600)
        _sync(target / kind.file)
    sync_directory(target)
    for name, digest in digests_of(settings.data, [partition]).items():
        if digest != listed.digests[name]:
            raise SettingsError(f"{source / name} was changed after the backup was taken: its digest differs.")
    await SqliteBackend(sqlite_options(settings, partition)).prepare()  # an older version's files are migrated


async def upgrade(settings: Settings, progress: Callable[[str], None]) -> dict[str, tuple[int, int]]:
    """Bring the streams of a cluster, whose nodes have stopped, to the formats of this version, partition by partition.

    The result has, by file, the schemas before and after. A run that broke off passes over the partitions that are
    done.
    """
    async with open_peers(settings) as peers:
        await check_stopped(peers)
    make_directory(settings.data)
    done: dict[str, tuple[int, int]] = {}
    with TemporaryDirectory(dir=settings.data) as inside:
        async with open_partitions(settings) as every:
            for partition, streams in every.items():
                progress("upgrading the streams" + _of(partition))
                backend = backend_on(with_data(settings, Path(inside)), streams, partition=partition)
                try:
                    schemas = await backend.upgrade()
                except StoreFailed as error:
                    raise SettingsError(f"The streams cannot be upgraded: {error}. Run the command again.") from error
                done |= {file_of(partition, name): change for name, change in schemas.items()}
    return done


def _of(partition: Partition) -> str:
    return "" if partition.alone else f" of partition {partition.number}"


def _read_list(source: Path) -> BackupList:
    """The list of a backup, all of whose files are there."""
    listed = _decode_list(source)
    for name in listed.files:
        if name not in listed.digests or not (source / name).is_file():
            raise SettingsError(
                f"{source} is no complete backup of the {listed.partitions} partitions of the cluster "
                f"'{listed.cluster}': {name} is missing. Bring it back, or use another backup."
            )
    return listed


def _decode_list(source: Path) -> BackupList:
    try:
        return msgspec.json.decode((source / _LIST).read_bytes(), type=BackupList)
    except (OSError, msgspec.MsgspecError) as error:
        raise SettingsError(
            f"{source} is no complete backup of a cluster: {_LIST} cannot be read ({error}). A backup of a server of "
            "its own is restored by `recapito restore`, and moved into a cluster by `recapito move`."
        ) from None


def _open_keys(source: Path, secret: ClusterSecret, listed: BackupList) -> dict[str, bytes]:
    try:
        papers = secret.unseal(PAPERS, (source / _KEYS).read_bytes())
    except OSError as error:
        raise SettingsError(f"{source / _KEYS} cannot be read: {error.strerror}") from None
    if papers is None:
        raise SettingsError(f"This is not the secret of the cluster '{listed.cluster}', of which {source} is a backup.")
    return papers


def _sync(path: Path) -> None:
    """Make the content of a file durable: copies of streams are written without that."""
    handle = os.open(path, os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
