"""A carrier, a process of its own: brings events to a destination by our sender, or by Microsoft's client alone.

Either way the same messages arrive, and as many events are under way as a lane's window allows. `python -m
bench.carrier` reads its Order as JSON and prints its Report.
"""

import asyncio
import sys
import time
from base64 import b64encode
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import uvloop
from azure.eventhub import EventData
from azure.eventhub.aio import EventHubProducerClient
from azure.servicebus import ServiceBusMessage
from azure.servicebus.aio import ServiceBusClient
from azure.storage.queue.aio import QueueClient

from bench.event import stamped, template
from recapito.azure.amqp_clients import AmqpClients
from recapito.azure.storage_clients import StorageClients
from recapito.domain import limits
from recapito.domain.access.egress import Egress
from recapito.domain.connections.connection import Connection
from recapito.domain.connections.parse_storage import from_connection_string
from recapito.domain.delivery.batch import Batch
from recapito.domain.delivery.outcome import Outcome, Result
from recapito.domain.events.schema import BodyForm
from recapito.domain.resources.destination import EventHub, ServiceBusQueue, StorageQueue
from recapito.domain.resources.resource_id import parse_resource_id
from recapito.senders.broker import BrokerSender
from recapito.senders.http.resolver import Resolver
from recapito.senders.storage_queue import StorageQueueSender

QUEUE, SERVICE_BUS, EVENT_HUBS = "storage queue", "service bus", "event hubs"
ENTITY = "good-bench"  # the broker's way to say: one that takes everything
WINDOW = limits.WINDOW_REQUESTS
WARM_UP_S = 1.5
TTL_S = 3600
_PROVIDERS = "/subscriptions/s/resourceGroups/bench/providers"
_ACCOUNT = f"{_PROVIDERS}/Microsoft.Storage/storageAccounts/bench1"
DESTINATIONS = {
    QUEUE: StorageQueue(account=_ACCOUNT, queue=ENTITY, ttl_s=TTL_S),
    SERVICE_BUS: ServiceBusQueue(resource_id=f"{_PROVIDERS}/Microsoft.ServiceBus/namespaces/bench1/queues/{ENTITY}"),
    EVENT_HUBS: EventHub(resource_id=f"{_PROVIDERS}/Microsoft.EventHub/namespaces/bench1/eventhubs/{ENTITY}"),
}
_METADATA = {
    "aeg-subscription-name": "BENCH",
    "aeg-delivery-count": "0",
    "aeg-event-type": "Notification",
    "aeg-metadata-version": "1",
    "aeg-data-version": "1",
}
_TEMPLATE = template(1)


class Order(msgspec.Struct, frozen=True):
    """The destination, its connection, its senders, and the duration."""

    kind: str
    connection: str
    ours: bool
    seconds: float


class Report(msgspec.Struct):
    """How many events a second were confirmed, and the processor time that each took here."""

    rate: float
    cpu_us: float


class Carrying:
    """Counts what is confirmed, from the end of the warm-up on, until the time is over."""

    def __init__(self, seconds: float) -> None:
        self.going = True
        self._seconds = seconds
        self._made = self._confirmed = 0
        self._began_at, self._began_cpu_s = time.monotonic() + WARM_UP_S, 0.0

    def next_event(self) -> tuple[str, bytes]:
        """Another event: its output id, and the array that holds it."""
        self._made += 1
        return f"00000000-0000-0000-0000-{self._made:012x}", stamped(_TEMPLATE, self._made)

    def confirm(self, events: int) -> None:
        """N more have arrived."""
        now = time.monotonic()
        if not self._began_cpu_s and now >= self._began_at:
            self._began_at, self._began_cpu_s, self._confirmed = now, time.process_time(), 0
        self._confirmed += events
        self.going = now < self._began_at + self._seconds

    def report(self) -> Report:
        """The result."""
        elapsed_s, spent_s = time.monotonic() - self._began_at, time.process_time() - self._began_cpu_s
        return Report(self._confirmed / elapsed_s, spent_s / max(self._confirmed, 1) * 1e6)


