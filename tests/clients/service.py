"""Recapito as a user starts it for the clients: with TLS, a principal to sign in as, and a CA that they must trust."""

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

SUBSCRIPTION = "00000000-0000-0000-0000-000000000000"
PATIENCE_S = 30.0


class Principal(NamedTuple):
    """Who the clients sign in as."""

    tenant: str
    client: str
    secret: str


class Service:
    """A `recapito serve --tls` process with its children."""

    def __init__(self, data: Path, *flags: str) -> None:
        self._said: list[str] = []
        self._changed = threading.Condition()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "recapito", "serve", "--data", str(data), "--port", "0", "--tls", *flags],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        self.url = self._find(r"ready at (https://\S+)")
        names = ("AZURE_TENANT_ID", "AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET")
        self.principal = Principal(*(self._find(rf"{name}=(\S+)") for name in names))
        self.trust = dict(re.findall(r"export (\w+)=(\S+)", run("tls", "--data", str(data))))

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with self._changed:
                self._said.append(line)
                self._changed.notify_all()
        with self._changed:
            self._said.append("(the server has ended)\n")
            self._changed.notify_all()

    def _find(self, pattern: str) -> str:
        """A value in the server's welcome."""
        with self._changed:
            self._changed.wait_for(lambda: re.search(pattern, self.said) or "has ended" in self.said, PATIENCE_S)
            found = re.search(pattern, self.said)
            assert found, f"{pattern} not found in:\n{self.said}"
            return found[1]

    @property
    def said(self) -> str:
        """All that the server has printed."""
        return "".join(self._said)

    def stop(self) -> None:
        """End it."""
        self._process.terminate()
        self._process.wait(PATIENCE_S)
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()


def run(*arguments: str) -> str:
    """The output of a command of `recapito`."""
    done = subprocess.run(
        [sys.executable, "-m", "recapito", *arguments], capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextmanager
def service(data: Path, *flags: str) -> Iterator[Service]:
    """A service for a while."""
    it = Service(data, *flags)
    try:
        yield it
    finally:
        it.stop()


def requirement(path: Path, reason: str) -> str | None:
    """Why the tests of a client are skipped, if it is not there; where nothing may be skipped, an error."""
    if path.exists():
        return None
    assert os.environ.get("CI") != "true", reason
    return reason
