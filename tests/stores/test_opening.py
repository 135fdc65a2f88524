"""Opening database files: what is set, what is refused, and what is said about it."""

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from recapito.contracts.ledger import LaneCounts, LaneRow
from recapito.domain import limits
from recapito.domain.delivery.cursor import Cursor
from recapito.domain.delivery.hold import Hold
from recapito.errors import SettingsError
from recapito.stores.sqlite.files import volume
from recapito.stores.sqlite.files.connection import DISPATCH, LOG, FileKind, open_reader, open_writer
from recapito.stores.sqlite.sql import dead_letter_sql, ledger_sql
from recapito.stores.sqlite.sql_files import migrate, migrations, version

KINDS = pytest.mark.parametrize("kind", [LOG, DISPATCH], ids=lambda kind: kind.name)


def plain(path: Path) -> "closing[apsw.Connection]":
    return closing(apsw.Connection(str(path)))


def schema(path: Path) -> list[tuple[object, ...]]:
    with plain(path) as connection:
        return connection.execute("SELECT type, name, sql FROM sqlite_schema ORDER BY type, name").fetchall()


@KINDS
def test_a_new_file_is_made_for_its_owner_alone(tmp_path: Path, kind: FileKind) -> None:
    """It holds keys: no other user may read it, nor its WAL."""
    with closing(open_writer(tmp_path / kind.file, kind)) as connection:
        connection.execute("CREATE TABLE x (y)")
        for path in tmp_path.iterdir():
            assert path.stat().st_mode & 0o077 == 0, path


@KINDS
def test_the_settings_that_keep_events_safe_are_on(tmp_path: Path, kind: FileKind) -> None:
    """WAL, a sync at every commit, no mmap, our own checkpoints, checks of what is read."""
    with closing(open_writer(tmp_path / kind.file, kind)) as connection:
        settings = {
            name: connection.pragma(name)
            for name in (
                "journal_mode",
                "synchronous",
                "foreign_keys",
                "trusted_schema",
                "cell_size_check",
                "mmap_size",
                "wal_autocheckpoint",
                "journal_size_limit",
                "temp_store",
            )
        }
        assert connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, -1) == 1
    assert settings == {
        "journal_mode": "wal",
        "synchronous": 2,
        "foreign_keys": 1,
        "trusted_schema": 0,
        "cell_size_check": 1,
        "mmap_size": 0,
        "wal_autocheckpoint": 0,
        "journal_size_limit": limits.WAL_KEPT_BYTES,
        "temp_store": 2,
    }


@KINDS
def test_a_new_file_has_the_pages_of_its_kind_and_an_old_one_keeps_its_own(tmp_path: Path, kind: FileKind) -> None:
    """Pages are chosen when a file is made; one that was made with other pages is served as it is."""
    with closing(open_writer(tmp_path / kind.file, kind)) as made:
        assert made.pragma("page_size") == kind.page_bytes
    older = kind._replace(page_bytes=1024)
    with closing(open_writer(tmp_path / "older.db", older)):
        pass
    with closing(open_writer(tmp_path / "older.db", kind)) as served:
        assert served.pragma("page_size") == 1024


@KINDS
def test_a_reader_can_not_write(tmp_path: Path, kind: FileKind) -> None:
    """The other role's connection only reads."""
    with (
        closing(open_writer(tmp_path / kind.file, kind)),
        closing(open_reader(tmp_path / kind.file, kind)) as reader,
        pytest.raises(apsw.ReadOnlyError),
    ):
        reader.execute("CREATE TABLE x (y)")


def test_a_reader_needs_a_file(tmp_path: Path) -> None:
    """A file that is not there is not made by who wants to read it."""
    with pytest.raises(SettingsError, match=r"log\.db does not exist"):
        open_reader(tmp_path / LOG.file, LOG)
    assert not list(tmp_path.iterdir())


def test_what_is_no_database_is_left_alone(tmp_path: Path) -> None:
    """A file of something else is refused by name, and not touched."""
    path = tmp_path / LOG.file
    path.write_bytes(b"my thesis, do not delete\n" * 100)
    with pytest.raises(SettingsError, match=r"log\.db is not a database"):
        open_writer(path, LOG)
    assert path.read_bytes() == b"my thesis, do not delete\n" * 100


