"""Sending to resources by their connections, for the length of a test."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from recapito.domain.access.egress import Egress
from recapito.domain.connections.connection import Connection
from recapito.domain.delivery.batch import Batch
from recapito.domain.delivery.outcome import Outcome
from recapito.senders.azure_http import AzureHttpSender, ResourceAdapter
from recapito.senders.webhook import WebhookSender
from tests.senders.receiver import NOON, batch

Find = Callable[[str], Awaitable[Connection | None]]


class Sending:
    """Sends batches to one kind of resource."""

    def __init__(self, sender: AzureHttpSender[Any]) -> None:
        self.sender = sender

    async def __call__(self, destination: Any, sent: Batch | None = None) -> Outcome:
        """The answer of one exchange."""
        told: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self.sender.send(destination, sent or batch(), told.set_result)
        async with asyncio.timeout(15):
            return await told


@contextlib.asynccontextmanager
async def sending(
    leading: ResourceAdapter[Any], find: Find, now: Callable[[], int] = lambda: NOON
) -> AsyncIterator[Sending]:
    """A sender, and the sender to webhooks that it goes by."""
    webhooks = WebhookSender(Egress.LOCAL, now=lambda: NOON)
    sender = AzureHttpSender(leading, find, webhooks, now)
    try:
        yield Sending(sender)
    finally:
        await sender.close()
        await webhooks.close()


def keyring(connections: dict[str, Connection]) -> Find:
    """Finds connections by the lower-cased id of a resource."""

    async def find(resource_id: str) -> Connection | None:
        return connections.get(resource_id.lower())

    return find
