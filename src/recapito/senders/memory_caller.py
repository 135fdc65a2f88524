"""A caller without a network: a script has the result of each request, and its delay. The reference model."""

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from recapito.domain.handshake.http_call import CallResult, FailureKind, HttpRequest, NoReply


class ScriptedAnswer(NamedTuple):
    """A result, and its delay in seconds of the event loop's time."""

    answer: CallResult
    after_s: float = 0.0


CallScript = Callable[[HttpRequest], ScriptedAnswer | None]
"""The result of a request; None: it is never answered."""


class MemoryCaller:
    """Answers every request by the script, and keeps the requests."""

    def __init__(self, script: CallScript) -> None:
        self._script = script
        self._closed = asyncio.Event()
        self.requests: list[HttpRequest] = []

    async def ask(self, request: HttpRequest) -> CallResult:
        closed = NoReply(FailureKind.CLOSED, "the service is ending")
        if self._closed.is_set():
            return closed
        self.requests.append(request)
        scripted = self._script(request)
        wait_s = None if scripted is None else scripted.after_s
        try:
            await asyncio.wait_for(self._closed.wait(), wait_s)
        except TimeoutError:
            assert scripted is not None
            return scripted.answer
        return closed

    async def close(self) -> None:
        """End open requests with NoReply."""
        self._closed.set()
