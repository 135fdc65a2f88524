"""Places in an Azurite, and ways to reach them."""

import uuid
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from recapito.azure.access import AzureAccess, NameService
from recapito.azure.storage_clients import StorageClients
from recapito.domain.access.egress import Egress
from recapito.domain.connections.connection import Connection
from recapito.domain.connections.parse_storage import from_connection_string
from recapito.domain.resources.destination import StorageQueue
from recapito.domain.resources.resource_id import container_id
from recapito.senders.http.resolver import Resolver

if TYPE_CHECKING:
    from tests.azurite.server import Azurite


def account(name: str) -> str:
    """The resource id of a storage account."""
    return f"/subscriptions/s-1/resourceGroups/shop/providers/Microsoft.Storage/storageAccounts/{name}"


ACCOUNT = account("orders1")
KEY = "bm90IGEgcmVhbCBrZXk="


def queue_service(name: str, url: str) -> Connection:
    """A connection to something that is said to be the queue service of an account."""
    return from_connection_string(account(name), f"AccountName={name};AccountKey={KEY};QueueEndpoint={url}")


def blob_service(name: str, url: str) -> Connection:
    """A connection to something that is said to be the blob service of an account."""
    return from_connection_string(account(name), f"AccountName={name};AccountKey={KEY};BlobEndpoint={url}")


def known(*connections: Connection) -> Callable[[str], Awaitable[Connection | None]]:
    """A keyring with these connections, each of an account."""

    async def find(resource_id: str) -> Connection | None:
        return next((one for one in connections if resource_id.lower().startswith(one.key)), None)

    return find


def reaching(
    *connections: Connection, names: NameService | None = None, egress: Egress = Egress.LOCAL
) -> StorageClients:
    """A reach to what these connections lead to."""
    return StorageClients(AzureAccess(known(*connections), names or Resolver(), egress))


def new_container(azurite: "Azurite", **options: Any) -> str:
    """The resource id of a new, empty container."""
    name = f"dead-{uuid.uuid4()}"
    with azurite.blobs(**options) as client:
        client.create_container(name)
    return container_id(ACCOUNT, name)


def new_queue(azurite: "Azurite", ttl_s: int = 60, **options: Any) -> StorageQueue:
    """A new, empty queue, as a destination."""
    name = f"orders-{uuid.uuid4()}"
    with azurite.queues(**options) as client:
        client.create_queue(name)
    return StorageQueue(account=ACCOUNT, queue=name, ttl_s=ttl_s)
