"""One HTTP server for tests: it answers by a function, in threads, on a free port of loopback or another address.

The tests' endpoints are built on it: recording, hostile, slow or mute ones differ in their function alone.
"""

import json
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

PATIENCE_S = 30.0


class ArrivedRequest(NamedTuple):
    """One request as it arrived. The names of headers are in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def events(self) -> list[dict[str, Any]]:
        """The events of a delivery; a single CloudEvent comes as an object."""
        content = json.loads(self.body)
        return content if isinstance(content, list) else [content]


class CannedReply(NamedTuple):
    """The answer to one request."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = {}


class LoopbackServer:
    """Serves until it is closed. A request whose `answer` is None stays unanswered until then."""

    def __init__(
        self, answer: Callable[[ArrivedRequest], CannedReply | None], port: int = 0, host: str = "127.0.0.1"
    ) -> None:
        self._answer = answer
        self._closing = threading.Event()
        self._server = _LoopbackListener((host, port), self._handler())
        self.port: int = self._server.server_address[1]
        self.url = f"http://{host}:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})
        self._thread.start()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                headers = {name.lower(): value for name, value in self.headers.items()}
                reply = server._answer(ArrivedRequest(self.command, self.path, headers, body))
                if reply is None:
                    server._closing.wait(PATIENCE_S)
                    self.close_connection = True
                    return
                self.send_response(reply.status)
                for name, value in {**reply.headers, "Content-Length": str(len(reply.body))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(reply.body)

            do_GET = do_PUT = do_OPTIONS = do_POST

            def log_message(self, format: str, *args: object) -> None:
                """Silence."""

        return Handler

    def close(self) -> None:
        """Cut the requests that are unanswered, and end."""
        self._closing.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _LoopbackListener(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 512

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that was killed leaves broken connections, which is no error of the endpoint."""
