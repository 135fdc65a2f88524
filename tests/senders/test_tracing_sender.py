"""The sender around the senders: which attempts become spans, and what they say."""

import asyncio
import random
from typing import Any

from msgspec.structs import replace

from recapito.domain.delivery.batch import Batch
from recapito.domain.delivery.outcome import Outcome, Result, answered
from recapito.domain.observability.trace import TraceParent
from recapito.domain.resources.destination import Destination, WebHook
from recapito.observability.tracing import Sampling, Span, Tracer
from recapito.senders.memory import MemorySender, ScriptedOutcome
from recapito.senders.tracing import TracingSender

HOOK = WebHook(url="https://example.com/hook?code=secret")
FIRST, SECOND, THIRD = (TraceParent(letter * 32, letter * 16) for letter in "abc")
PLAIN = Batch("orders", b"[]", 3, 1, None, None)
TRACED = replace(PLAIN, traces=(str(FIRST), str(SECOND), str(THIRD), str(SECOND)))


class Bench:
    """A tracing sender on a scripted one."""

    def __init__(self, outcome: Outcome | None) -> None:
        self.sent: list[Batch] = []
        self.spans: list[Span] = []
        self.now = 0
        self._outcome = outcome
        chance = random.Random(1)
        tracer = Tracer(self.spans.append, Sampling(0, 1), lambda: self.now, chance.getrandbits, chance.random)
        self.sender = TracingSender(MemorySender(self._script), tracer)
        self.answers: list[Outcome] = []

    def _script(self, destination: Destination, batch: Batch) -> ScriptedOutcome | None:
        self.sent.append(batch)
        return None if self._outcome is None else ScriptedOutcome(self._outcome)

    def send(self, batch: Batch) -> Any:
        return self.sender.send(HOOK, batch, self.answers.append)


def test_a_batch_without_traces_passes_untouched() -> None:
    """It is the very same batch, and nothing is recorded."""

    async def test() -> None:
        bench = Bench(answered(200))
        bench.send(PLAIN)
        await asyncio.sleep(0.01)
        assert bench.sent[0] is PLAIN and bench.answers == [answered(200)] and not bench.spans

    asyncio.run(test())


def test_an_attempt_becomes_a_span() -> None:
    """In the trace of its first traced event, with links to the others; the request carries the span's place."""

    async def test() -> None:
        bench = Bench(answered(503, detail="busy, code=secret"))
        bench.send(TRACED)
        bench.now = 5
        await asyncio.sleep(0.01)
        (span,) = bench.spans
        assert span.parent == FIRST and span.place.trace_id == FIRST.trace_id
        assert list(span.links) == [SECOND, THIRD]
        assert bench.sent[0].traceparent == str(span.place)
        assert (span.start, span.end, span.error) == (0, 5, "Busy")
        assert span.attributes["recapito.attempt"] == 2
        assert span.attributes["recapito.outcome"] == "Busy"
        assert span.attributes["http.response.status_code"] == 503
        assert span.attributes["recapito.endpoint"] == "https://example.com/hook"
        assert "secret" not in repr(span)
        assert bench.answers[0].result is Result.BUSY

    asyncio.run(test())


def test_a_success_has_no_error() -> None:
    """And an answer after 30 seconds is marked as late."""

    async def test() -> None:
        bench = Bench(answered(200))
        bench.send(TRACED)
        bench.now = 31_000_000_000
        await asyncio.sleep(0.01)
        (span,) = bench.spans
        assert span.error is None and span.attributes["recapito.late"] is True

    asyncio.run(test())


def test_an_aborted_exchange_is_recorded_once() -> None:
    """It ends as Aborted, no answer comes, and aborting again says nothing."""

    async def test() -> None:
        bench = Bench(answered(200))
        exchange = bench.send(TRACED)
        exchange.abort()
        exchange.abort()
        await asyncio.sleep(0.01)
        assert [span.error for span in bench.spans] == ["Aborted"] and bench.answers == []

    asyncio.run(test())
