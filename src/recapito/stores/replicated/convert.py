"""From an embedded store to the content of streams and back, with digests as the proof that nothing changed.

The files keep their rows byte for byte: a copy for a cluster has a note and a marker besides, an embedded store none.
"""

import shutil
from contextlib import ExitStack, closing
from pathlib import Path

import apsw

from recapito.errors import SettingsError
from recapito.stores.replicated.copy import Copy
from recapito.stores.replicated.database import marker_file, spoilt_file
from recapito.stores.replicated.rows import NOTE, Digest, Schema
from recapito.stores.sqlite.files import lock
from recapito.stores.sqlite.files.connection import DISPATCH, LOG
from recapito.system.durable_names import make_directory, sync_directory

KINDS = (LOG, DISPATCH)


def check_empty(directory: Path) -> None:
    """Make a directory, or refuse one that holds anything but locks."""
    make_directory(directory)
    names = [path.name for path in directory.iterdir() if path.suffix != ".lock"]
    if names:
        raise SettingsError(f"{directory} is not empty ({min(names)}): choose another directory.")


def copy_stores(source: Path, target: Path) -> None:
    """Copy both files of a server that does not run. SQLite's own copy would number some rows anew."""
    with ExitStack() as locks:
        for role in lock.ROLES:
            locks.enter_context(lock.lock_role(source, role))
        for kind in KINDS:
            with closing(apsw.Connection(str(source / kind.file))) as connection:
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            shutil.copyfile(source / kind.file, target / kind.file)
            (target / kind.file).chmod(0o600)
    sync_directory(target)


def digests(data: Path) -> dict[str, Digest]:
    """The digest of each file, by reading it whole."""
    found = {}
    for kind in KINDS:
        with closing(apsw.Connection(str(data / kind.file), flags=apsw.SQLITE_OPEN_READONLY)) as connection:
            found[kind.file] = Schema(connection).digest(connection)
    return found


def noted_digests(data: Path) -> dict[str, Digest]:
    """The digest of each file that the last owner published with its last commit."""
    found = {}
    for kind in KINDS:
        with closing(apsw.Connection(str(data / kind.file))) as connection:
            found[kind.file] = Copy(connection).note.digest
    return found


def forget_streams(data: Path) -> None:
    """Remove the marks of streams from a directory; the rows stay."""
    for kind in KINDS:
        path = data / kind.file
        if path.exists():
            with closing(apsw.Connection(str(path))) as connection:
                connection.execute(f"DROP TABLE IF EXISTS {NOTE}")
        for mark in (marker_file(path), spoilt_file(path)):
            mark.unlink(missing_ok=True)