def test_a_foreign_database_is_left_alone(tmp_path: Path) -> None:
    """A database of another program, or our other kind of file, is refused by name."""
    path = tmp_path / LOG.file
    with plain(path) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    before = path.read_bytes()
    with pytest.raises(SettingsError, match=r"log\.db is not recapito's log file"):
        open_writer(path, LOG)
    assert path.read_bytes() == before
    open_writer(tmp_path / DISPATCH.file, DISPATCH).close()
    (tmp_path / DISPATCH.file).rename(path)
    with pytest.raises(SettingsError, match=r"log\.db is not recapito's log file"):
        open_reader(path, LOG)


@KINDS
def test_a_newer_file_is_refused(tmp_path: Path, kind: FileKind) -> None:
    """An old recapito does not touch what a newer one wrote, and says what to do."""
    path = tmp_path / kind.file
    open_writer(path, kind).close()
    with plain(path) as connection:
        connection.pragma("user_version", 99)
    for opens in (open_writer, open_reader):
        with pytest.raises(SettingsError, match="upgrade recapito"):
            opens(path, kind)


@KINDS
def test_a_reader_refuses_an_older_file(tmp_path: Path, kind: FileKind) -> None:
    """Its verbs would fail on it; who only looks at the file may have it."""
    path = tmp_path / kind.file
    open_writer(path, kind).close()
    with plain(path) as connection:
        connection.pragma("user_version", 0)
    with pytest.raises(SettingsError, match="recapito serve"):
        open_reader(path, kind)
    open_reader(path, kind, any_version=True).close()


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    """A file whose first page is torn is refused with what to do."""
    path = tmp_path / LOG.file
    open_writer(path, LOG).close()
    content = bytearray(path.read_bytes())
    content[100:4096] = os.urandom(3996)
    path.write_bytes(content)
    with pytest.raises(SettingsError, match=r"log\.db .*(damaged|cannot be opened)"):
        open_writer(path, LOG)


@KINDS
def test_an_empty_file_is_ours_to_fill(tmp_path: Path, kind: FileKind) -> None:
    """A crash before the first migration leaves an empty file or an empty database."""
    path = tmp_path / kind.file
    path.touch()
    open_writer(path, kind).close()
    other = tmp_path / "other.db"
    with plain(other) as connection:
        connection.execute("PRAGMA journal_mode = WAL; CREATE TABLE x (y); DROP TABLE x")
    open_writer(other, kind).close()
    assert schema(other) == schema(path)


@KINDS
def test_the_schema_is_all_migrations(tmp_path: Path, kind: FileKind) -> None:
    """A file of any older version becomes the same as a new one."""
    open_writer(tmp_path / "new.db", kind).close()
    steps = migrations(kind.name)
    for older in range(len(steps) + 1):
        path = tmp_path / f"version{older}.db"
        with plain(path) as connection:
            migrate(connection, kind.application_id, steps[:older])
            assert version(connection) == older
        open_writer(path, kind).close()
        assert schema(path) == schema(tmp_path / "new.db")
        with plain(path) as connection:
            assert version(connection) == len(steps)


def older_dispatch_file(directory: Path, steps: int, rows: str) -> Path:
    """A dispatch.db of the time when there were `steps` migrations, with these rows."""
    path = directory / DISPATCH.file
    with plain(path) as connection:
        migrate(connection, DISPATCH.application_id, migrations(DISPATCH.name)[:steps])
        connection.execute(rows)
    return path


def test_an_older_dispatch_file_keeps_its_lanes(tmp_path: Path) -> None:
    """A lane that was stored before attempts were counted has its books and no attempts."""
    path = older_dispatch_file(
        tmp_path,
        2,
        "INSERT INTO lane (id, topic, log_id, version, cursor, hold, ended, matched, dropped)"
        " VALUES (7, 3, 'log', 5, '[[9,0],[]]', '[3,0,0,null]', 0, 2, 2);"
        "INSERT INTO dropped VALUES (7, 'Canceled', 2)",
    )
    with closing(open_writer(path, DISPATCH)) as connection:
        lane = ledger_sql.lane(connection, 7)
    assert lane == LaneRow(7, 3, "log", 5, Cursor((9, 0)), Hold(3), LaneCounts(matched=2, dropped={"Canceled": 2}))


