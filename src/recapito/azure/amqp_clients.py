"""Open AMQP clients of Service Bus and Event Hubs: one for each queue, topic or hub, by its connection.

Our own resolver looks up names and each address is judged; the client dials exactly that address, and TLS verifies the
name. Microsoft's libraries are loaded in a thread when the first client is needed.
"""

import asyncio
import ssl
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol
from urllib.parse import urlsplit

from recapito.azure.access import AzureAccess, OwnCredential, resolve
from recapito.domain import limits
from recapito.domain.access.egress import judge
from recapito.domain.connections.connection import AzureService, Connection, DefaultCredential
from recapito.domain.delivery.broker_message import Message
from recapito.domain.delivery.outcome import Outcome, Result
from recapito.domain.instant import SECOND
from recapito.domain.resources.resource_id import EVENT_HUB, ResourceId
from recapito.extras import MissingExtra, require

if TYPE_CHECKING:
    from azure.core.credentials_async import AsyncTokenCredential


class DialTarget(NamedTuple):
    """The address that a client dials, and the name that it expects there; `tls` is None for an emulator."""

    host: str
    address: str
    port: int
    tls: ssl.SSLContext | None

    @property
    def url(self) -> str:
        """The address in the form that the clients take."""
        return f"sb://[{self.address}]:{self.port}" if ":" in self.address else f"sb://{self.address}:{self.port}"


class AmqpClient(Protocol):
    """An open client of one entity, for one call at a time. It raises the errors of its library."""

    async def open(self) -> None:
        """Connect, authenticate and attach."""

    async def send(self, messages: Sequence[Message]) -> int:
        """Send the first messages that fit into one batch; their number, once the broker has them."""

    async def close(self) -> None:
        """Close the connection."""


class AmqpLibrary(NamedTuple):
    """A loaded library: it makes clients, and turns their errors into Outcomes."""

    client: "Callable[[DialTarget, Connection, AsyncTokenCredential | None, ResourceId], AmqpClient]"
    outcome_of: Callable[[BaseException, ResourceId], Outcome]


class AmqpClients:
    """Opens clients of queues, topics and hubs."""

    def __init__(self, access: AzureAccess) -> None:
        self._access = access
        self._own = OwnCredential(access.credential)
        self._loading = asyncio.Lock()
        self._libraries: dict[bool, AmqpLibrary] = {}
        self._closing: set[asyncio.Task[None]] = set()

    def __repr__(self) -> str:
        return f"<AmqpClients, {len(self._closing)} closing>"

    async def find(self, resource: ResourceId) -> Connection | Outcome:
        """The connection that leads to a resource."""
        return await self._access.connection(AzureService.MESSAGING, resource)

    async def open(self, resource: ResourceId, connection: Connection) -> AmqpClient | Outcome:
        """A client that is ready to send; of several addresses the first that answers."""
        scheme, host, port = _split(connection)
        addresses = await self._addresses(host, resource)
        if isinstance(addresses, Outcome):
            return addresses
        try:
            library = await self._library(resource)
        except MissingExtra as error:
            return Outcome(Result.GENERIC_ERROR, detail=str(error))
        tls = _Pinned.make(host, self._access.ca_file) if scheme == "amqps" else None
        outcome = Outcome(Result.SOCKET_ERROR, detail="")
        for address in addresses:
            target = DialTarget(host, address, port, tls)
            client = library.client(target, connection, self._credential(connection), resource)
            try:
                async with asyncio.timeout(limits.CONNECT_WAIT_NS / SECOND):
                    await client.open()
                return client
            except Exception as error:  # Microsoft's libraries promise no closed set; a failed delivery is an Outcome
                self.dispose(client)
                outcome = self.outcome_of(error, resource, connection)
            except BaseException:
                self.dispose(client)
                raise
            if outcome.result is not Result.SOCKET_ERROR:
                break
        return outcome

    def outcome_of(self, error: BaseException, resource: ResourceId, connection: Connection) -> Outcome:
        """The outcome of an error that a client raised, or of the failure to load its library."""
        library = self._libraries.get(_is_hub(resource))
        if library is None:
            name = type(error).__name__
            return Outcome(
                Result.GENERIC_ERROR, detail=f"{resource.name}: Microsoft's client cannot be loaded ({name})"
            )
        return self._access.blame(library.outcome_of(error, resource), connection)

    def dispose(self, client: AmqpClient) -> None:
        """Close a client in a task of its own, whatever its state, and in bounded time."""

        async def close() -> None:
            try:
                async with asyncio.timeout(limits.BROKER_CLOSE_WAIT_NS / SECOND):
                    await client.close()
            except Exception:  # the remains of a broken connection are of no use
                pass

        task = asyncio.get_running_loop().create_task(close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        """Wait for the clients that are being closed."""
        await asyncio.gather(*self._closing)
        await self._own.close()

    async def _addresses(self, host: str, resource: ResourceId) -> list[str] | Outcome:
        resolved = await resolve(self._access.names, host)
        part = f"{resource.name} of namespace {resource.top.name}"
        if not resolved.addresses:
            return Outcome(Result.RESOLUTION_ERROR, detail=f"{part}: {host}: {resolved.problem}")
        reasons = {address: judge(address, self._access.egress) for address in resolved.addresses}
        allowed = [address for address, reason in reasons.items() if reason is None]
        if not allowed:
            refused = ", ".join(f"{address}: {reason}" for address, reason in reasons.items())
            return Outcome(Result.SOCKET_ERROR, detail=f"{part}: egress refused {refused}")
        return allowed

    async def _library(self, resource: ResourceId) -> AmqpLibrary:
        hub = _is_hub(resource)
        async with self._loading:
            if hub not in self._libraries:
                self._libraries[hub] = await asyncio.to_thread(_load, hub)
        return self._libraries[hub]

    def _credential(self, connection: Connection) -> "AsyncTokenCredential | None":
        return self._own.get() if isinstance(connection.credential, DefaultCredential) else None


class _Pinned(ssl.SSLContext):
    """Verifies the certificate of a name although an address is dialled."""

    host = ""

    @classmethod
    def make(cls, host: str, ca_file: str | None) -> "_Pinned":
        context = cls(ssl.PROTOCOL_TLS_CLIENT)
        if ca_file is None:
            context.load_default_certs()
        else:
            context.load_verify_locations(ca_file)
        context.host = host
        return context

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        return super().wrap_bio(incoming, outgoing, server_side, self.host, session)


def _load(hub: bool) -> AmqpLibrary:
    require("azure", "Event hubs cannot be reached" if hub else "Service Bus cannot be reached")
    from recapito.azure import amqp_faults

    if hub:
        from recapito.azure.event_hubs import EventHubAmqpClient

        return AmqpLibrary(EventHubAmqpClient, amqp_faults.outcome_of)
    from recapito.azure.service_bus import ServiceBusAmqpClient

    return AmqpLibrary(ServiceBusAmqpClient, amqp_faults.outcome_of)


def _is_hub(resource: ResourceId) -> bool:
    return resource.kind == EVENT_HUB


def _split(connection: Connection) -> tuple[str, str, int]:
    url = urlsplit(connection.endpoints[AzureService.MESSAGING])
    assert url.hostname is not None and url.port is not None, "the form of a connection sees to that"
    return url.scheme, url.hostname, url.port
