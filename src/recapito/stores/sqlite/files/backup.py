"""Backup beside a running server, and restore into an empty data directory.

dispatch.db is copied first and log.db second, while nothing is trimmed: so every cursor in the copy finds its entries.
Written dead letters are plain files and not part of it. A copy holds keys: only its owner can read it.
"""

import os
import shutil
from collections.abc import Callable
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path

import apsw

from recapito.errors import SettingsError
from recapito.stores.sqlite.files import lock
from recapito.stores.sqlite.files.connection import DISPATCH, LOG, FileKind, open_reader
from recapito.stores.sqlite.files.fit import misfit
from recapito.system.durable_names import make_directory, sync_directory

COPY_MARKERS = "*.stream.json"  # beside a file that is a node's copy of a stream


def backup(data: Path, target: Path, progress: Callable[[str], None]) -> None:
    """Copy both files of a data directory to an empty one, as they are at one moment each."""
    if any(data.glob(COPY_MARKERS)):
        raise SettingsError(f"{data} belongs to a node of a cluster: use `recapito cluster backup`.")
    prepare(target, "The backup's directory")
    with lock.no_trimming(data):
        for kind in (DISPATCH, LOG):
            progress(f"copying {kind.file}")
            with closing(open_reader(data / kind.file, kind)) as connection:
                _copy(target, kind, partial(_vacuum_into, connection))
            progress(f"copied {kind.file}: {(target / kind.file).stat().st_size} bytes")


def restore(source: Path, data: Path, progress: Callable[[str], None] = lambda line: None) -> None:
    """Check a backup and copy it into an empty data directory that no server uses."""
    for kind in (LOG, DISPATCH):
        if not (source / kind.file).exists():
            raise SettingsError(f"{source / kind.file} does not exist: {source} is not a complete backup.")
    prepare(data, "The data directory")
    with ExitStack() as locks:
        for role in lock.ROLES:
            locks.enter_context(lock.lock_role(data, role))
        progress("checking the backup")
        check(source)
        for kind in (LOG, DISPATCH):
            _copy(data, kind, partial(shutil.copyfile, source / kind.file))
            progress(f"restored {kind.file}")


def prepare(directory: Path, what: str) -> None:
    """Make a directory, or check that it is empty except for locks."""
    try:
        make_directory(directory)
        names = [path.name for path in directory.iterdir() if path.suffix != ".lock"]
    except OSError as error:
        raise SettingsError(f"{what} {directory} cannot be used: {error.strerror}.") from error
    if names:
        raise SettingsError(f"{what} {directory} is not empty ({min(names)}): choose another.")


def _copy(directory: Path, kind: FileKind, fill: Callable[[Path], object]) -> None:
    """Make a file that gets its name only when it is complete and durable."""
    unfinished = directory / f"{kind.file}.partial"
    handle = os.open(unfinished, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        fill(unfinished)
        os.fsync(handle)
        unfinished.rename(directory / kind.file)
    except (apsw.Error, OSError) as error:
        raise SettingsError(f"{directory / kind.file} cannot be written: {error}.") from error
    finally:
        os.close(handle)
        unfinished.unlink(missing_ok=True)
    sync_directory(directory)


def _vacuum_into(connection: apsw.Connection, path: Path) -> None:
    connection.execute("VACUUM INTO ?", (str(path),))


def check(source: Path) -> None:
    """A backup can be restored if both files are sound and every cursor lies within its log."""
    with (
        closing(open_reader(source / LOG.file, LOG, any_version=True)) as log,
        closing(open_reader(source / DISPATCH.file, DISPATCH, any_version=True)) as dispatch,
    ):
        for connection, kind in ((log, LOG), (dispatch, DISPATCH)):
            result = connection.pragma("quick_check")
            if result != "ok":
                raise SettingsError(f"{source / kind.file} is damaged: {result}.")
        check_cursors(log, dispatch)


def check_cursors(log: apsw.Connection, dispatch: apsw.Connection) -> None:
    """Refuse two files that do not fit together."""
    found = misfit(log, dispatch)
    if found:
        raise SettingsError(f"The backup does not fit together: {found}.")
