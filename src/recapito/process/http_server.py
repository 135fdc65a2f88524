"""The HTTP server of intake, with the protocol that publishes fast."""

from functools import partial
from ssl import SSLContext

from recapito.api.app import Surface
from recapito.api.server.fast_publish import FastPublishProtocol
from recapito.api.server.protocol import ClientOf
from recapito.process.app_server import AppServer


class HttpServer(AppServer):
    """Serves publish, management and operation."""

    def __init__(
        self,
        surface: Surface,
        tls: SSLContext | None = None,
        client_of: ClientOf | None = None,
        secure: bool = False,
    ) -> None:
        protocol = partial(FastPublishProtocol, surface.publish, client_of=client_of, secure=secure)
        super().__init__(surface.app, protocol, tls)
