"""The contract of a sender: it carries one batch to one destination and turns every result into an Outcome."""

from collections.abc import Callable
from typing import Protocol, TypeVar

from recapito.domain.delivery.batch import Batch
from recapito.domain.delivery.outcome import Outcome

D = TypeVar("D", contravariant=True)


class Exchange(Protocol):
    """One batch on its way. It waits until it is answered or aborted; the lane applies the time-out, by the clock."""

    def abort(self) -> None:
        """Stop waiting and release the connection. `answer` is not called after this returns."""


class Sender(Protocol[D]):
    """Carries batches to destinations of one kind; `Sender[Destination]` to any.

    Promises: `send` returns at once and never raises for anything that the network, the name service or the
    endpoint does; `answer` is called exactly once, later, on the event loop, unless the exchange was aborted; the
    sender limits the time of connecting, but not of the exchange; two endpoints do not delay each other.
    """

    def send(self, destination: D, batch: Batch, answer: Callable[[Outcome], None]) -> Exchange:
        """Start one exchange."""

    async def close(self) -> None:
        """Abort open exchanges and free everything."""
