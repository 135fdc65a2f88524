"""The roles of a node as processes: the standby role, or intake and dispatch, on the same listening socket."""

import asyncio
import os
import socket
from collections.abc import Callable
from contextlib import suppress

import msgspec

from recapito.clock import origin_now
from recapito.domain.cluster.view import ClusterView
from recapito.errors import SettingsError
from recapito.observability.journal import Journal
from recapito.process.child import Child, Ending
from recapito.process.node_link import LinkEnds
from recapito.process.role_config import RoleConfig
from recapito.process.supervisor import Supervisor
from recapito.settings.settings import Settings

OWNING = ("intake", "dispatch")


class ProcessRoles:
    """Starts and stops the roles of one node. `on_ready` is called each time that the node serves again."""

    def __init__(
        self, settings: Settings, listener: socket.socket, journal: Journal, on_ready: Callable[[], None]
    ) -> None:
        self._settings = settings
        self._listener = listener
        self._journal = journal
        self._on_ready = on_ready
        self._links = LinkEnds(("standby", *OWNING))
        self._supervisor: Supervisor | None = None  # of roles that wait for their turn
        self._warming: asyncio.Task[None] | None = None
        self._serves = asyncio.Event()  # set when roles may load: a standby that loads too has served before
        self._owning: Supervisor | None = None

    def __repr__(self) -> str:
        return f"<ProcessRoles, running {', '.join(self._links.running) or 'none'}>"

    async def close(self) -> None:
        """End the roles that wait for their turn."""
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
        """Serve by forwarding. The roles of an owner load meanwhile, so that a takeover need not wait for that."""
        read_end, write_end = os.pipe()
        loop, link = asyncio.get_running_loop(), self._links.of_roles["standby"].fileno()
        listener = self._listener.fileno()
        settings = msgspec.to_builtins(self._settings)
        config = RoleConfig(settings, origin_now(), listener, wake=-1, ready=write_end, node=link)

        def ready() -> None:
            with suppress(OSError):
                os.read(read_end, 64)
            self._serves.set()
            self._on_ready()

        loop.add_reader(read_end, ready)
        self._links.running |= {"standby"}
        child = Child("standby", lambda: msgspec.json.encode(config), [listener, write_end, link], self._journal)
        self._serves.clear()
        self._warming = asyncio.create_task(self._warm())
        try:
            if await child.keep(stopping) is Ending.REFUSED:
                raise SettingsError("the standby role could not start: see its message above")
        finally:
            self._serves.set()
            await self._warming
            self._links.running -= {"standby"}
            loop.remove_reader(read_end)
            os.close(read_end)
            os.close(write_end)

    async def own(self, newest: int, stopping: asyncio.Event) -> bool:
        """Run intake and dispatch. The standby role may still be ending: it answers what it has begun."""
        self._links.running |= {*OWNING}
        supervisor = self._owning = await self._take_supervisor()
        running = asyncio.create_task(supervisor.run(origin_now(newest), self._on_ready))
        stop = asyncio.create_task(stopping.wait())
        try:
            await asyncio.wait({running, stop}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stop.cancel()
            supervisor.stop()
            await asyncio.wait([running])
            self._links.running -= {*OWNING}
            self._owning = None
        running.result()
        return supervisor.lost

    async def _warm(self) -> None:
        await self._serves.wait()
        if self._supervisor is None:
            self._supervisor = self._make_supervisor()
            await self._supervisor.warm()

    async def _take_supervisor(self) -> Supervisor:
        if self._warming is not None:
            self._serves.set()
            await self._warming
        supervisor, self._supervisor = self._supervisor or self._make_supervisor(), None
        return supervisor

    def _make_supervisor(self) -> Supervisor:
        return Supervisor(self._settings, self._listener, self._journal, links=self._links.of_roles)
