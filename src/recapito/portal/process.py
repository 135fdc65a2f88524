"""The portal's process: it reads its settings and its socket from standard input, and ends when that closes."""

import asyncio
import os
import socket
import ssl
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
from recapito.portal.guard import Guard
from recapito.portal.page import Dependencies
from recapito.portal.session import Sessions
from recapito.settings import settings as settings_module
from recapito.settings.settings import Settings

_GZIP_BYTES = 1024


class _HttpServer(uvicorn.Server):
    """uvicorn without its signal handlers: the parent handles signals."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def run_portal() -> int:
    """Serve the portal with the configuration on standard input; returns the exit code."""
    line = sys.stdin.buffer.readline()
    if not line.endswith(b"\n"):
        return 0  # the parent ended before it wrote the configuration
    config = msgspec.json.decode(line, type=PortalConfig)
    try:
        settings = settings_module.from_tree(config.settings)
        uvloop.run(_serve(settings, socket.socket(fileno=config.listener)))
    except SettingsError as error:
        print(f"recapito: {error}", file=sys.stderr, flush=True)
        return os.EX_CONFIG
    return 0


async def _serve(settings: Settings, listener: socket.socket) -> None:
    wire = Wire(server_url(settings), _trust_server(settings))
    sessions = Sessions(SystemClock().now, settings.tls.on) if needs_login(settings) else None
    app = make_app(Dependencies(settings, wire, sessions))
    server = _HttpServer(_config(GZipMiddleware(Guard(app, sessions), _GZIP_BYTES), settings))
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    stopping = asyncio.create_task(_wait_for_stop())
    await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
    server.should_exit = True
    await serving
    await wire.close()
    stopping.cancel()


def _trust_server(settings: Settings) -> ssl.SSLContext | None:
    """Trust exactly the certificate that the settings name, whatever its issuer and name; None without TLS."""
    if not settings.tls.on:
        return None
    context = ssl.create_default_context(cafile=str(settings.certificate_files[0]))
    context.check_hostname = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return context


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


async def _wait_for_stop() -> None:
    """Wait for the end of standard input: the parent stops the portal, or has ended."""
    loop = asyncio.get_running_loop()
    closed = asyncio.Event()
    loop.add_reader(sys.stdin.fileno(), closed.set)
    try:
        await closed.wait()
    finally:
        loop.remove_reader(sys.stdin.fileno())
