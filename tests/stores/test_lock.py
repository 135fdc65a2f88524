"""The locks of a data directory."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from recapito.errors import SettingsError
from recapito.stores.sqlite.files.lock import lock_role, no_trimming, trimming_allowed

HOLD = """
import sys
from pathlib import Path
from recapito.stores.sqlite.files.lock import lock_role
with lock_role(Path(sys.argv[1]), "intake"):
    print("held", flush=True)
    sys.stdin.read()
"""


ORPHAN = """
import os, sys
from pathlib import Path
from recapito.stores.sqlite.files.lock import lock_role
parent = os.getpid()
if os.fork() == 0:
    with lock_role(Path(sys.argv[1]), "intake"):
        os.kill(parent, 9)
        while os.getppid() == parent:
            pass
        print("held", flush=True)
        sys.stdin.read()
    os._exit(0)
os.wait()
"""


def test_a_role_has_one_process(tmp_path: Path) -> None:
    """The second one is told who has the directory; the other role is free."""
    with (
        lock_role(tmp_path, "intake"),
        lock_role(tmp_path, "dispatch"),
        pytest.raises(SettingsError, match=f"in use by process {os.getpid()}: another recapito"),
        lock_role(tmp_path, "intake"),
    ):
        pass
    with lock_role(tmp_path, "intake"):
        assert (tmp_path / "intake.lock").read_text() == f"{os.getpid()} {os.getppid()}\n"


def test_a_lock_ends_with_its_process(tmp_path: Path) -> None:
    """Another process holds it until it is killed."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, tmp_path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(SettingsError, match=f"process {holder.pid}"), lock_role(tmp_path, "intake"):
            pass
        holder.kill()
        holder.wait()
    with lock_role(tmp_path, "intake"):
        pass


def test_a_lock_of_a_process_that_is_ending_is_waited_for(tmp_path: Path) -> None:
    """Its parent was killed, so it will go too: the next process gets the lock then, and is not refused."""
    with subprocess.Popen(
        [sys.executable, "-c", ORPHAN, tmp_path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdin is not None and parent.stdout is not None
        assert parent.stdout.readline() == "held\n"
        threading.Timer(0.3, parent.stdin.close).start()
        with lock_role(tmp_path, "intake"):
            assert parent.stdin.closed


def test_the_lock_of_trimming_is_made_by_who_serves(tmp_path: Path) -> None:
    """It is there before the first backup, which another user may take, whose file the server could not open."""
    with lock_role(tmp_path, "intake"):
        assert (tmp_path / "trim.lock").exists()


def test_a_directory_without_locks(tmp_path: Path) -> None:
    """A lock that cannot be made is a clear error."""
    with pytest.raises(SettingsError, match="cannot be opened"), lock_role(tmp_path / "missing", "intake"):
        pass


def test_nothing_is_trimmed_during_a_backup(tmp_path: Path) -> None:
    """Trimming is allowed but while a backup has the lock."""
    with trimming_allowed(tmp_path) as allowed:
        assert allowed
    with no_trimming(tmp_path), trimming_allowed(tmp_path) as allowed:
        assert not allowed
    with trimming_allowed(tmp_path) as allowed:
        assert allowed
