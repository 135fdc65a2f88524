"""Probes of Azure resources: whether a delivery could succeed now, found out without leaving anything there."""

from typing import TYPE_CHECKING

from recapito.azure.amqp_clients import AmqpClients
from recapito.azure.storage_clients import DONE, StorageClients
from recapito.domain.connections.connection import Connection
from recapito.domain.delivery.outcome import Outcome
from recapito.domain.resources.resource_id import ResourceId

if TYPE_CHECKING:
    from azure.storage.blob.aio import ContainerClient
    from azure.storage.queue.aio import QueueClient

_BLOB = "recapito-check"
_NO_BLOBS_TAG = '"0x0"'


class StorageProbe:
    """Looks whether a container may be written to, and whether a queue is there."""

    def __init__(self, storage_clients: StorageClients) -> None:
        self._storage_clients = storage_clients

    async def container(self, place: ResourceId, connection: Connection) -> Outcome:
        """Ask to replace a blob that has a tag which none has: whoever may write is told that it has not."""

        async def ask(client: "ContainerClient") -> None:
            from azure.core import MatchConditions  # loaded by now, with the client
            from azure.core.exceptions import ResourceModifiedError, ResourceNotFoundError

            try:
                await client.get_blob_client(_BLOB).upload_blob(
                    b"", overwrite=True, etag=_NO_BLOBS_TAG, match_condition=MatchConditions.IfNotModified
                )
            except ResourceModifiedError:
                return
            except ResourceNotFoundError as error:
                if getattr(error, "error_code", None) != "BlobNotFound":
                    raise

        return await self._storage_clients.use_container(place, ask)

    async def queue(self, place: ResourceId, connection: Connection) -> Outcome:
        """Ask for a queue's properties. That may be forbidden to who may add messages."""

        async def ask(client: "QueueClient") -> None:
            await client.get_queue_properties()

        return await self._storage_clients.use_queue(place, ask)


class BrokerProbe:
    """Looks whether a queue, topic or hub can be sent to: connects, authenticates and attaches."""

    def __init__(self, amqp_clients: AmqpClients) -> None:
        self._amqp_clients = amqp_clients

    async def entity(self, place: ResourceId, connection: Connection) -> Outcome:
        """Open a courier, and close it."""
        courier = await self._amqp_clients.open(place, connection)
        if isinstance(courier, Outcome):
            return courier
        self._amqp_clients.dispose(courier)
        return DONE