async def carry_by_sender(order: Order, carrying: Carrying) -> None:
    """By our sender, as a lane uses it: a new exchange is begun as soon as one is answered."""
    destination: Any = DESTINATIONS[order.kind]
    connection = from_connection_string(parse_resource_id(destination.resource_id).top.text, order.connection)

    async def find(resource_id: str) -> Connection:
        return connection

    way = (StorageClients if order.kind == QUEUE else AmqpClients)(find, Resolver(), Egress.LOCAL)
    sender: Any = StorageQueueSender(way) if isinstance(way, StorageClients) else BrokerSender(way)
    over = asyncio.Event()
    under_way = WINDOW

    def send() -> None:
        output_id, body = carrying.next_event()
        sender.send(destination, Batch("bench", body, 1, 0, "1", output_id, BodyForm.EVENTS), answered)

    def answered(outcome: Outcome) -> None:
        nonlocal under_way
        if outcome.result is not Result.SUCCESS:
            raise RuntimeError(f"{order.kind}: {outcome}")
        carrying.confirm(1)
        if carrying.going:
            send()
            return
        under_way -= 1
        if not under_way:
            over.set()

    for _ in range(WINDOW):
        send()
    await over.wait()
    await sender.close()
    await way.close()


async def carry_to_queue(order: Order, carrying: Carrying) -> None:
    """By Microsoft's client for queues, as many at a time: a message is a request."""
    async with QueueClient.from_connection_string(order.connection, ENTITY) as client:

        async def carry() -> None:
            while carrying.going:
                _, body = carrying.next_event()
                await client.send_message(b64encode(body[1:-1]).decode(), time_to_live=TTL_S)
                carrying.confirm(1)

        await asyncio.gather(*(carry() for _ in range(WINDOW)))


async def carry_to_service_bus(order: Order, carrying: Carrying) -> None:
    """By Microsoft's client for Service Bus, in batches one after the other."""
    async with (
        ServiceBusClient.from_connection_string(order.connection) as client,
        client.get_queue_sender(ENTITY) as sender,
    ):
        while carrying.going:
            batch = await sender.create_message_batch()
            for output_id, body in [carrying.next_event() for _ in range(WINDOW)]:
                message = ServiceBusMessage(
                    body[1:-1],
                    application_properties={**_METADATA, "aeg-output-event-id": output_id},
                    content_type=str(BodyForm.EVENTS),
                    message_id=output_id,
                )
                batch.add_message(message)
            await sender.send_messages(batch)
            carrying.confirm(WINDOW)


async def carry_to_event_hubs(order: Order, carrying: Carrying) -> None:
    """By Microsoft's client for Event Hubs, in batches one after the other."""
    client = EventHubProducerClient.from_connection_string(order.connection, eventhub_name=ENTITY)
    async with client:
        while carrying.going:
            batch = await client.create_batch()
            for output_id, body in [carrying.next_event() for _ in range(WINDOW)]:
                event = EventData(body)
                event.properties.update({**_METADATA, "aeg-output-event-id": output_id})
                event.content_type = str(BodyForm.EVENTS)
                batch.add(event)
            await client.send_batch(batch)
            carrying.confirm(WINDOW)


BARE: dict[str, Callable[[Order, Carrying], Awaitable[None]]] = {
    QUEUE: carry_to_queue,
    SERVICE_BUS: carry_to_service_bus,
    EVENT_HUBS: carry_to_event_hubs,
}


async def carry(order: Order) -> Report:
    """Carry out an order."""
    carrying = Carrying(order.seconds)
    await (carry_by_sender if order.ours else BARE[order.kind])(order, carrying)
    return carrying.report()


if __name__ == "__main__":
    print(msgspec.json.encode(uvloop.run(carry(msgspec.json.decode(sys.stdin.readline(), type=Order)))).decode())
