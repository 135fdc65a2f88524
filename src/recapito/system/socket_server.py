"""The HTTP server of a process that a parent starts; only a process that serves HTTP loads it."""

from collections.abc import Iterator
from contextlib import contextmanager
from ssl import SSLContext

import uvicorn


class SocketServer(uvicorn.Server):
    """uvicorn on a socket of the parent, with a TLS context of ours; it leaves signals to the parent."""

    def __init__(self, config: uvicorn.Config, tls: SSLContext | None) -> None:
        config.load()
        config.ssl = tls  # uvicorn would make one of its own, with old ciphers
        super().__init__(config)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    def stop(self) -> None:
        """Finish open requests, then return from `serve`."""
        self.should_exit = True
