"""The parent of a server on two processes: it holds the listening socket and the wake-up, and keeps both roles running.

A role that dies is started again. The sockets stay open meanwhile, so callers wait only for the restart.
"""

import asyncio
import errno
import os
import socket
import time
from collections.abc import Callable
from contextlib import suppress

import msgspec

from recapito.clock import ClockOrigin
from recapito.errors import SettingsError
from recapito.observability.journal import Journal
from recapito.process.child import Child
from recapito.process.role_config import RoleConfig
from recapito.settings.settings import Settings

BACKLOG = 2048
BIND_TRIES = 20
BIND_PAUSE_S = 0.05


def listen(host: str, port: int, section: str = "server", flag: str = "--port") -> socket.socket:
    """A listening socket. A busy port or a wrong address is a SettingsError that names this section."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
    except (OSError, UnicodeError) as error:
        raise SettingsError(f"{section}.host: '{host}' cannot be listened on: {error}") from None
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        _bind(listener, address)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise SettingsError(
            f"{section}.port: {host} port {port} cannot be listened on: {error.strerror}. "
            f"Is another server running there? Choose another with {flag}."
        ) from None
    return listener


def _bind(listener: socket.socket, address: tuple[object, ...]) -> None:
    """Bind, and try again for a second if the port is busy: a server that was killed may be about to free it."""
    for tries in reversed(range(BIND_TRIES)):
        try:
            listener.bind(address)
            break
        except OSError as error:
            if error.errno != errno.EADDRINUSE or not tries:
                raise
            time.sleep(BIND_PAUSE_S)


class Supervisor:
    """Runs intake and dispatch until `stop` is called."""

    def __init__(
        self,
        settings: Settings,
        origin: ClockOrigin,
        listener: socket.socket,
        journal: Journal,
        front: socket.socket | None = None,
    ) -> None:
        self._settings = settings
        self._origin = origin
        self._listener = listener
        self._front = front
        self._journal = journal
        self._wakes = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._stopping = asyncio.Event()
        self._failure: str | None = None
        self._intake: Child | None = None
        self._ready = False

    async def run(self, on_ready: Callable[[], None]) -> None:
        """Start both roles, call `on_ready` once when both are ready, and keep them running until `stop`."""
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
        """End both roles; each finishes the work that it has begun."""
        self._stopping.set()

    def reload(self) -> None:
        """Let intake apply its estate file again. While intake starts, it reads the file anyway."""
        if self._intake is not None and self._ready:
            self._intake.hang_up()

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
            self._ready = True
            on_ready()
            await asyncio.Event().wait()
        finally:
            loop.remove_reader(read_end)

    async def _keep(self, role: str, wake: socket.socket, ready: int) -> None:
        """Keep one role running until `stop`. A role that refuses its settings ends the server."""
        listener = self._listener.fileno() if role == "intake" else -1
        front = self._front.fileno() if self._front is not None and role == "intake" else -1
        config = RoleConfig(
            msgspec.to_builtins(self._settings),
            self._origin,
            listener=listener,
            wake=wake.fileno(),
            ready=ready,
            front=front,
        )
        descriptors = [fd for fd in (listener, wake.fileno(), ready, front) if fd >= 0]
        child = Child(role, msgspec.json.encode(config), descriptors, self._journal)
        if role == "intake":
            self._intake = child
        if not await child.keep(self._stopping):
            self._failure = f"the {role} role could not start: see its message above"
            self._stopping.set()
