"""A sender without a network: a script says what each batch is answered, and when. The reference model of a sender."""

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from recapito.domain.delivery.batch import Batch
from recapito.domain.delivery.outcome import Outcome
from recapito.domain.resources.destination import Destination


class Scripted(NamedTuple):
    """An answer, so many seconds of the event loop's time after sending."""

    outcome: Outcome
    after_s: float = 0.0


Script = Callable[[Destination, Batch], Scripted | None]
"""What a batch is answered; None is never."""


class MemoryExchange:
    """One batch on its way to nowhere."""

    def __init__(self, handle: asyncio.Handle | None) -> None:
        self._handle = handle

    def abort(self) -> None:
        """Stop listening. No answer comes after this returns."""
        if self._handle is not None:
            self._handle.cancel()


class MemorySender:
    """Answers every batch as the script says."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self.closed = False

    def send(self, destination: Destination, batch: Batch, answer: Callable[[Outcome], None]) -> MemoryExchange:
        """Start one exchange."""
        if self.closed:
            raise RuntimeError("The sender is closed.")
        scripted = self._script(destination, batch)
        if scripted is None:
            return MemoryExchange(None)
        return MemoryExchange(
            asyncio.get_running_loop().call_later(scripted.after_s, self._answer, answer, scripted.outcome)
        )

    async def close(self) -> None:
        """No answer comes after this."""
        self.closed = True

    def _answer(self, answer: Callable[[Outcome], None], outcome: Outcome) -> None:
        if not self.closed:
            answer(outcome)
