"""A sender without a network: a script has the outcome of each batch, and its delay. The reference model."""

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from recapito.domain.delivery.batch import Batch
from recapito.domain.delivery.outcome import Outcome
from recapito.domain.resources.destination import Destination


class ScriptedOutcome(NamedTuple):
    """An outcome, and its delay after sending in seconds of the event loop's time."""

    outcome: Outcome
    after_s: float = 0.0


Script = Callable[[Destination, Batch], ScriptedOutcome | None]
"""The outcome of a batch; None: it is never answered."""


class MemoryExchange:
    """One batch under way."""

    def __init__(self, handle: asyncio.Handle | None) -> None:
        self._handle = handle

    def abort(self) -> None:
        if self._handle is not None:
            self._handle.cancel()


class MemorySender:
    """Answers every batch by the script."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self.closed = False

    def send(self, destination: Destination, batch: Batch, answer: Callable[[Outcome], None]) -> MemoryExchange:
        if self.closed:
            raise RuntimeError("The sender is closed.")
        scripted = self._script(destination, batch)
        if scripted is None:
            return MemoryExchange(None)
        return MemoryExchange(
            asyncio.get_running_loop().call_later(scripted.after_s, self._answer, answer, scripted.outcome)
        )

    async def close(self) -> None:
        """No batch is answered after this."""
        self.closed = True

    def _answer(self, answer: Callable[[Outcome], None], outcome: Outcome) -> None:
        if not self.closed:
            answer(outcome)
