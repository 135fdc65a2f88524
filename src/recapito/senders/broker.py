"""The sender to Service Bus queues and topics and to Event Hubs: one event is one message; a destination has a channel.

A broker that does not answer delays its own channel and no other.
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
        self._channels: dict[str, BrokerChannel] = {}
        self.closed = False

    def __repr__(self) -> str:
        return f"<BrokerSender with {len(self._channels)} channels>"

    def send(self, destination: Broker, batch: Batch, answer: Callable[[Outcome], None]) -> BrokerExchange:
        if self.closed:
            raise RuntimeError("The sender is closed.")
        message = event_hub_message(batch) if isinstance(destination, EventHub) else service_bus_message(batch)
        exchange = BrokerExchange(message, answer)
        try:
            self._channel(destination).add(exchange)
        except InvalidInput as error:
            outcome = Outcome(Result.BAD_REQUEST, 400, detail=error.message)
            asyncio.get_running_loop().call_soon(exchange.finish, outcome)
        return exchange

    async def close(self) -> None:
        """Abort open exchanges. The owner of the clients closes them."""
        self.closed = True
        await asyncio.gather(*(channel.close() for channel in list(self._channels.values())))

    def _channel(self, destination: Broker) -> BrokerChannel:
        key = destination.resource_id.lower()
        if key not in self._channels:
            resource = parse_resource_id(destination.resource_id)
            self._channels[key] = BrokerChannel(self._amqp_clients, resource, lambda: self._channels.pop(key, None))
        return self._channels[key]
