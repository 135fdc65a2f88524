"""The power goes while an older file is migrated, at every single operation: the next start finishes it."""

from contextlib import suppress
from pathlib import Path

import apsw
import pytest

from recapito.stores.sqlite.files.connection import DISPATCH, LOG, FileKind, FileMedium, open_writer
from recapito.stores.sqlite.sql_files import migrate, migrations, version
from tests.system.power_loss_disk import Disk, PowerLoss, PowerLossVFS


def schema(connection: apsw.Connection) -> list[tuple[str, str]]:
    """All tables, indexes, views and triggers."""
    return list(connection.execute("SELECT name, sql FROM sqlite_schema ORDER BY name"))


def make_old(vfs: PowerLossVFS, path: Path, kind: FileKind, steps: int) -> None:
    """A file of the time when there were `steps` migrations, all of it synced."""
    connection = apsw.Connection(str(path), vfs=vfs.name)
    for name, value in (("locking_mode", "EXCLUSIVE"), ("page_size", kind.page_bytes), ("journal_mode", "WAL")):
        connection.pragma(name, value)
    migrate(connection, kind.application_id, migrations(kind.name)[:steps])
    connection.close()
    for file in vfs.disk.names.values():
        file.sync()
    vfs.disk.durable_names = dict(vfs.disk.names)


@pytest.mark.parametrize("kind", [LOG, DISPATCH], ids=lambda kind: kind.name)
def test_a_cut_at_every_operation_of_a_migration(kind: FileKind) -> None:
    """Each migration is whole or not there; opened again, the file is as if nothing had happened."""
    vfs = PowerLossVFS(Disk(0))
    medium = FileMedium(vfs.name, names=vfs)
    file = Path(kind.file)
    known = len(migrations(kind.name))
    vfs.disk = Disk(1)
    wanted = open_writer(vfs.disk.directory / file, kind, medium)
    whole = schema(wanted)
    wanted.close()
    cuts = 0
    for steps in range(1, known):
        k = 0
        while True:
            k += 1
            vfs.disk = Disk(k)
            make_old(vfs, vfs.disk.directory / file, kind, steps)
            vfs.disk.cut_at = vfs.disk.operations + k
            connection = None
            with suppress(PowerLoss):
                connection = open_writer(vfs.disk.directory / file, kind, medium)
            if not vfs.disk.off:
                break
            cuts += 1
            if connection is not None:
                connection.close(True)
            vfs.disk = vfs.disk.lose_power()
            again = open_writer(vfs.disk.directory / file, kind, medium)
            assert again.pragma("integrity_check") == "ok"
            assert version(again) == known and schema(again) == whole, f"{steps} migrations, cut at {k}"
            again.close()
        assert connection is not None
        vfs.disk.cut_at = None
        connection.close()
    vfs.unregister()
    assert cuts >= 5 * (known - 1) > 0
