"""Sends spans to a collector by OTLP over HTTP, in a thread of its own.

A collector that is unavailable, slow or wrong costs spans and nothing else: spans that do not fit into the queue are
dropped, and a failure is journalled at most once a minute. OTEL_EXPORTER_OTLP_HEADERS and the like are honoured.
"""

import asyncio
import logging
import os

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from recapito import __version__
from recapito.clock import SECOND, SystemClock
from recapito.domain import limits
from recapito.domain.observability.trace import TraceParent
from recapito.observability.journal import Journal
from recapito.observability.tracing import CallSide, Span

EXPORT_EVERY_MS = 1000
EXPORT_WAIT_S = 5
TELL_EVERY_NS = 60 * SECOND
_KINDS = {CallSide.SERVER: SpanKind.SERVER, CallSide.INTERNAL: SpanKind.INTERNAL, CallSide.CLIENT: SpanKind.CLIENT}
_SAMPLED = TraceFlags(TraceFlags.SAMPLED)
_SCOPE = InstrumentationScope("recapito", __version__)


class _Complaints(logging.Handler):
    """Turns warnings of the exporter into lines of the journal, one a minute."""

    def __init__(self, journal: Journal) -> None:
        super().__init__(logging.WARNING)
        self._journal = journal
        self._wall = SystemClock()
        self._told_at = 0

    def emit(self, record: logging.LogRecord) -> None:
        if self._wall.now() - self._told_at >= TELL_EVERY_NS:
            self._told_at = self._wall.now()
            self._journal("traces.failed", why=record.getMessage())


class OtlpSink:
    """Takes spans and sends them in the background."""

    def __init__(self, endpoint: str, role: str, journal: Journal) -> None:
        logger = logging.getLogger("opentelemetry")
        logger.propagate = False
        logger.handlers = [_Complaints(journal)]
        self._resource = Resource(
            {
                "service.name": "recapito",
                "service.version": __version__,
                "recapito.role": role,
                "process.pid": os.getpid(),
            }
        )
        self._processor = BatchSpanProcessor(
            OTLPSpanExporter(endpoint, timeout=EXPORT_WAIT_S),
            max_queue_size=limits.SPAN_QUEUE,
            schedule_delay_millis=EXPORT_EVERY_MS,
        )

    def __call__(self, span: Span) -> None:
        """Queue a span that has ended."""
        error = span.error
        self._processor.on_end(
            ReadableSpan(
                span.name,
                context=_context(span.place, remote=False),
                parent=None if span.parent is None else _context(span.parent, remote=True),
                resource=self._resource,
                attributes=span.attributes,
                links=[Link(_context(link, remote=True)) for link in span.links],
                kind=_KINDS[span.kind],
                status=Status(StatusCode.UNSET) if error is None else Status(StatusCode.ERROR, error),
                start_time=span.start,
                end_time=span.end,
                instrumentation_scope=_SCOPE,
            )
        )

    async def close(self) -> None:
        """Send the remaining spans, in bounded time."""
        await asyncio.to_thread(self._processor.shutdown)


def _context(place: TraceParent, remote: bool) -> SpanContext:
    return SpanContext(int(place.trace_id, 16), int(place.span_id, 16), remote, _SAMPLED)
