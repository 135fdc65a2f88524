"""The sender to Service Bus queues and topics and to Event Hubs: one event is one message, and each destination a line.

A broker that does not answer holds up its own line and no other.
"""

import asyncio
from collections.abc import Callable

from recapito.azure.amqp_clients import AmqpClients
from recapito.domain.delivery.batch import Batch
from recapito.domain.delivery.broker_message import event_hub_message, service_bus_message
from recapito.domain.delivery.outcome import Outcome, Result
from recapito.domain.resources.destination import Broker, EventHub
from recapito.domain.resources.resource_id import parse_resource_id
from recapito.errors import InvalidInput
from recapito.senders.broker_channel import BrokerChannel, BrokerExchange


class BrokerSender:
    """Carries events to brokers."""

    def __init__(self, amqp_clients: AmqpClients) -> None:
        self._amqp_clients = amqp_clients
        self._lines: dict[str, BrokerChannel] = {}
        self.closed = False

    def __repr__(self) -> str:
        return f"<BrokerSender with {len(self._lines)} lines>"

    def send(self, destination: Broker, batch: Batch, answer: Callable[[Outcome], None]) -> BrokerExchange:
        """Start one exchange."""
        if self.closed:
            raise RuntimeError("The sender is closed.")
        message = event_hub_message(batch) if isinstance(destination, EventHub) else service_bus_message(batch)
        exchange = BrokerExchange(message, answer)
        try:
            self._line(destination).add(exchange)
        except InvalidInput as error:
            outcome = Outcome(Result.BAD_REQUEST, 400, detail=error.message)
            asyncio.get_running_loop().call_soon(exchange.finish, outcome)
        return exchange

    async def close(self) -> None:
        """Abort what is open. The way to the brokers is its owner's to close."""
        self.closed = True
        await asyncio.gather(*(line.close() for line in list(self._lines.values())))

    def _line(self, destination: Broker) -> BrokerChannel:
        key = destination.resource_id.lower()
        if key not in self._lines:
            resource = parse_resource_id(destination.resource_id)
            self._lines[key] = BrokerChannel(self._amqp_clients, resource, lambda: self._lines.pop(key, None))
        return self._lines[key]
