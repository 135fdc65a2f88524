"""Every file that a server relies on has a name that a power cut does not take, in directories that are private."""

import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.system.directory_trace import CALLS, Names

# Files whose loss costs nothing: locks are made anew, history promises nothing, SQLite makes the index of a WAL anew.
FREE_TO_GO = ("*.lock", "history.db*", "*-shm")

EVERYTHING = """
import asyncio, sys
from pathlib import Path
from recapito.composition import identity, stores
from recapito.clock import SystemClock
from recapito.connections.encryption import SecretBox
from recapito.observability.journal import silent
from recapito.settings import settings
from recapito.stores.sqlite.files.backup import backup, restore
from recapito.vaults.directory import DirectoryVault

root = Path(sys.argv[1])
chosen = settings.load(environment={}, flags={"server.data": str(root / "new" / "data"), "tls.enabled": True})

async def main():
    backend = stores.make_backend(chosen, silent)
    await backend.prepare()
    identity.prepare_tls(chosen)
    identity.prepare_identity(chosen)
    async with backend.open_both(SystemClock()):
        SecretBox.in_file(chosen.connection_key).encrypt(b"a secret", "/a/resource")
        await DirectoryVault(chosen.data / "deadletters").write("box", "SUB/2026/1/letter.json", b"[]")

asyncio.run(main())
backup(chosen.data, root / "kept" / "today", print)
restore(root / "kept" / "today", root / "again" / "data", print)
"""


def test_every_name_is_durable(tmp_path: Path) -> None:
    """Databases, WALs, keys, certificates, ballast, dead letters, backups, and the directories that hold them."""
    if shutil.which("strace") is None:
        pytest.skip("NAMES OF FILES ARE NOT TESTED: this machine has no strace")
    root, trace = tmp_path / "root", tmp_path / "trace"
    root.mkdir()
    subprocess.run(
        ["strace", "-f", "-y", "-e", f"trace={CALLS}", "-o", trace, sys.executable, "-c", EVERYTHING, root],
        check=True,
        timeout=120,
        stdout=subprocess.DEVNULL,
    )
    names = Names(root, trace.read_text())
    found = set(root.rglob("*"))
    assert found <= names.live, "the trace has everything that is there"
    doubt = {name for name in names.in_doubt if not any(Path(name).match(free) for free in FREE_TO_GO)}
    assert not doubt
    files = {"log.db", "dispatch.db", "ballast", "connection.key", "letter.json"}
    assert files | {"identity", "tls", "data", "today"} <= {path.name for path in names.durable}
    private = [path for path in found if path.name in ("data", "today", "identity", "tls")]
    assert {stat.S_IMODE(path.stat().st_mode) for path in private} == {0o700}


@pytest.mark.parametrize(
    ("calls", "doubt"),
    [
        ('openat(AT_FDCWD</>, "/r/log.db", O_RDWR|O_CREAT, 0600) = 3</r/log.db>', {"log.db"}),
        ('openat(AT_FDCWD</>, "/r/log.db", O_RDWR|O_CREAT, 0600) = 3</r/log.db>\nfsync(4</r>) = 0', set()),
        ('openat(5</r>, "a", O_WRONLY|O_CREAT, 0600) = 3</r/a>\nfsync(3</r/a>) = 0', {"a"}),
        ('mkdir("/r/d", 0700) = 0\nopenat(5</r/d>, "a", O_CREAT) = 3</r/d/a>\nfsync(6</r/d>) = 0', {"d"}),
        ('1 mkdir("/r/d", 0700) = 0\n1 fsync(6</r>) = 0\n1 unlink("/r/d") = 0', {"d"}),
        ('openat(5</r>, "a", O_CREAT) = 3</r/a>\nfsync(5</r>) = 0\nrename("/r/a", "/r/b") = 0', {"a", "b"}),
        ('openat(5</r>, "a", O_CREAT) = -1 EEXIST (File exists)', set()),
    ],
)
def test_the_trace_is_understood(calls: str, doubt: set[str]) -> None:
    """Planted traces: what was made, moved or removed without a sync of its directory is in doubt."""
    assert Names(Path("/r"), calls).in_doubt == doubt


@pytest.mark.parametrize("umask", ["000", "022"])
def test_a_new_data_directory_is_private(tmp_path: Path, umask: str) -> None:
    """Whatever the umask, only its owner may look into a data directory that we make, and at the files in it."""
    data = tmp_path / "above" / "data"
    made = (
        "import asyncio; from recapito.composition import stores; from recapito.settings import settings;"
        "from recapito.observability.journal import silent;"
        f"chosen = settings.load(environment={{}}, flags={{'server.data': '{data}'}});"
        "asyncio.run(stores.make_backend(chosen, silent).prepare())"
    )
    subprocess.run(["sh", "-c", f"umask {umask}; exec '{sys.executable}' -c \"$0\"", made], check=True, timeout=60)
    assert stat.S_IMODE(data.stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in data.iterdir()} == {0o600}
