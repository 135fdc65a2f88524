"""A small OTLP collector: takes spans over HTTP and remembers them."""

import gzip
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

PATIENCE_S = 30.0


class Collector:
    """Remembers spans by name, with the attributes of the process that they come from."""

    def __init__(self) -> None:
        self.spans: list[tuple[dict[str, Any], Any]] = []
        self._arrived = threading.Condition()
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                collector._take(ExportTraceServiceRequest.FromString(body))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                """Silence."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1/traces"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})
        self._thread.start()

    def _take(self, request: Any) -> None:
        with self._arrived:
            for of in request.resource_spans:
                resource = values(of.resource.attributes)
                self.spans += [(resource, span) for scope in of.scope_spans for span in scope.spans]
            self._arrived.notify_all()

    def wait_for(self, complete: Callable[[list[Any]], bool]) -> list[Any]:
        """Wait until the spans are complete; all of them."""
        with self._arrived:
            assert self._arrived.wait_for(lambda: complete([span for _, span in self.spans]), PATIENCE_S), self.spans
            return [span for _, span in self.spans]

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def values(attributes: Any) -> dict[str, Any]:
    """The attributes of a span or a resource."""
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in attributes}


@contextmanager
def collecting() -> Iterator[Collector]:
    """A collector for the length of a test."""
    it = Collector()
    try:
        yield it
    finally:
        it.close()
