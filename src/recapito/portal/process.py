"""The portal's process: its parent sends it its settings and its socket, and stops it (`system/service.py`)."""

import asyncio
import socket
import ssl
from collections.abc import Coroutine
from typing import Any

import uvicorn
from starlette.middleware.gzip import GZipMiddleware
from starlette.types import ASGIApp

from recapito.clock import SystemClock
from recapito.domain.access.near_networks import LOOPBACK_ONLY
from recapito.identity import certificate
from recapito.portal.app import make_app
from recapito.portal.client import ServerConnections
from recapito.portal.config import PortalConfig, needs_login, server_url
from recapito.portal.guard import Guard
from recapito.portal.page import Dependencies
from recapito.portal.session import Sessions
from recapito.settings import settings as settings_module
from recapito.settings.settings import Settings
from recapito.system.routes import connected_networks
from recapito.system.service import ServiceTask, run_configured, run_services, stop_order
from recapito.system.socket_server import SocketServer

_GZIP_BYTES = 1024


def run_portal() -> int:
    """Serve the portal as its parent configures it, and return the exit code."""

    def start(config: PortalConfig) -> Coroutine[Any, Any, None]:
        return _serve(settings_module.from_tree(config.settings), socket.socket(fileno=config.listener))

    return run_configured(PortalConfig, start)


async def _serve(settings: Settings, listener: socket.socket) -> None:
    wire = ServerConnections(server_url(settings), _trust_server(settings))
    sessions = Sessions(SystemClock().now, settings.tls.on) if needs_login(settings) else None
    app = make_app(Dependencies(settings, wire, sessions))
    tls = certificate.load_context(*settings.certificate_files) if settings.tls.on else None
    near = connected_networks() if settings.server.development else LOOPBACK_ONLY
    server = SocketServer(_config(GZipMiddleware(Guard(app, sessions, near), _GZIP_BYTES)), tls)

    async def finish_requests(task: "asyncio.Task[None]") -> None:
        server.stop()

    await run_services([ServiceTask(lambda: server.serve(sockets=[listener]), finish_requests)], stop_order())
    await wire.close()


def _trust_server(settings: Settings) -> ssl.SSLContext | None:
    """Trust exactly the certificate that the settings name, whatever its issuer and name; None without TLS."""
    if not settings.tls.on:
        return None
    context = ssl.create_default_context(cafile=str(settings.certificate_files[0]))
    context.check_hostname = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return context


def _config(app: ASGIApp) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        loop="none",
        http="h11",  # slower than the other, but it limits the size of a head
        ws="websockets-sansio",
        lifespan="on",
        access_log=False,
        log_level="error",
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=1,
    )
