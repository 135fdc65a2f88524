"""The sender to storage queues: one event is one message, its JSON object as base64 text.

Consumers of Event Grid's queues expect Base64, and it carries every character through the service's XML.
"""

import asyncio
from base64 import b64encode
from collections.abc import Callable
from typing import TYPE_CHECKING

from recapito.azure.storage_clients import StorageClients
from recapito.domain import limits
from recapito.domain.delivery.batch import Batch
from recapito.domain.delivery.outcome import Outcome, Result
from recapito.domain.resources.destination import StorageQueue
from recapito.domain.resources.resource_id import parse_resource_id
from recapito.errors import InvalidInput

if TYPE_CHECKING:
    from azure.storage.queue.aio import QueueClient

Answer = Callable[[Outcome], None]


class QueueExchange:
    """One message on its way. `over`: answered or aborted."""

    __slots__ = ("_answer", "over", "task")

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self.over = False
        self.task: asyncio.Task[None] | None = None

    def abort(self) -> None:
        self.over = True
        if self.task is not None:
            self.task.cancel()

    def finish(self, outcome: Outcome) -> None:
        """Answer, unless the exchange is over already."""
        if not self.over:
            self.over = True
            self._answer(outcome)


class StorageQueueSender:
    """Carries events to storage queues."""

    def __init__(self, storage_clients: StorageClients) -> None:
        self._storage_clients = storage_clients
        self._open: dict[asyncio.Task[None], QueueExchange] = {}
        self.closed = False

    def __repr__(self) -> str:
        return f"<StorageQueueSender, {len(self._open)} open>"

    def send(self, destination: StorageQueue, batch: Batch, answer: Answer) -> QueueExchange:
        if self.closed:
            raise RuntimeError("The sender is closed.")
        exchange = QueueExchange(answer)
        exchange.task = asyncio.get_running_loop().create_task(self._carry(destination, batch, exchange))
        self._open[exchange.task] = exchange
        exchange.task.add_done_callback(self._open.pop)
        return exchange

    async def close(self) -> None:
        """Abort open exchanges. The owner of the clients closes them."""
        self.closed = True
        tasks = list(self._open)
        for exchange in list(self._open.values()):
            exchange.abort()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _carry(self, destination: StorageQueue, batch: Batch, exchange: QueueExchange) -> None:
        exchange.finish(await self._put(destination, _text(batch)))

    async def _put(self, destination: StorageQueue, text: str) -> Outcome:
        if len(text) > limits.QUEUE_MESSAGE_BYTES:
            return Outcome(
                Result.PAYLOAD_TOO_LARGE,
                413,
                detail=f"{destination.queue} of storage account {destination.account.rpartition('/')[2]}: the event is"
                f" {len(text)} bytes of base64, and a queue takes {limits.QUEUE_MESSAGE_BYTES}: publish smaller events,"
                " or choose another destination",
            )
        try:
            queue = parse_resource_id(destination.resource_id)
        except InvalidInput as error:
            return Outcome(Result.BAD_REQUEST, 400, detail=error.message)

        async def put(client: "QueueClient") -> None:
            await client.send_message(text, time_to_live=destination.ttl_s)

        return await self._storage_clients.use_queue(queue, put)


def _text(batch: Batch) -> str:
    return b64encode(batch.lone_event).decode("ascii")
