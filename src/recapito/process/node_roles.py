"""The roles of a node as processes.

A node of one partition runs the standby role, or intake and dispatch, on the same listening socket. A node of several
runs the standby role all the time, as the router of all partitions; the intake of a partition that it owns listens on
a Unix socket in the data directory, which only the router reaches.
"""

import asyncio
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec

from recapito.clock import origin_now
from recapito.domain.cluster.partition import WHOLE, Partition
from recapito.domain.cluster.view import ClusterView
from recapito.errors import SettingsError
from recapito.observability.journal import Journal
from recapito.process.child import Child, Ending
from recapito.process.node_link import LinkEnds
from recapito.process.role_config import RoleConfig
from recapito.process.supervisor import BACKLOG, Supervisor
from recapito.settings.settings import Settings

OWNING = ("intake", "dispatch")
_SOCKET_CHARS = 100  # of a Unix socket's path; systems take 104 or 108


class StandbyRole:
    """The role that serves HTTP by forwarding. `on_ready` is called each time that it serves."""

    def __init__(
        self,
        settings: Settings,
        listener: socket.socket,
        journal: Journal,
        on_ready: Callable[[], None],
        partitions: int = 1,
    ) -> None:
        self._settings = settings
        self._listener = listener
        self._journal = journal
        self._on_ready = on_ready
        self._partitions = partitions
        self._links = LinkEnds(("standby",))

    def __repr__(self) -> str:
        return f"<StandbyRole for {self._partitions} partitions>"

    def close(self) -> None:
        self._links.close()

    def tell(self, view: ClusterView) -> None:
        self._links.tell(view)

    async def run(self, stopping: asyncio.Event) -> None:
        """Serve by forwarding until `stopping` is set."""
        read_end, write_end = os.pipe()
        loop, link = asyncio.get_running_loop(), self._links.of_roles["standby"].fileno()
        listener = self._listener.fileno()
        settings = msgspec.to_builtins(self._settings)
        config = RoleConfig(
            settings, origin_now(), listener, wake=-1, ready=write_end, node=link, partitions=self._partitions
        )

        def ready() -> None:
            with suppress(OSError):
                os.read(read_end, 64)
            self._on_ready()

        loop.add_reader(read_end, ready)
        self._links.running = {"standby"}
        child = Child("standby", lambda: msgspec.json.encode(config), [listener, write_end, link], self._journal)
        try:
            if await child.keep(stopping) is Ending.REFUSED:
                raise SettingsError("the standby role could not start: see its message above")
        finally:
            self._links.running = set()
            loop.remove_reader(read_end)
            os.close(read_end)
            os.close(write_end)


