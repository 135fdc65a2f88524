"""Endpoints for a soak: one that is always well, one that fails now and then, two that refuse some events for good."""

import json
import threading
import zlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.soak.books import Books

PATHS = ("steady", "moody", "refusing", "buried")
MOODY = 40  # of so many first attempts one fails
REFUSED = 10  # of so many events one is refused


class Endpoints:
    """All of them on one port. Whatever ends a delivery at its endpoint, a refusal too, is entered in the books."""

    def __init__(self, books: Books) -> None:
        self._books = books
        self._seen: set[str] = set()
        endpoints = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                status = endpoints.answer(self.path.strip("/"), [event["id"] for event in json.loads(body)])
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                """Silence."""

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 512

            def handle_error(self, request: object, client_address: object) -> None:
                """A server that was killed leaves broken connections."""

        self._server = Server(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def url(self, path: str) -> str:
        """Where one of them is."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/{path}"

    def answer(self, path: str, ids: list[str]) -> int:
        """What the endpoint at a path says to these events."""
        if path == "moody" and self._fails(ids):
            return 500
        self._books.arrive(path, ids)
        return 400 if path in ("refusing", "buried") and _drawn(ids, REFUSED) else 200

    def _fails(self, ids: list[str]) -> bool:
        """The first attempt of some events fails, the second is fine; never so many in a row that it is held."""
        first = ids[0]
        with self._books.lock:
            fails = _drawn(ids, MOODY) and first not in self._seen
            if fails:
                self._seen.add(first)
        return fails

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def _drawn(ids: list[str], of: int) -> bool:
    return zlib.crc32(ids[0].encode()) % of == 0
