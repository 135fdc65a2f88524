"""The portal's process: it is told its settings and its socket on standard input, and ends when that closes."""

import asyncio
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
import uvicorn
import uvloop
from starlette.middleware.gzip import GZipMiddleware
from starlette.types import ASGIApp

from recapito.clock import SystemClock
from recapito.errors import SettingsError
from recapito.identity import certificate
from recapito.portal.app import make_app
from recapito.portal.client import Wire
from recapito.portal.config import PortalConfig, needs_login, server_url
from recapito.portal.dependencies import Dependencies
from recapito.portal.guard import Guard
from recapito.portal.server_trust import trust_server
from recapito.portal.session import Sessions
from recapito.settings import settings as settings_module
from recapito.settings.settings import Settings

_GZIP_BYTES = 1024


class _HttpServer(uvicorn.Server):
    """uvicorn on our socket; signals are the parent's business."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def run_portal() -> int:
    """Serve the portal as the parent orders; the exit code."""
    line = sys.stdin.buffer.readline()
    if not line.endswith(b"\n"):
        return 0  # the parent has ended before it could order anything
    order = msgspec.json.decode(line, type=PortalConfig)
    try:
        settings = settings_module.from_tree(order.settings)
        uvloop.run(_serve(settings, socket.socket(fileno=order.listener)))
    except SettingsError as error:
        print(f"recapito: {error}", file=sys.stderr, flush=True)
        return os.EX_CONFIG
    return 0


async def _serve(settings: Settings, listener: socket.socket) -> None:
    wire = Wire(server_url(settings), trust_server(settings))
    sessions = Sessions(SystemClock().now, settings.tls.on) if needs_login(settings) else None
    app = make_app(Dependencies(settings, wire, sessions))
    server = _HttpServer(_config(GZipMiddleware(Guard(app, sessions), _GZIP_BYTES), settings))
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    told = asyncio.create_task(_order_to_stop())
    await asyncio.wait({serving, told}, return_when=asyncio.FIRST_COMPLETED)
    server.should_exit = True
    await serving
    await wire.close()
    told.cancel()


def _config(app: ASGIApp, settings: Settings) -> uvicorn.Config:
    config = uvicorn.Config(
        app,
        loop="none",
        http="h11",  # slower than the other, but a head may not grow forever
        ws="websockets-sansio",
        lifespan="on",
        access_log=False,
        log_level="error",
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=1,
    )
    config.load()
    if settings.tls.on:
        config.ssl = certificate.load_context(*settings.certificate_files)
    return config


async def _order_to_stop() -> None:
    """Wait until the parent says to stop, or is gone."""
    loop = asyncio.get_running_loop()
    told = asyncio.Event()
    loop.add_reader(sys.stdin.fileno(), told.set)
    try:
        await told.wait()
    finally:
        loop.remove_reader(sys.stdin.fileno())
