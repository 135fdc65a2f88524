"""Around the senders: an attempt that carries a traced event becomes a span, and its request a traceparent.

A batch without traced events passes untouched. The span ends with the answer, also with one that comes late, or when
the exchange is aborted.
"""

from collections.abc import Callable

from msgspec.structs import replace

from recapito.contracts.sender import Exchange, Sender
from recapito.domain import limits
from recapito.domain.delivery.batch import Batch
from recapito.domain.delivery.outcome import Outcome, Result
from recapito.domain.observability.trace import TraceParent, parse
from recapito.domain.resources.destination import Destination, WebHook
from recapito.observability.tracing import CallSide, Span, Tracer

_NO_ANSWER = Outcome(Result.ABORTED)


class TracedExchange:
    """One traced batch on its way. Its first end is recorded, once."""

    def __init__(
        self,
        tracer: Tracer,
        destination: Destination,
        batch: Batch,
        places: list[TraceParent],
        answer: Callable[[Outcome], None],
    ) -> None:
        self._tracer = tracer
        self._destination = destination
        self._batch = batch
        self._answer = answer
        self._since = tracer.now()
        self._parent, self._links = places[0], places[1:]
        self.place: TraceParent = tracer.child(self._parent)
        self.inner: Exchange | None = None
        self._over = False

    def answered(self, outcome: Outcome) -> None:
        """Record the outcome, and pass it on."""
        self._record(outcome)
        self._answer(outcome)

    def abort(self) -> None:
        if self.inner is not None:
            self.inner.abort()
        self._record(_NO_ANSWER)

    def _record(self, outcome: Outcome) -> None:
        if self._over:
            return
        self._over = True
        self.inner = None  # it refers to us: only the garbage collector would free the two
        now, batch = self._tracer.now(), self._batch
        attributes: dict[str, str | int | bool] = {
            "messaging.system": "eventgrid",
            "messaging.operation.type": "process",
            "messaging.destination.subscription.name": batch.subscription,
            "messaging.batch.message_count": batch.events,
            "recapito.endpoint": _endpoint(self._destination)[: limits.SPAN_ATTRIBUTE_CHARS],
            "recapito.attempt": batch.attempts_before + 1,
            "recapito.outcome": str(outcome.result),
        }
        if outcome.status is not None:
            attributes["http.response.status_code"] = outcome.status
        if now - self._since >= limits.ANSWER_WAIT_NS:
            attributes["recapito.late"] = True
        error = None if outcome.result is Result.SUCCESS else str(outcome.result)
        name = f"deliver {batch.subscription}"
        links = tuple(dict.fromkeys(self._links))
        self._tracer.record(
            Span(name, CallSide.CLIENT, self.place, self._parent, self._since, now, attributes, error, links)
        )


class TracingSender:
    """Carries batches by another sender."""

    def __init__(self, inner: Sender[Destination], tracer: Tracer) -> None:
        self._inner = inner
        self._tracer = tracer

    def __repr__(self) -> str:
        return f"<TracingSender around {self._inner!r}>"

    def send(self, destination: Destination, batch: Batch, answer: Callable[[Outcome], None]) -> Exchange:
        if not batch.traces:
            return self._inner.send(destination, batch, answer)
        places = [place for place in map(parse, batch.traces) if place is not None]
        traced = TracedExchange(self._tracer, destination, batch, places, answer)
        sent = replace(batch, traceparent=str(traced.place))
        traced.inner = self._inner.send(destination, sent, traced.answered)
        return traced

    async def close(self) -> None:
        await self._inner.close()


def _endpoint(destination: Destination) -> str:
    return destination.base_url if isinstance(destination, WebHook) else destination.resource_id
