"""Microsoft's client for Service Bus, for one queue or topic. It neither retries nor waits by itself: the lanes do."""

from collections.abc import Sequence
from typing import Any

from azure.core.credentials_async import AsyncTokenCredential
from azure.servicebus import ServiceBusMessage, TransportType
from azure.servicebus.aio import ServiceBusClient
from azure.servicebus.exceptions import MessageSizeExceededError

from recapito.azure.amqp_clients import DialTarget
from recapito.azure.amqp_session import Sockets, sdk_credential
from recapito.domain.connections.connection import Connection
from recapito.domain.delivery.broker_message import Message
from recapito.domain.resources.resource_id import SERVICE_BUS_TOPIC, ResourceId

_ARGUMENTS = {
    "MessageId": "message_id",
    "PartitionKey": "partition_key",
    "SessionId": "session_id",
    "CorrelationId": "correlation_id",
    "Label": "subject",
    "ReplyTo": "reply_to",
    "ReplyToSessionId": "reply_to_session_id",
    "To": "to",
}
_VIA = b"x-opt-via-partition-key"  # which the client has no argument for


class ServiceBusAmqpClient:
    """An open client of one queue or topic."""

    def __init__(
        self, target: DialTarget, connection: Connection, own: AsyncTokenCredential | None, resource: ResourceId
    ) -> None:
        self._client = ServiceBusClient(
            target.host,
            sdk_credential(connection, own),
            custom_endpoint_address=target.url,
            transport_type=TransportType.Amqp,
            use_tls=target.tls is not None,
            ssl_context=target.tls,
            retry_total=0,
            keep_alive=None,
        )
        topic = resource.kind == SERVICE_BUS_TOPIC
        name = resource.name
        self._sender = self._client.get_topic_sender(name) if topic else self._client.get_queue_sender(name)
        self._sockets = Sockets(lambda: self._sender)

    async def open(self) -> None:
        await self._sockets.open(self._sender.__aenter__())

    async def send(self, messages: Sequence[Message]) -> int:
        if len(messages) > 1:
            batch = await self._sender.create_message_batch()
            for message in messages:
                try:
                    batch.add_message(_sdk_message(message))
                except MessageSizeExceededError:
                    break
            if len(batch) > 1:
                await self._sender.send_messages(batch)
                return len(batch)
        await self._sender.send_messages(_sdk_message(messages[0]))
        return 1

    async def close(self) -> None:
        try:
            await self._sender.close()
            await self._client.close()
        finally:
            await self._sockets.close()


def _sdk_message(message: Message) -> ServiceBusMessage:
    fields: dict[str, Any] = {_ARGUMENTS[name]: value for name, value in message.fields.items() if name in _ARGUMENTS}
    sent = ServiceBusMessage(
        message.body,
        application_properties=dict(message.properties.items()),
        content_type=message.content_type,
        **fields,
    )
    via = message.fields.get("ViaPartitionKey")
    if via is not None:
        sent.raw_amqp_message.annotations = {**(sent.raw_amqp_message.annotations or {}), _VIA: via}
    return sent
