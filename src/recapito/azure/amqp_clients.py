"""Brokers: an open client for each queue, topic or hub that a connection leads to, over AMQP, guarded.

Names are looked up by our own resolver and each address is judged; the client is given the very address, and TLS still
asks for the name. Microsoft's libraries are loaded when the first is needed, beside the work.
"""

import asyncio
import ssl
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol
from urllib.parse import urlsplit

from recapito.azure.find_connection import Find, blame, look_up
from recapito.azure.name_service import NameService, resolve
from recapito.domain import limits
from recapito.domain.access.egress import Egress, judge
from recapito.domain.connections.connection import Connection, DefaultCredential, Service
from recapito.domain.delivery.broker_message import Message
from recapito.domain.delivery.outcome import Outcome, Result
from recapito.domain.instant import SECOND
from recapito.domain.resources.resource_id import EVENT_HUB, ResourceId

if TYPE_CHECKING:
    from azure.core.credentials_async import AsyncTokenCredential


class DialTarget(NamedTuple):
    """Where a client dials, and whom it expects there; `tls` is None for an emulator, which has none."""

    host: str
    address: str
    port: int
    tls: ssl.SSLContext | None

    @property
    def url(self) -> str:
        """The address as the clients take it."""
        return f"sb://[{self.address}]:{self.port}" if ":" in self.address else f"sb://{self.address}:{self.port}"


class AmqpClient(Protocol):
    """An open client of one entity. It is used for one thing at a time, and raises whatever its library does."""

    async def open(self) -> None:
        """Connect, authenticate and attach."""

    async def send(self, messages: Sequence[Message]) -> int:
        """Send as many of the first as fit into one batch: how many, once the broker has them."""

    async def close(self) -> None:
        """Let go of the connection."""


class Library(NamedTuple):
    """What was loaded for a service: how a courier is made, and what its errors mean."""

    courier: "Callable[[DialTarget, Connection, AsyncTokenCredential | None, ResourceId], AmqpClient]"
    outcome_of: Callable[[BaseException, ResourceId], Outcome]


class AmqpClients:
    """Leads to queues, topics and hubs. Every dial is judged by `egress`.

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
        self._make_credential = credential
        self._own: AsyncTokenCredential | None = None
        self._now = now
        self._loading = asyncio.Lock()
        self._libraries: dict[bool, Library] = {}
        self._closing: set[asyncio.Task[None]] = set()

    def __repr__(self) -> str:
        return f"<Brokers, {len(self._closing)} closing>"

    async def find(self, resource: ResourceId) -> Connection | Outcome:
        """The connection that leads to a resource."""
        return await look_up(self._find, Service.MESSAGING, resource)

    async def open(self, resource: ResourceId, connection: Connection) -> AmqpClient | Outcome:
        """A courier that is ready to send; of several addresses the first that answers."""
        scheme, host, port = _split(connection)
        addresses = await self._addresses(host, resource)
        if isinstance(addresses, Outcome):
            return addresses
        library = await self._library(resource)
        tls = _Pinned.make(host, self._ca_file) if scheme == "amqps" else None
        outcome = Outcome(Result.SOCKET_ERROR, detail="")
        for address in addresses:
            way = DialTarget(host, address, port, tls)
            courier = library.courier(way, connection, self._credential(connection), resource)
            try:
                async with asyncio.timeout(limits.CONNECT_WAIT_NS / SECOND):
                    await courier.open()
                return courier
            except Exception as error:  # Microsoft's libraries promise no closed set; a failed delivery is an Outcome
                self.dispose(courier)
                outcome = self.outcome_of(error, resource, connection)
            except BaseException:
                self.dispose(courier)
                raise
            if outcome.result is not Result.SOCKET_ERROR:
                break
        return outcome

    def outcome_of(self, error: BaseException, resource: ResourceId, connection: Connection) -> Outcome:
        """What an error means that a courier raised, or that there is none."""
        library = self._libraries.get(_is_hub(resource))
        if library is None:
            name = type(error).__name__
            return Outcome(
                Result.GENERIC_ERROR, detail=f"{resource.name}: Microsoft's client can not be loaded ({name})"
            )
        return blame(library.outcome_of(error, resource), connection, self._now())

    def dispose(self, courier: AmqpClient) -> None:
        """Close a courier beside the work, whatever its state, and not for ever."""

        async def close() -> None:
            try:
                async with asyncio.timeout(limits.BROKER_CLOSE_WAIT_NS / SECOND):
                    await courier.close()
            except Exception:  # what is left of a broken connection is of no use to anybody
                pass

        task = asyncio.get_running_loop().create_task(close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        """Wait for what is being closed."""
        await asyncio.gather(*self._closing)
        if self._own is not None:
            await self._own.close()

    async def _addresses(self, host: str, resource: ResourceId) -> list[str] | Outcome:
        resolved = await resolve(self._names, host)
        part = f"{resource.name} of namespace {resource.top.name}"
        if not resolved.addresses:
            return Outcome(Result.RESOLUTION_ERROR, detail=f"{part}: {host}: {resolved.problem}")
        reasons = {address: judge(address, self._egress) for address in resolved.addresses}
        allowed = [address for address, reason in reasons.items() if reason is None]
        if not allowed:
            refused = ", ".join(f"{address}: {reason}" for address, reason in reasons.items())
            return Outcome(Result.SOCKET_ERROR, detail=f"{part}: egress refused {refused}")
        return allowed

    async def _library(self, resource: ResourceId) -> Library:
        hub = _is_hub(resource)
        async with self._loading:
            if hub not in self._libraries:
                self._libraries[hub] = await asyncio.to_thread(_load, hub)
        return self._libraries[hub]

    def _credential(self, connection: Connection) -> "AsyncTokenCredential | None":
        if not isinstance(connection.credential, DefaultCredential):
            return None
        if self._own is None:
            from recapito.azure.credential import default_credential

            self._own = (self._make_credential or default_credential)()
        return self._own


class _Pinned(ssl.SSLContext):
    """Asks for the certificate of a name although an address is dialled."""

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


def _load(hub: bool) -> Library:
    from recapito.azure import amqp_faults

    if hub:
        from recapito.azure.event_hubs import EventHubAmqpClient

        return Library(EventHubAmqpClient, amqp_faults.outcome_of)
    from recapito.azure.service_bus import ServiceBusAmqpClient

    return Library(ServiceBusAmqpClient, amqp_faults.outcome_of)


def _is_hub(resource: ResourceId) -> bool:
    return resource.kind == EVENT_HUB


def _split(connection: Connection) -> tuple[str, str, int]:
    url = urlsplit(connection.endpoints[Service.MESSAGING])
    assert url.hostname is not None and url.port is not None, "the form of a connection sees to that"
    return url.scheme, url.hostname, url.port
