"""Clients of blob containers and queues by their connections; the result of each use is an Outcome.

Microsoft's libraries are loaded in a thread when the first client is needed. All clients share one HTTP session, so a
changed connection costs one client object. No Outcome holds a part of a connection's secret.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, NamedTuple

from recapito.azure.access import AzureAccess
from recapito.domain import limits
from recapito.domain.connections.connection import AzureService, Connection
from recapito.domain.delivery.outcome import Outcome, Result, answered
from recapito.domain.instant import SECOND
from recapito.domain.resources.resource_id import ResourceId
from recapito.errors import SettingsError, StoreFailed
from recapito.extras import MissingExtra, require

if TYPE_CHECKING:
    from azure.storage.blob.aio import ContainerClient
    from azure.storage.queue.aio import QueueClient

    from recapito.azure.storage import StorageOpener

DONE = answered(200)


class _KnownClient(NamedTuple):
    connection: Connection
    client: "ContainerClient | QueueClient"
    until: float


class StorageClients:
    """Uses containers and queues. A client is kept while its connection stays the same."""

    def __init__(self, access: AzureAccess) -> None:
        self._access = access
        self._storage: StorageOpener | None = None
        self._loading = asyncio.Lock()
        self._known: OrderedDict[tuple[AzureService, str], _KnownClient] = OrderedDict()

    def __repr__(self) -> str:
        return f"<StorageClients of {len(self._known)} resources>"

    async def use_container(
        self, container: ResourceId, use: "Callable[[ContainerClient], Awaitable[object]]"
    ) -> Outcome:
        """Use a blob container; the outcome of the use."""
        return await self._use(AzureService.BLOB, container, use)  # type: ignore[arg-type] # the service says which client

    async def use_queue(self, queue: ResourceId, use: "Callable[[QueueClient], Awaitable[object]]") -> Outcome:
        """Use a queue; the outcome of the use."""
        return await self._use(AzureService.QUEUE, queue, use)  # type: ignore[arg-type] # the service says which client

    async def leads_to(self, resource: ResourceId) -> bool:
        """Whether a resource has a connection, even one that cannot be used."""
        try:
            return await self._access.find(resource.text) is not None
        except (SettingsError, StoreFailed):
            return True

    async def close(self) -> None:
        """Close all connections."""
        self._known.clear()
        if self._storage is not None:
            await self._storage.close()

    async def _use(
        self,
        service: AzureService,
        resource: ResourceId,
        use: "Callable[[ContainerClient | QueueClient], Awaitable[object]]",
    ) -> Outcome:
        known = await self._look_up(service, resource)
        if isinstance(known, Outcome):
            return known
        assert self._storage is not None
        try:
            await use(known.client)
        except Exception as error:  # Microsoft's libraries promise no closed set; a failed delivery is an Outcome
            self._known.pop((service, resource.key), None)  # the connection may have been set anew
            outcome = self._storage.outcome_of(error, resource, self._access.now())
            return self._access.blame(outcome, known.connection)
        return DONE

    async def _look_up(self, service: AzureService, resource: ResourceId) -> "_KnownClient | Outcome":
        key = service, resource.key
        known = self._known.get(key)
        now = asyncio.get_running_loop().time()
        if known is not None and now < known.until:
            return known
        connection = await self._access.connection(service, resource)
        if isinstance(connection, Outcome):
            return connection
        same = known is not None and known.connection == connection
        try:
            client = known.client if known is not None and same else await self._open(service, connection, resource)
        except MissingExtra as error:
            return Outcome(Result.GENERIC_ERROR, detail=str(error))
        known = self._known[key] = _KnownClient(connection, client, now + limits.CONNECTION_KNOWN_NS / SECOND)
        self._known.move_to_end(key)
        if len(self._known) > limits.ROUTES:
            self._known.popitem(last=False)
        return known

    async def _open(
        self, service: AzureService, connection: Connection, resource: ResourceId
    ) -> "ContainerClient | QueueClient":
        async with self._loading:
            if self._storage is None:
                self._storage = await self._load()
        return self._storage.open(service, connection, resource.name)

    async def _load(self) -> "StorageOpener":
        def load() -> "type[StorageOpener]":
            require("azure", "Blob containers and storage queues cannot be reached")
            from recapito.azure.storage import StorageOpener

            return StorageOpener

        storage = await asyncio.to_thread(load)
        return storage(self._access)
