"""Texts that would run if a page took them for anything but text, and an endpoint that answers with all of them."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

RAN = "window.__ran"
CORPUS = (
    "<script>window.__ran=1</script>",
    '<img src=x onerror="window.__ran=1">',
    '"><svg onload=window.__ran=1>',
    "</script><script>window.__ran=1</script>",
    "</textarea><iframe srcdoc='<script>parent.__ran=1</script>'>",
    "{{ window.__ran = 1 }} ${window.__ran=1} `window.__ran=1`",
    "{{constructor.constructor('window.__ran=1')()}}",
    'x" :onclick="window.__ran=1" v-html="1',
    "javascript:window.__ran=1",
    "<a href=javascript:alert(1)>alert</a><b style=background:url(//evil.example)>",
)


class Hostile:
    """An endpoint that refuses every event, with the whole corpus as its reason."""

    def __init__(self) -> None:
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                body = "\n".join(CORPUS).encode()
                self.send_response(400)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """Silence."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/refuse"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@contextmanager
def hostile() -> Iterator[Hostile]:
    """Such an endpoint for a while."""
    it = Hostile()
    try:
        yield it
    finally:
        it.close()
