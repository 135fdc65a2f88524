"""The parent of a server on two processes: it holds the listening socket and the wake-up, and keeps both roles running.

A role gets its settings on standard input and ends when that closes, so no child outlives its parent, however the
parent ends. A role that dies is started again; the sockets stay, so callers only wait a moment.
"""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress

import msgspec

from recapito.clock import Origin
from recapito.errors import SettingsError
from recapito.roles import RoleOrder
from recapito.settings import Settings
from recapito.telemetry import Journal

BACKLOG = 2048
GRACE_S = 10.0
FIRST_PAUSE_S = 0.05
LONGEST_PAUSE_S = 5.0
STEADY_S = 10.0


def listen(host: str, port: int) -> socket.socket:
    """The listening socket; a busy port or a wrong address is a settings error."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
    except (OSError, UnicodeError) as error:
        raise SettingsError(f"server.host: '{host}' can not be listened on: {error}") from None
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise SettingsError(
            f"server.port: {host} port {port} can not be listened on: {error.strerror}. "
            "Is another server running there? Choose another with --port."
        ) from None
    return listener


class Supervisor:
    """Runs intake and dispatch until told to stop."""

    def __init__(self, settings: Settings, origin: Origin, listener: socket.socket, journal: Journal) -> None:
        self._settings = settings
        self._origin = origin
        self._listener = listener
        self._journal = journal
        self._wakes = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._stopping = asyncio.Event()
        self._failure: str | None = None

    async def run(self, on_ready: Callable[[], None]) -> None:
        """Start both roles, say when both are ready for the first time, and keep them running until `stop`."""
        read_end, write_end = os.pipe()
        ready = asyncio.create_task(self._await_ready(read_end, on_ready))
        try:
            async with asyncio.TaskGroup() as roles:
                roles.create_task(self._keep("intake", self._wakes[0], write_end))
                roles.create_task(self._keep("dispatch", self._wakes[1], write_end))
        finally:
            ready.cancel()
            with suppress(asyncio.CancelledError):
                await ready
            os.close(read_end)
            os.close(write_end)
            for end in self._wakes:
                end.close()
        if self._failure is not None:
            raise SettingsError(self._failure)

    def stop(self) -> None:
        """End both roles; each finishes what it has begun."""
        self._stopping.set()

    async def _await_ready(self, read_end: int, on_ready: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()
        signalled = asyncio.Event()
        seen: set[bytes] = set()

        def read() -> None:
            seen.update(os.read(read_end, 4096).splitlines())
            if {b"intake", b"dispatch"} <= seen:
                signalled.set()

        loop.add_reader(read_end, read)
        try:
            await signalled.wait()
            on_ready()
            await asyncio.Event().wait()
        finally:
            loop.remove_reader(read_end)

    async def _keep(self, role: str, wake: socket.socket, ready: int) -> None:
        """One role, started again whenever it ends before we stop. A role that refuses its settings ends everything."""
        pause = FIRST_PAUSE_S
        loop = asyncio.get_running_loop()
        while not self._stopping.is_set():
            began = loop.time()
            child = await self._start(role, wake, ready)
            ended, stopped = asyncio.create_task(child.wait()), asyncio.create_task(self._stopping.wait())
            await asyncio.wait({ended, stopped}, return_when=asyncio.FIRST_COMPLETED)
            stopped.cancel()
            if self._stopping.is_set():
                await self._end(child, ended)
                return
            if ended.result() == os.EX_CONFIG:
                self._failure = f"the {role} role could not start; its message is above"
                self._stopping.set()
                return
            self._journal("role.ended", role=role, code=ended.result())
            pause = FIRST_PAUSE_S if loop.time() - began > STEADY_S else min(pause * 2, LONGEST_PAUSE_S)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), pause)

    async def _start(self, role: str, wake: socket.socket, ready: int) -> asyncio.subprocess.Process:
        listener = self._listener.fileno() if role == "intake" else -1
        order = RoleOrder(
            msgspec.to_builtins(self._settings), self._origin, listener=listener, wake=wake.fileno(), ready=ready
        )
        child = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "recapito",
            "role",
            role,
            stdin=asyncio.subprocess.PIPE,
            pass_fds=[fd for fd in (listener, wake.fileno(), ready) if fd >= 0],
            start_new_session=True,
        )
        assert child.stdin is not None
        with suppress(ConnectionError):
            child.stdin.write(msgspec.json.encode(order) + b"\n")
            await child.stdin.drain()
        return child

    async def _end(self, child: asyncio.subprocess.Process, ended: "asyncio.Task[int]") -> None:
        assert child.stdin is not None
        with suppress(ConnectionError):
            child.stdin.write(b"stop\n")
            await child.stdin.drain()
        try:
            await asyncio.wait_for(asyncio.shield(ended), GRACE_S)
        except TimeoutError:
            child.send_signal(signal.SIGKILL)
            await ended
