"""`recapito serve`: run the server, and print the first steps."""

import asyncio
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console

from recapito.cli.text.welcome import print_welcome
from recapito.clock import ClockOrigin, origin_now
from recapito.composition import identity as access
from recapito.composition import stores
from recapito.composition.cluster_secret import read_secret
from recapito.errors import SettingsError
from recapito.extras import require
from recapito.identity.server_identity import ServerIdentity
from recapito.observability.journal import LineJournal
from recapito.portal.config import PortalConfig, with_portal
from recapito.process.child import Child, Ending
from recapito.process.supervisor import Supervisor, listen
from recapito.settings import settings as settings_module
from recapito.settings.settings import Settings
from recapito.system.hang_up import on_hang_up


def serve(
    data: Annotated[
        str | None, typer.Option(help="Data directory; created if it does not exist.", show_default="recapito-data")
    ] = None,
    store: Annotated[
        str | None,
        typer.Option(help="Store: sqlite, memory, or a cluster's nats://HOST:PORT,…", show_default="sqlite"),
    ] = None,
    node: Annotated[
        str | None, typer.Option(help="Name of this node of a cluster.", show_default="the host's name")
    ] = None,
    memory: Annotated[bool, typer.Option("--memory", help="Keep everything in memory and nothing on disk.")] = False,
    host: Annotated[str | None, typer.Option(help="Address to listen on.", show_default="127.0.0.1")] = None,
    port: Annotated[
        int | None, typer.Option(help="Port to listen on; 0 chooses a free one.", show_default="8585")
    ] = None,
    profile: Annotated[
        str | None, typer.Option(help="Profile: Event Grid's behaviour at a date.", show_default="2021-03")
    ] = None,
    clock: Annotated[str | None, typer.Option(help="Clock: system, manual or scaled:N.", show_default="system")] = None,
    egress: Annotated[
        str | None, typer.Option(help="Addresses that deliveries may reach: local or public.", show_default="local")
    ] = None,
    handshake: Annotated[
        str | None, typer.Option(help="Validate webhooks before delivery: on, or off for local use.", show_default="on")
    ] = None,
    tls: Annotated[
        bool, typer.Option("--tls", help="Serve HTTPS with a generated certificate; see `recapito tls`.")
    ] = False,
    tls_cert: Annotated[str | None, typer.Option(help="Certificate (PEM file) to serve HTTPS with.")] = None,
    tls_key: Annotated[str | None, typer.Option(help="Private key (PEM file) of the certificate.")] = None,
    azurite: Annotated[
        bool, typer.Option("--azurite", help="Use a local Azurite for storage accounts without a connection.")
    ] = False,
    azurite_front: Annotated[
        int | None, typer.Option(help="Port of a front for an Azurite, for events of blobs.")
    ] = None,
    no_portal: Annotated[bool, typer.Option("--no-portal", help="Do not serve the portal.")] = False,
    portal_port: Annotated[
        int | None, typer.Option(help="Port of the portal; 0 chooses a free one.", show_default="8586")
    ] = None,
    config: Annotated[Path | None, typer.Option(help="Estate file; see `recapito schema`.")] = None,
    settings: Annotated[Path | None, typer.Option(help="Settings file; see `recapito settings`.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only the server's address.")] = False,
) -> None:
    """Run Recapito until Ctrl-C; accepted events survive a restart."""
    chosen = settings_module.load(
        settings,
        flags={
            "server.data": data,
            "server.store": "memory" if memory else store,
            "cluster.node": node,
            "server.host": host,
            "server.port": port,
            "delivery.profile": profile,
            "delivery.egress": egress,
            "delivery.handshake": handshake,
            "clock.mode": clock,
            "azure.azurite": azurite or None,
            "estate.file": None if config is None else str(config),
            "azure.azurite_front": azurite_front,
            "tls.enabled": tls or None,
            "tls.cert": tls_cert,
            "tls.key": tls_key,
            "portal.enabled": False if no_portal else None,
            "portal.port": portal_port,
        },
    )
    asyncio.run(_serve(chosen, portal_port is not None, quiet))


