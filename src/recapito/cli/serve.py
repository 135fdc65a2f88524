"""`recapito serve`: run the server, and say what to do next."""

import asyncio
import signal
import sys
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console

from recapito import access, roles, storage
from recapito import settings as settings_module
from recapito.cli.welcome import print_welcome
from recapito.clock import origin_now
from recapito.settings import Settings
from recapito.supervisor import Supervisor, listen
from recapito.telemetry import LineJournal


def serve(
    data: Annotated[
        str | None, typer.Option(help="The data directory; made if it does not exist.", show_default="recapito-data")
    ] = None,
    memory: Annotated[bool, typer.Option("--memory", help="Keep everything in memory, nothing on disk.")] = False,
    host: Annotated[str | None, typer.Option(help="The address to listen on.", show_default="127.0.0.1")] = None,
    port: Annotated[
        int | None, typer.Option(help="The port to listen on, 0 for a free one.", show_default="8585")
    ] = None,
    profile: Annotated[
        str | None, typer.Option(help="Event Grid's behaviour at a date.", show_default="2021-03")
    ] = None,
    clock: Annotated[str | None, typer.Option(help="system, manual or scaled:N.", show_default="system")] = None,
    egress: Annotated[
        str | None, typer.Option(help="Which addresses may be dialled: local or public.", show_default="local")
    ] = None,
    handshake: Annotated[
        str | None, typer.Option(help="Ask webhooks for their consent: on, or off for local use.", show_default="on")
    ] = None,
    tls: Annotated[
        bool, typer.Option("--tls", help="Serve HTTPS with a certificate made here; see `recapito tls`.")
    ] = False,
    tls_cert: Annotated[str | None, typer.Option(help="Serve HTTPS with this certificate, a PEM file.")] = None,
    tls_key: Annotated[str | None, typer.Option(help="The certificate's private key, a PEM file.")] = None,
    azurite: Annotated[
        bool, typer.Option("--azurite", help="Storage accounts without a connection are an Azurite on this machine.")
    ] = False,
    settings: Annotated[Path | None, typer.Option(help="A settings file; see `recapito settings`.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say only where the server listens.")] = False,
) -> None:
    """Run Recapito. Stop it with Ctrl-C: what was accepted is kept and delivered after the next start."""
    store: Literal["memory"] | None = "memory" if memory else None
    chosen = settings_module.load(
        settings,
        flags={
            "server.data": data,
            "server.store": store,
            "server.host": host,
            "server.port": port,
            "delivery.profile": profile,
            "delivery.egress": egress,
            "delivery.handshake": handshake,
            "clock.mode": clock,
            "azure.azurite": azurite or None,
            "tls.enabled": tls or None,
            "tls.cert": tls_cert,
            "tls.key": tls_key,
        },
    )
    asyncio.run(_serve(chosen, quiet))


async def _serve(settings: Settings, quiet: bool) -> None:
    journal = LineJournal(role="parent")
    found = await storage.prepare_store(settings, journal)
    async with storage.inspecting(settings, found, journal):
        await _listen(settings, found.newest, journal, quiet)


async def _listen(settings: Settings, newest: int, journal: LineJournal, quiet: bool) -> None:
    access.prepare_tls(settings)
    identity = access.prepare_identity(settings)
    with listen(settings.server.host, settings.server.port) as listener:
        settings = settings_module.with_port(settings, listener.getsockname()[1])
        origin = origin_now(newest)
        stopping = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stopping.set)

        def on_ready() -> None:
            print_welcome(settings, identity, Console(stderr=True), sys.stdout, quiet)

        if settings.one_process:
            await roles.run_alone(settings, identity, origin, listener, stopping, on_ready)
            return
        supervisor = Supervisor(settings, origin, listener, journal)
        running = asyncio.create_task(supervisor.run(on_ready))
        stop = asyncio.create_task(stopping.wait())
        await asyncio.wait({running, stop}, return_when=asyncio.FIRST_COMPLETED)
        stop.cancel()
        supervisor.stop()
        await running
