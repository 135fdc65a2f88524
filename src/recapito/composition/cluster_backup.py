"""A backup of a cluster, taken while it runs; its restoration as a new cluster; and the upgrade of stored formats.

A backup is a directory with both files as an embedded store has them, the keys of the nodes, sealed under the cluster's
secret, and a list of digests, which is written last: a directory without it is no backup.
"""

import os
import shutil
from collections.abc import Callable
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
    found_and_read_back,
    open_streams,
    read_paper,
    with_data,
    write_papers,
)
from recapito.composition.stores import sqlite_options
from recapito.errors import SettingsError, StoreFailed
from recapito.identity.cluster_secret import ClusterSecret
from recapito.settings.settings import Settings
from recapito.stores.replicated.convert import KINDS, check_empty, digests, forget_streams
from recapito.stores.replicated.rows import Digest
from recapito.stores.sqlite.backend import SqliteBackend
from recapito.stores.sqlite.files import backup
from recapito.system.durable_names import make_directory, sync_directory
from recapito.system.secret_file import write

_KEYS = "keys.sealed"
_LIST = "backup.json"


class BackupList(msgspec.Struct, frozen=True):
    """The contents of a backup: the cluster, the version and formats that wrote it, and the digest of each file."""

    cluster: str
    version: str
    formats: str
    digests: dict[str, Digest]


async def back_up(settings: Settings, target: Path, progress: Callable[[str], None]) -> dict[str, Digest]:
    """Copy the stores and the keys of a cluster to an empty directory; its nodes may run. The digests of the files.

    The copy has every event that was acknowledged before this began.
    """
    check_empty(target)
    async with open_peers(settings) as peers:
        sealed = await read_paper(peers, settings)
    with TemporaryDirectory(dir=target) as inside:
        place = Path(inside)
        progress("reading the streams")
        async with open_streams(settings) as streams:
            try:
                found = await backend_on(with_data(settings, place), streams).snapshot()
            except StoreFailed as error:
                raise SettingsError(f"The streams cannot be copied: {error}. Try again.") from error
        forget_streams(place)
        for name in found:
            _sync(place / name)
            (place / name).rename(target / name)
            progress(f"copied {name}: {(target / name).stat().st_size} bytes")
    write(target / _KEYS, sealed)
    listed = BackupList(settings.cluster.name, __version__, stored_formats(), found)
    write(target / _LIST, msgspec.json.encode(listed))
    return found


async def restore(
    settings: Settings, source: Path, secret: ClusterSecret, sizes: StreamSizes, progress: Callable[[str], None]
) -> Moved:
    """Make a new cluster out of a backup, with this node as its first, or leave nothing behind.

    The new cluster has a secret and streams of its own: nodes that remember the old streams refuse the new ones.
    """
    listed = _read_list(source)
    papers = _open_keys(source, secret, listed)
    progress("checking the backup")
    backup.check(source)
    check_empty(settings.data)
    try:
        for kind in KINDS:
            shutil.copyfile(source / kind.file, settings.data / kind.file)
            (settings.data / kind.file).chmod(0o600)
            _sync(settings.data / kind.file)
        sync_directory(settings.data)
        if digests(settings.data) != listed.digests:
            raise SettingsError(f"{source} was changed after the backup was taken: its digests differ.")
        write_papers(settings, papers)
        await SqliteBackend(sqlite_options(settings)).prepare()  # an older version's files are migrated
    except BaseException:
        shutil.rmtree(settings.data)  # it was empty before
        raise
    before = digests(settings.data)
    return Moved(before, await found_and_read_back(settings, sizes, progress))


async def upgrade(settings: Settings) -> dict[str, tuple[int, int]]:
    """Bring the streams of a cluster, whose nodes have stopped, to the formats of this version.

    The result has, by file, the schemas before and after.
    """
    async with open_peers(settings) as peers:
        await check_stopped(peers)
    make_directory(settings.data)
    with TemporaryDirectory(dir=settings.data) as inside:
        async with open_streams(settings) as streams:
            try:
                return await backend_on(with_data(settings, Path(inside)), streams).upgrade()
            except StoreFailed as error:
                raise SettingsError(f"The streams cannot be upgraded: {error}. Run the command again.") from error


def _read_list(source: Path) -> BackupList:
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
