"""The sender of a server: each destination goes to the sender of its kind."""

from collections.abc import Callable

from recapito.domain.batch import Batch
from recapito.domain.outcome import Outcome
from recapito.domain.subscription import Broker, Destination, StorageQueue, WebHook
from recapito.sender import Exchange, Sender


class RoutingSender:
    """Hands each batch on; webhooks are asked for first, for they are most."""

    def __init__(
        self, webhooks: Sender[WebHook], storage_queues: Sender[StorageQueue], brokers: Sender[Broker]
    ) -> None:
        self._webhooks = webhooks
        self._storage_queues = storage_queues
        self._brokers = brokers

    def __repr__(self) -> str:
        return f"<RoutingSender to {self._webhooks}, {self._storage_queues} and {self._brokers}>"

    def send(self, destination: Destination, batch: Batch, answer: Callable[[Outcome], None]) -> Exchange:
        """Start one exchange."""
        if isinstance(destination, WebHook):
            return self._webhooks.send(destination, batch, answer)
        if isinstance(destination, StorageQueue):
            return self._storage_queues.send(destination, batch, answer)
        return self._brokers.send(destination, batch, answer)

    async def close(self) -> None:
        """Abort what is open and free everything."""
        await self._webhooks.close()
        await self._storage_queues.close()
        await self._brokers.close()