def test_older_dead_letters_have_no_reason(tmp_path: Path) -> None:
    """A lane that was stored before reasons were counted has its dead letters, and counts the next ones with theirs."""
    path = older_dispatch_file(
        tmp_path,
        4,
        "INSERT INTO lane (id, topic, log_id, version, cursor, hold, ended, matched, dead_lettered, buried)"
        " VALUES (7, 3, 'log', 5, '[[9,0],[]]', '[3,0,0,null]', 0, 3, 2, 1);"
        "INSERT INTO burial VALUES (7, 5, 0, 10, 'dead', 'path', 0, x'00');"
        "INSERT INTO burial_group VALUES (7, 'path', 'dead', 10)",
    )
    with closing(open_writer(path, DISPATCH)) as connection:
        before = ledger_sql.lane(connection, 7)
        dead_letter_sql.written(connection, 7, "path", None, 0, {"TimeToLiveExceeded": 1})
        after = ledger_sql.lane(connection, 7)
    assert before is not None and before.counts == LaneCounts(matched=3, dead_lettered=2, buried=1)
    assert after is not None
    assert after.counts == LaneCounts(matched=3, dead_lettered=3, reasons={"TimeToLiveExceeded": 1})


def test_a_migration_that_fails_leaves_the_version_before_it(tmp_path: Path) -> None:
    """Its number and its changes are one transaction."""
    with plain(tmp_path / "x.db") as connection:
        migrate(connection, 1, ["CREATE TABLE one (x)"])
        with pytest.raises(apsw.SQLError):
            migrate(connection, 1, ["", "CREATE TABLE two (x); INSERT INTO two VALUES (1); SELECT nothing()"])
        assert version(connection) == 1
        assert connection.execute("SELECT name FROM sqlite_schema").fetchall() == [("one",)]


@pytest.fixture
def unprivileged() -> Iterator[None]:
    """Be an ordinary user for a while: the superuser may write anywhere."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    yield
    os.seteuid(0)


def test_a_directory_that_can_not_be_written(tmp_path: Path, unprivileged: None) -> None:
    """A read-only data directory is refused by name."""
    if os.geteuid() != 65534:
        tmp_path.chmod(0o500)
    with pytest.raises(SettingsError, match="data directory"):
        volume.check_directory(tmp_path)
    with pytest.raises(SettingsError, match=r"log\.db cannot be"):
        open_writer(tmp_path / LOG.file, LOG)


def test_a_directory_that_is_none(tmp_path: Path) -> None:
    """A missing directory, or a file in its place, is refused by name."""
    (tmp_path / "file").touch()
    for path in (tmp_path / "missing", tmp_path / "file"):
        with pytest.raises(SettingsError, match=path.name):
            volume.check_directory(path)


MOUNTS = """\
22 1 254:0 / / rw,relatime - ext4 /dev/vda rw
30 22 0:40 / /mnt rw - tmpfs tmpfs rw
31 30 0:41 / /mnt/share rw shared:1 - nfs4 server:/x rw
32 30 0:42 / /mnt/with\\040space rw - fuse.sshfs me@there: rw
33 30 0:43 / /mnt/disk rw - fuseblk /dev/sdb1 rw
34 30 0:44 / /mnt/plan rw - 9p host rw
"""


@pytest.mark.parametrize(
    ("path", "kind", "network"),
    [
        ("/data", "ext4", False),
        ("/mnt", "tmpfs", False),
        ("/mnt/shared", "tmpfs", False),
        ("/mnt/share", "nfs4", True),
        ("/mnt/share/deep/down", "nfs4", True),
        ("/mnt/with space/x", "fuse.sshfs", True),
        ("/mnt/disk/x", "fuseblk", False),
        ("/mnt/plan/x", "9p", True),
    ],
)
def test_network_file_systems_are_known(path: str, kind: str, network: bool) -> None:
    """The innermost mount tells what a directory is on; on another machine's disk SQLite is not safe."""
    found = volume.file_system(Path(path), MOUNTS)
    assert (found, volume.is_network(found)) == (kind, network)


def test_the_innermost_mount_counts_wherever_it_is_listed() -> None:
    """A list of mounts may name an outer one after an inner one; of two on one path the last counts."""
    backwards = "\n".join(reversed(MOUNTS.splitlines()))
    assert volume.file_system(Path("/mnt/share/x"), backwards) == "nfs4"
    covered = MOUNTS + "35 30 0:45 / /mnt/share rw - ext4 /dev/sdc1 rw\n"
    assert volume.file_system(Path("/mnt/share/x"), covered) == "ext4"


def test_an_unknown_file_system_is_none() -> None:
    """Where there is no list of mounts, nothing is refused."""
    assert volume.file_system(Path("/data"), "") == ""
    assert not volume.is_network("")
