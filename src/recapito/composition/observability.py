"""The observers of a role, by the settings: traces and diagnostic logs, both off by default."""

import random
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

from recapito.clock import Clock
from recapito.domain import limits
from recapito.extras import require
from recapito.observability.diagnostics import DiagnosticLog
from recapito.observability.journal import Journal, ObservabilitySettings
from recapito.observability.tracing import Sampling, Tracer
from recapito.settings.settings import Settings


async def _nothing() -> None:
    """There is nothing to close."""


class Observers(NamedTuple):
    """The observers of one role; None is off. `close` writes and sends the rest."""

    tracer: Tracer | None = None
    diagnostics: DiagnosticLog | None = None
    close: Callable[[], Awaitable[None]] = _nothing


NO_OBSERVERS = Observers()


def make_observers(settings: Settings, role: str, clock: Clock, journal: Journal) -> Observers:
    diagnostics = _diagnostics(settings.telemetry, role, clock)
    endpoint = settings.telemetry.otlp_endpoint
    if not endpoint:
        return Observers(None, diagnostics, partial(_close, diagnostics, _nothing))
    require("otel", "telemetry.otlp_endpoint: traces cannot be sent")
    from recapito.observability.otlp import OtlpSink  # it takes long to load, and few servers need it

    sink = OtlpSink(endpoint, role, journal)
    sampling = Sampling(settings.telemetry.sample_ratio, settings.telemetry.traces_per_second)
    tracer = Tracer(sink, sampling, clock.now, random.getrandbits, random.random)
    return Observers(tracer, diagnostics, partial(_close, diagnostics, sink.close))


def _diagnostics(telemetry: ObservabilitySettings, role: str, clock: Clock) -> DiagnosticLog | None:
    if not telemetry.diagnostics:
        return None
    path = None if telemetry.diagnostics == "stderr" else Path(telemetry.diagnostics) / f"{role}.jsonl"
    return DiagnosticLog(path, clock.now, telemetry.diagnostics_mb * limits.MB)


async def _close(diagnostics: DiagnosticLog | None, close_sink: Callable[[], Awaitable[None]]) -> None:
    if diagnostics is not None:
        diagnostics.close()
    await close_sink()
