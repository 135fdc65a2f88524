"""Reach: a client for every resource that a connection leads to, and whatever comes of using it as an Outcome.

Microsoft's libraries are loaded when the first is needed, beside the work. All clients share one HTTP session, so a
connection that has changed only means another client object; and nothing of a connection's secret leaves through here.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, NamedTuple

from recapito.azure.find_connection import Find, blame, look_up
from recapito.azure.name_service import NameService
from recapito.domain import limits
from recapito.domain.access.egress import Egress
from recapito.domain.connections.connection import Connection, Service
from recapito.domain.delivery.outcome import Outcome, answered
from recapito.domain.instant import SECOND
from recapito.domain.resources.resource_id import ResourceId
from recapito.errors import SettingsError, StoreFailed

if TYPE_CHECKING:
    from azure.core.credentials_async import AsyncTokenCredential
    from azure.storage.blob.aio import ContainerClient
    from azure.storage.queue.aio import QueueClient

    from recapito.azure.storage import Storage

DONE = answered(200)


class _Known(NamedTuple):
    connection: Connection
    client: "ContainerClient | QueueClient"
    until: float


class StorageClients:
    """Leads to containers and queues. Every dial is judged by `egress`.

    `credential` makes a default credential; `now` tells real time, which signatures end by.
    """

    def __init__(
        self,
        find: Find,
        names: NameService,
        egress: Egress,
        ca_file: str | None = None,
        credential: "Callable[[], AsyncTokenCredential] | None" = None,
        now: Callable[[], int] = time.time_ns,
    ) -> None:
        self._find = find
        self._names = names
        self._egress = egress
        self._ca_file = ca_file
        self._credential = credential
        self._now = now
        self._storage: Storage | None = None
        self._loading = asyncio.Lock()
        self._known: OrderedDict[tuple[Service, str], _Known] = OrderedDict()

    def __repr__(self) -> str:
        return f"<Reach to {len(self._known)} resources>"

    async def use_container(
        self, container: ResourceId, use: "Callable[[ContainerClient], Awaitable[object]]"
    ) -> Outcome:
        """Do something with a blob container: what came of it."""
        return await self._use(Service.BLOB, container, use)  # type: ignore[arg-type] # the service says which client

    async def use_queue(self, queue: ResourceId, use: "Callable[[QueueClient], Awaitable[object]]") -> Outcome:
        """Do something with a queue: what came of it."""
        return await self._use(Service.QUEUE, queue, use)  # type: ignore[arg-type] # the service says which client

    async def leads_to(self, resource: ResourceId) -> bool:
        """Whether somebody has said how a resource is reached, be that of use or not."""
        try:
            return await self._find(resource.text) is not None
        except (SettingsError, StoreFailed):
            return True

    async def close(self) -> None:
        """Let go of all connections."""
        self._known.clear()
        if self._storage is not None:
            await self._storage.close()

    async def _use(
        self,
        service: Service,
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
            return blame(self._storage.outcome_of(error, resource, self._now()), known.connection, self._now())
        return DONE

    async def _look_up(self, service: Service, resource: ResourceId) -> "_Known | Outcome":
        key = service, resource.key
        known = self._known.get(key)
        now = asyncio.get_running_loop().time()
        if known is not None and now < known.until:
            return known
        connection = await look_up(self._find, service, resource)
        if isinstance(connection, Outcome):
            return connection
        same = known is not None and known.connection == connection
        client = known.client if known is not None and same else await self._open(service, connection, resource)
        found = self._known[key] = _Known(connection, client, now + limits.CONNECTION_KNOWN_NS / SECOND)
        self._known.move_to_end(key)
        if len(self._known) > limits.ROUTES:
            self._known.popitem(last=False)
        return found

    async def _open(
        self, service: Service, connection: Connection, resource: ResourceId
    ) -> "ContainerClient | QueueClient":
        async with self._loading:
            if self._storage is None:
                self._storage = await self._load()
        return self._storage.open(service, connection, resource.name)

    async def _load(self) -> "Storage":
        def load() -> "type[Storage]":
            from recapito.azure.storage import Storage

            return Storage

        storage = await asyncio.to_thread(load)
        return storage(self._names, self._egress, self._ca_file, self._credential)
