"""The HTTP server of a role: uvicorn on the parent's socket, with a protocol of ours."""

import asyncio
import socket
from collections.abc import Callable
from ssl import SSLContext

import uvicorn
from starlette.types import ASGIApp

from recapito.api.server.protocol import HttpProtocol
from recapito.system.socket_server import SocketServer

KEEP_ALIVE_S = 75
GOODBYE_S = 0.2


class AppServer(SocketServer):
    """Serves an ASGI application. `protocol` makes the protocol of each connection."""

    def __init__(self, app: ASGIApp, protocol: Callable[..., HttpProtocol], tls: SSLContext | None = None) -> None:
        config = uvicorn.Config(
            app,
            loop="none",
            http=protocol,  # type: ignore[arg-type] # it only calls it
            ws="none",
            lifespan="off",
            interface="asgi3",
            access_log=False,
            log_config=None,
            server_header=False,
            date_header=False,
            proxy_headers=False,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=5,
        )
        super().__init__(config, tls)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Shut down as uvicorn does, but abort connections whose clients do not answer the closing of TLS."""
        ending = asyncio.create_task(super().shutdown(sockets))
        while not (await asyncio.wait({ending}, timeout=GOODBYE_S))[0]:
            for connection in [*self.server_state.connections]:
                if connection.transport.is_closing():
                    connection.transport.abort()
        await ending
