"""Microsoft's client for Event Hubs, for one hub. It neither retries nor waits by itself: the lanes do."""

from collections.abc import Sequence

from azure.core.credentials_async import AsyncTokenCredential
from azure.eventhub import EventData, TransportType
from azure.eventhub.aio import EventHubProducerClient

from recapito.azure.amqp_clients import DialTarget
from recapito.azure.amqp_session import Sockets, sdk_credential
from recapito.domain.connections.connection import Connection
from recapito.domain.delivery.broker_message import PARTITION_KEY, Message
from recapito.domain.resources.resource_id import ResourceId


class EventHubAmqpClient:
    """An open client of one hub."""

    def __init__(
        self, target: DialTarget, connection: Connection, own: AsyncTokenCredential | None, resource: ResourceId
    ) -> None:
        self._client = EventHubProducerClient(
            target.host,
            resource.name,
            sdk_credential(connection, own),
            custom_endpoint_address=target.url,
            transport_type=TransportType.Amqp,
            use_tls=target.tls is not None,
            ssl_context=target.tls,
            retry_total=0,
            retry_backoff_factor=0,  # it would wait even before a retry that does not come
            keep_alive=None,
        )
        # The client's own sending would repeat at once whatever the hub refuses; its producer's does not.
        (producer,) = self._client._producers.values()
        assert producer is not None
        self._producer = producer
        self._sockets = Sockets(lambda: self._producer)

    async def open(self) -> None:
        await self._sockets.open(self._client.create_batch())

    async def send(self, messages: Sequence[Message]) -> int:
        key = messages[0].fields.get(PARTITION_KEY)
        if len(messages) > 1:
            batch = await self._client.create_batch(partition_key=key)
            for message in messages:
                try:
                    batch.add(_sdk_message(message))
                except ValueError:  # it is full
                    break
            if len(batch) > 1:
                await self._producer.send(batch)
                return len(batch)
        await self._producer.send(_sdk_message(messages[0]), partition_key=key)
        return 1

    async def close(self) -> None:
        try:
            await self._client.close()
        finally:
            await self._sockets.close()


def _sdk_message(message: Message) -> EventData:
    sent = EventData(message.body)
    sent.properties.update(message.properties)
    sent.content_type = message.content_type
    return sent
