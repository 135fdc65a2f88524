"""The sender of a server: each destination goes to the sender of its kind."""

from collections.abc import Callable, Mapping
from typing import Any

from recapito.contracts.sender import Exchange, Sender
from recapito.domain.delivery.batch import Batch
from recapito.domain.delivery.outcome import Outcome
from recapito.domain.resources.destination import AzureResource, Destination, WebHook


class RoutingSender:
    """Passes each batch on. Webhooks are tested first, for they are the most frequent."""

    def __init__(self, webhooks: Sender[WebHook], resources: Mapping[type[AzureResource], Sender[Any]]) -> None:
        self._webhooks = webhooks
        self._resources = resources

    def __repr__(self) -> str:
        return f"<RoutingSender to {', '.join(map(repr, (self._webhooks, *self._resources.values())))}>"

    def send(self, destination: Destination, batch: Batch, answer: Callable[[Outcome], None]) -> Exchange:
        if isinstance(destination, WebHook):
            return self._webhooks.send(destination, batch, answer)
        return self._resources[type(destination)].send(destination, batch, answer)

    async def close(self) -> None:
        for sender in (*self._resources.values(), self._webhooks):
            await sender.close()
