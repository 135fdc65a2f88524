"""Damage to the files of a running server, and the command line that deals with it."""

import subprocess
import sys
from contextlib import closing
from pathlib import Path

import apsw


def recapito(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command line to its end."""
    command = [sys.executable, "-m", "recapito", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=30)


def spoil(file: Path, sql: str) -> None:
    """Change one row behind the server's back."""
    with closing(apsw.Connection(str(file))) as connection:
        connection.set_busy_timeout(5000)
        connection.execute(sql)
        assert connection.changes() == 1
