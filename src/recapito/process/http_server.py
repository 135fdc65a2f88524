"""The HTTP server of intake: uvicorn with the protocol that publishes fast."""

import asyncio
import socket
from functools import partial
from ssl import SSLContext

import uvicorn

from recapito.api.app import Surface
from recapito.api.server.fast_publish import FastPublishProtocol
from recapito.api.server.protocol import ClientOf
from recapito.system.service import SocketServer

KEEP_ALIVE_S = 75
GOODBYE_S = 0.2


class HttpServer(SocketServer):
    """Serves publish, management and operation."""

    def __init__(self, surface: Surface, tls: SSLContext | None = None, client_of: ClientOf | None = None) -> None:
        config = uvicorn.Config(
            surface.app,
            loop="none",
            http=partial(FastPublishProtocol, surface.publish, client_of=client_of),  # type: ignore[arg-type] # it only calls it
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
