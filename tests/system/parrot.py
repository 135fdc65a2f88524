"""An endpoint that repeats whatever it was told, to whoever reads its answers: nothing of that may get further."""

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_SIGNED = ("Authorization", "ServiceBusAuthorization")


class Parrot:
    """Consents to subscriptions and takes events under `/fine`; under any other path it fails and repeats all it got.

    `secrets` are the validation codes that it was asked with, and the signatures that it was shown.
    """

    def __init__(self) -> None:
        self.secrets: set[str] = set()
        self.paths: list[str] = []
        parrot = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                parrot.paths.append(self.path.partition("?")[0])
                for name in _SIGNED:
                    parrot.secrets |= set(re.findall(r"[\w+/%-]{20,}=*", self.headers.get(name, "")))
                code = parrot._code_of(body)
                if code is not None and not self.path.startswith("/refuse"):
                    self._answer(200, json.dumps({"validationResponse": code}).encode())
                elif self.path.startswith("/fine"):
                    self._answer(200, b"")
                else:
                    told = f"{self.path} {dict(self.headers)} ".encode() + body
                    self._answer(500 if code is None else 404, told)

            do_PUT = do_GET = do_OPTIONS = do_POST

            def _answer(self, status: int, body: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """Silence."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})
        self._thread.start()

    def _code_of(self, body: bytes) -> str | None:
        try:
            (event,) = json.loads(body)
            code: Any = event["data"]["validationCode"]
            urls = event["data"]["validationUrl"]
        except (ValueError, TypeError, KeyError):
            return None
        self.secrets |= {str(code), str(urls).rpartition("=")[2]}
        return str(code)

    def close(self) -> None:
        """End it."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@contextmanager
def parrot() -> Iterator[Parrot]:
    """A parrot for the length of a block."""
    it = Parrot()
    try:
        yield it
    finally:
        it.close()
