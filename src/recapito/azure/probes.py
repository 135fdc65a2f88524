"""Probes of Azure resources: they find out whether a delivery could succeed now, and leave nothing there."""

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
    """Probes whether a container can be written to, and whether a queue exists."""

    def __init__(self, storage_clients: StorageClients) -> None:
        self._storage_clients = storage_clients

    async def container(self, place: ResourceId, connection: Connection) -> Outcome:
        """Replace a blob under a condition that no blob meets: one that may write gets that condition's error."""

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
        """Read a queue's properties. A credential that may add messages may still not do this."""

        async def ask(client: "QueueClient") -> None:
            await client.get_queue_properties()

        return await self._storage_clients.use_queue(place, ask)


class BrokerProbe:
    """Probes whether a queue, topic or hub takes messages: connects, authenticates and attaches."""

    def __init__(self, amqp_clients: AmqpClients) -> None:
        self._amqp_clients = amqp_clients

    async def entity(self, place: ResourceId, connection: Connection) -> Outcome:
        """Open a client, and close it."""
        client = await self._amqp_clients.open(place, connection)
        if isinstance(client, Outcome):
            return client
        self._amqp_clients.dispose(client)
        return DONE
