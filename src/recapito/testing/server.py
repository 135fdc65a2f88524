"""A server for tests in a child process: in memory, with a manual clock, on a free port of loopback.

It ends when its standard input closes, so it never outlives the test run, however that ends.
"""

import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from recapito.clock import origin_now
from recapito.settings import settings
from recapito.testing.client import LocalClient

SETTINGS = {"server.store": "memory", "clock.mode": "manual", "clock.patience_s": 10.0, "delivery.jitter": False}
_LOOPBACK = "127.0.0.1"
_START_S = 60.0
_STOP_S = 10.0
_BACKLOG = 512
_LAST_LINES = 20


class ServerNotStarted(Exception):
    """The server under test did not start; the message has its output."""


class RunningServer:
    """A running server."""

    def __init__(self, data: Path, changes: Mapping[str, Any]) -> None:
        self.data = data
        self.log = data / "server.log"
        with socket.create_server((_LOOPBACK, 0), backlog=_BACKLOG) as listener:
            self.port: int = listener.getsockname()[1]
            flags = {**SETTINGS, **changes, "server.host": _LOOPBACK, "server.port": self.port}
            # Variables of the test run that configure another server do not apply to this one.
            self.settings = settings.load(environment={}, flags={**flags, "server.data": str(data)})
            self.client = LocalClient(self.port, self.log)
            self._process = self._start(listener)

    def __repr__(self) -> str:
        return f"<RunningServer at {self.url}, process {self._process.pid}>"

    @property
    def url(self) -> str:
        """Where it listens."""
        return self.settings.public_url

    @property
    def pid(self) -> int:
        """Its process."""
        return self._process.pid

    def _start(self, listener: socket.socket) -> "subprocess.Popen[bytes]":
        read_end, write_end = os.pipe()
        order = {  # process.role_config.RoleConfig, without loading a whole server into the test run
            "settings": msgspec.to_builtins(self.settings),
            "origin": origin_now(),
            "listener": listener.fileno(),
            "wake": -1,
            "ready": write_end,
        }
        try:
            with self.log.open("wb") as log:
                process = subprocess.Popen(
                    [sys.executable, "-m", "recapito", "role", "alone"],
                    stdin=subprocess.PIPE,
                    stdout=log,
                    stderr=log,
                    pass_fds=[listener.fileno(), write_end],
                    start_new_session=True,
                )
            os.close(write_end)
            assert process.stdin is not None
            with suppress(BrokenPipeError):
                process.stdin.write(json.dumps(order).encode() + b"\n")
                process.stdin.flush()
            ready = select.select([read_end], [], [], _START_S)[0] and os.read(read_end, 64)
        finally:
            os.close(read_end)
        if not ready:
            self._end(process)
            raise ServerNotStarted(self._last_words(process))
        return process

    def stop(self) -> None:
        """End it."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.write(b"stop\n")
        self._end(self._process)

    def _end(self, process: "subprocess.Popen[bytes]") -> None:
        assert process.stdin is not None
        with suppress(BrokenPipeError):
            process.stdin.close()
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()

    def _last_words(self, process: "subprocess.Popen[bytes]") -> str:
        output = "\n".join(self.log.read_text("utf-8", "replace").splitlines()[-_LAST_LINES:])
        return (
            f"Recapito's server for tests did not start: `{sys.executable} -m recapito` ended with code"
            f" {process.returncode}. {f'Its output:{os.linesep}{output}' if output else 'It has no output.'}"
        )