class OwningRoles:
    """Intake and dispatch of one partition. `on_ready` is called each time that both are ready."""

    def __init__(
        self,
        settings: Settings,
        listener: socket.socket,
        journal: Journal,
        on_ready: Callable[[], None] = lambda: None,
        partition: Partition = WHOLE,
    ) -> None:
        self._settings = settings
        self._listener = listener
        self._journal = journal
        self._on_ready = on_ready
        self._partition = partition
        self._links = LinkEnds(OWNING)
        self._supervisor: Supervisor | None = None  # of roles that wait for their turn
        self._warming: asyncio.Task[None] | None = None
        self._owning: Supervisor | None = None

    def __repr__(self) -> str:
        return (
            f"<OwningRoles of partition {self._partition.number}, running {', '.join(self._links.running) or 'none'}>"
        )

    async def close(self) -> None:
        """End the roles that wait for their turn."""
        if self._warming is not None:
            await asyncio.wait([self._warming])
        if self._supervisor is not None:
            await self._supervisor.close()
        self._links.close()

    def tell(self, view: ClusterView) -> None:
        self._links.tell(view)

    def reload(self) -> None:
        """Let intake apply its estate file again. A standby has nothing to apply: a node that owns reads the file."""
        if self._owning is not None:
            self._owning.reload()

    async def stand_by(self, stopping: asyncio.Event) -> None:
        """Only wait: the router serves."""
        await stopping.wait()

    def expect(self, soon: bool) -> None:
        """Load both roles, or end those that wait for a turn which another node has now."""
        if self._warming is None or self._warming.done():
            if soon and self._supervisor is None:
                self._warming = asyncio.create_task(self._warm())
            elif not soon and self._supervisor is not None:
                self._warming = asyncio.create_task(self._cool())

    @property
    def fail(self) -> bool:
        return self._owning is not None and self._owning.fails

    async def own(self, newest: int, stopping: asyncio.Event) -> bool:
        """Run intake and dispatch. The standby role may still be ending: it answers what it has begun."""
        self._links.running = {*OWNING}
        supervisor = self._owning = await self._take_supervisor()
        running = asyncio.create_task(supervisor.run(origin_now(newest), self._on_ready))
        stop = asyncio.create_task(stopping.wait())
        try:
            await asyncio.wait({running, stop}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stop.cancel()
            supervisor.stop()
            await asyncio.wait([running])
            self._links.running = set()
            self._owning = None
        running.result()
        return supervisor.lost

    def warm(self, after: asyncio.Event) -> "asyncio.Task[None]":
        """Have both roles load, once `after` is set, so that `own` need not wait for that."""
        self._warming = asyncio.create_task(self._warm(after))
        return self._warming

    async def _warm(self, after: asyncio.Event | None = None) -> None:
        if self._supervisor is None:
            if after is not None:
                await after.wait()
            self._supervisor = self._make_supervisor()
            await self._supervisor.warm()

    async def _cool(self) -> None:
        supervisor, self._supervisor = self._supervisor, None
        if supervisor is not None:
            await supervisor.close()

    async def _take_supervisor(self) -> Supervisor:
        if self._warming is not None:
            await self._warming
        supervisor, self._supervisor = self._supervisor or self._make_supervisor(), None
        return supervisor

    def _make_supervisor(self) -> Supervisor:
        return Supervisor(
            self._settings, self._listener, self._journal, links=self._links.of_roles, partition=self._partition
        )


class WholeRoles:
    """The roles of a node of one partition: one side or the other has the listening socket."""

    def __init__(
        self, settings: Settings, listener: socket.socket, journal: Journal, on_ready: Callable[[], None]
    ) -> None:
        self._serves = asyncio.Event()  # set when roles may load: a standby that loads too has served before
        self._on_ready = on_ready
        self._standby = StandbyRole(settings, listener, journal, self._ready)
        self._owning = OwningRoles(settings, listener, journal, on_ready)

    def __repr__(self) -> str:
        return f"<WholeRoles, {self._owning!r}>"

    async def close(self) -> None:
        await self._owning.close()
        self._standby.close()

    def tell(self, view: ClusterView) -> None:
        self._standby.tell(view)
        self._owning.tell(view)

    def reload(self) -> None:
        self._owning.reload()

    async def stand_by(self, stopping: asyncio.Event) -> None:
        """Serve by forwarding. The roles of an owner load meanwhile, so that a takeover need not wait for that."""
        self._serves.clear()
        warming = self._owning.warm(self._serves)
        try:
            await self._standby.run(stopping)
        finally:
            self._serves.set()
            await warming

    def expect(self, soon: bool) -> None:
        """A standby of one partition always has both roles loaded."""

    @property
    def fail(self) -> bool:
        return self._owning.fail

    async def own(self, newest: int, stopping: asyncio.Event) -> bool:
        """Run intake and dispatch, which load now if they have not."""
        self._serves.set()
        return await self._owning.own(newest, stopping)

    def _ready(self) -> None:
        self._serves.set()
        self._on_ready()


def listen_inside(path: Path) -> socket.socket:
    """A listening Unix socket that only this user reaches."""
    if len(str(path)) > _SOCKET_CHARS:
        raise SettingsError(
            f"server.data: the path {path} is too long for a socket: choose a data directory with a shorter one"
        )
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(str(path))
        path.chmod(0o600)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise SettingsError(f"server.data: {path} cannot be listened on: {error.strerror}") from None
    return listener
