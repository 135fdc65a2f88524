"""The parent of a server on two processes: it holds the listening socket and the wake-up, and keeps both roles running.

A role that dies is started again. The sockets stay open meanwhile, so callers wait only for the restart.
"""

import asyncio
import errno
import os
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import MappingProxyType

import msgspec

from recapito.clock import ClockOrigin
from recapito.domain.cluster.partition import WHOLE, Partition
from recapito.errors import SettingsError
from recapito.observability.journal import Journal
from recapito.process.child import Child, Ending
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
    """Runs intake and dispatch until `stop` is called, or until they have lost the store to another node.

    `links` has, for each role of a node of a cluster, the socket by which it hears of the cluster.
    """

    def __init__(
        self,
        settings: Settings,
        listener: socket.socket,
        journal: Journal,
        front: socket.socket | None = None,
        links: Mapping[str, socket.socket] = MappingProxyType({}),
        partition: Partition = WHOLE,
    ) -> None:
        self._settings = settings
        self._listener = listener
        self._front = front
        self._partition = partition
        self._journal = journal
        self._wakes = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._ready_pipe = os.pipe()
        self._origin: ClockOrigin | None = None
        self._stopping = asyncio.Event()
        self._failure: str | None = None
        self.lost = False
        self._roles = {
            "intake": self._child("intake", self._wakes[0], links.get("intake")),
            "dispatch": self._child("dispatch", self._wakes[1], links.get("dispatch")),
        }
        self._ready = False

    def __repr__(self) -> str:
        return f"<Supervisor of {', '.join(self._roles)}>"

    @property
    def fails(self) -> bool:
        """Whether a role ends soon after each start."""
        return any(child.fails for child in self._roles.values())

    async def warm(self) -> None:
        """Have both roles load their modules, so that `run` need not wait for that."""
        for child in self._roles.values():
            await child.warm()

    async def run(self, origin: ClockOrigin, on_ready: Callable[[], None]) -> None:
        """Start both roles, call `on_ready` once when both are ready, and keep them running until `stop`."""
        self._origin = origin
        ready = asyncio.create_task(self._await_ready(self._ready_pipe[0], on_ready))
        try:
            async with asyncio.TaskGroup() as roles:
                for role, child in self._roles.items():
                    roles.create_task(self._keep(role, child))
        finally:
            ready.cancel()
            with suppress(asyncio.CancelledError):
                await ready
            await self.close()
        if self._failure is not None:
            raise SettingsError(self._failure)

    def stop(self) -> None:
        """End both roles; each finishes the work that it has begun."""
        self._stopping.set()

    async def close(self) -> None:
        """Let go of the sockets, and of roles that never ran; `run` does that itself."""
        for child in self._roles.values():
            await child.cool()
        for number in self._ready_pipe:
            os.close(number)
        for end in self._wakes:
            end.close()

    def reload(self) -> None:
        """Let intake apply its estate file again. While intake starts, it reads the file anyway."""
        if self._ready:
            self._roles["intake"].hang_up()

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

    def _child(self, role: str, wake: socket.socket, link: socket.socket | None) -> Child:
        """One role. Only intake gets the listening sockets."""
        outer = (self._listener, self._front) if role == "intake" else (None, None)
        listener, front, node = (-1 if end is None else end.fileno() for end in (*outer, link))
        numbers = (listener, wake.fileno(), self._ready_pipe[1], node, front)

        def config() -> bytes:
            assert self._origin is not None
            tree = msgspec.to_builtins(self._settings)
            return msgspec.json.encode(RoleConfig(tree, self._origin, *numbers, *self._partition))

        words = () if link is None else ("cluster",)
        return Child(role, config, [number for number in numbers if number >= 0], self._journal, words)

    async def _keep(self, role: str, child: Child) -> None:
        """Keep one role running until `stop`. A role that refuses its settings, or lost the store, ends the other."""
        ending = await child.keep(self._stopping)
        if ending is Ending.REFUSED:
            self._failure = f"the {role} role could not start: see its message above"
        self.lost = self.lost or ending is Ending.LOST
        self._stopping.set()
