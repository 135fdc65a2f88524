"""A small OTLP collector: takes spans over HTTP and remembers them."""

import gzip
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.kit.http_server import PATIENCE_S, ArrivedRequest, CannedReply, LoopbackServer


class Collector:
    """Remembers spans by name, with the attributes of the process that they come from."""

    def __init__(self) -> None:
        self.spans: list[tuple[dict[str, Any], Any]] = []
        self._arrived = threading.Condition()
        self._server = LoopbackServer(self._export)
        self.url = f"{self._server.url}/v1/traces"

    def _export(self, request: ArrivedRequest) -> CannedReply:
        packed = request.headers.get("content-encoding") == "gzip"
        body = gzip.decompress(request.body) if packed else request.body
        self._take(ExportTraceServiceRequest.FromString(body))
        return CannedReply()

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
        self._server.close()


def values(attributes: Any) -> dict[str, Any]:
    """The attributes of a span or a resource."""
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in attributes}


@contextmanager
def collecting() -> Iterator[Collector]:
    """A collector for the length of a test."""
    with closing(Collector()) as collector:
        yield collector