async def _serve(settings: Settings, insists: bool, quiet: bool) -> None:
    journal = LineJournal(role="parent")
    if settings.in_cluster:
        require("cluster", "This server cannot be a node of a cluster")
        read_secret(settings)  # a directory that has not joined stays empty
        await _listen(settings, 0, journal, insists, quiet, asyncio.Event())
        return
    backend = stores.make_backend(settings, journal)
    prepared = await backend.prepare()
    ready = asyncio.Event()
    async with stores.inspecting(backend, prepared, ready):
        await _listen(settings, prepared.newest, journal, insists, quiet, ready)


async def _listen(
    settings: Settings, newest: int, journal: LineJournal, insists: bool, quiet: bool, ready: asyncio.Event
) -> None:
    access.prepare_tls(settings)
    identity = access.prepare_identity(settings)
    with (
        listen(settings.server.host, settings.server.port) as listener,
        _listen_portal(settings, insists) as door,
        _listen_front(settings) as front,
    ):
        settings = settings_module.with_port(settings, listener.getsockname()[1])
        access.leave_url(settings)
        settings = with_portal(settings, door.getsockname()[1] if door else None)
        origin = origin_now(newest)
        stopping = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stopping.set)

        def on_ready() -> None:
            if ready.is_set():
                return
            print_welcome(settings, identity, Console(stderr=True), sys.stdout, quiet)
            ready.set()

        portal = asyncio.create_task(_keep_portal(settings, door, ready, stopping, journal))
        try:
            if settings.in_cluster:
                from recapito.process.node_process import run_node  # NATS takes a while to load

                await run_node(settings, listener, stopping, on_ready, journal)
                return
            await _run(settings, identity, origin, listener, front, stopping, on_ready, journal)
        finally:
            stopping.set()
            await portal


async def _run(
    settings: Settings,
    identity: ServerIdentity | None,
    origin: ClockOrigin,
    listener: socket.socket,
    front: socket.socket | None,
    stopping: asyncio.Event,
    on_ready: Callable[[], None],
    journal: LineJournal,
) -> None:
    """Run the roles until `stopping` is set or one of them cannot start."""
    if settings.one_process:
        from recapito.process.alone import run_both  # it takes a while to load, and the parent of two needs none of it

        await run_both(settings, identity, origin, listener, stopping, on_ready, front)
        return
    supervisor = Supervisor(settings, listener, journal, front)
    if settings.estate.file:
        on_hang_up(supervisor.reload, stopping.set)
    running = asyncio.create_task(supervisor.run(origin, on_ready))
    stop = asyncio.create_task(stopping.wait())
    await asyncio.wait({running, stop}, return_when=asyncio.FIRST_COMPLETED)
    stop.cancel()
    supervisor.stop()
    await running


@contextmanager
def _listen_front(settings: Settings) -> Iterator[socket.socket | None]:
    """The listening socket of an Azurite's front; None if the settings have none."""
    if not settings.azure.azurite_front:
        yield None
        return
    with listen(settings.server.host, settings.azure.azurite_front, "azure.azurite_front", "--azurite-front") as front:
        yield front


@contextmanager
def _listen_portal(settings: Settings, insists: bool) -> Iterator[socket.socket | None]:
    """The portal's listening socket; None if it is not installed or its default port is busy.

    That stops the server only if the user chose a port for it.
    """
    if not settings.portal.enabled:
        yield None
        return
    chosen = insists or settings.portal.port != settings_module.load(environment={}).portal.port
    try:
        require("portal", "The portal cannot be served")
        door = listen(settings.portal.host, settings.portal.port, "portal", "--portal-port")
    except SettingsError as error:
        if chosen:
            raise
        typer.echo(f"recapito: there is no portal. {error} Or start with --no-portal.", err=True)
        yield None
        return
    with door:
        yield door


async def _keep_portal(
    settings: Settings,
    door: socket.socket | None,
    ready: asyncio.Event,
    stopping: asyncio.Event,
    journal: LineJournal,
) -> None:
    """Run the portal once the server is ready. The server goes on even if the portal fails."""
    waiting = {asyncio.create_task(ready.wait()), asyncio.create_task(stopping.wait())}
    await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    for task in waiting:
        task.cancel()
    if door is None or stopping.is_set():
        return
    order = PortalConfig(msgspec.to_builtins(settings), door.fileno())
    child = Child("portal", lambda: msgspec.json.encode(order), [door.fileno()], journal)
    if await child.keep(stopping) is Ending.REFUSED:
        journal("portal.refused")
