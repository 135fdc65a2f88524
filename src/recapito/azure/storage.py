"""Microsoft's clients for blobs and queues, all on one guarded session. Loaded only where there is a connection.

They neither retry nor follow redirects nor wait by themselves: the lanes and the dead-letter writer do.

Our own resolver looks up names, and each address is judged at the moment of dialling: neither a name that changes after
its lookup, nor a redirect, nor an address in the URL itself can bypass the egress rules.
"""

import asyncio
import errno
import socket
import ssl
from typing import Any, assert_never

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from azure.core.credentials_async import AsyncTokenCredential
from azure.core.pipeline.transport import AioHttpTransport
from azure.storage.blob.aio import ContainerClient
from azure.storage.queue.aio import QueueClient

from recapito.azure import storage_faults
from recapito.azure.access import AzureAccess, NameService, OwnCredential, resolve
from recapito.domain import limits
from recapito.domain.access.egress import Egress, judge
from recapito.domain.connections.connection import (
    AccountKey,
    AzureService,
    Connection,
    Credential,
    DefaultCredential,
    FunctionKey,
    PolicyKey,
    SharedAccess,
    TopicKey,
    TopicToken,
)
from recapito.domain.delivery.outcome import Outcome
from recapito.domain.instant import SECOND
from recapito.domain.resources.resource_id import ResourceId

AddressInfo = tuple[int | socket.AddressFamily, int | socket.SocketKind, int, str, tuple[object, ...]]


class StorageOpener:
    """Opens clients. They own nothing: the session and the server's own credential are closed here."""

    def __init__(self, access: AzureAccess) -> None:
        self._session = open_session(access.names, access.egress, access.ca_file)
        self._own = OwnCredential(access.credential)

    def open(self, service: AzureService, connection: Connection, name: str) -> ContainerClient | QueueClient:
        url = connection.endpoints[service]
        options = self._options(connection.credential)
        if service is AzureService.BLOB:
            return ContainerClient(url, name, **options)
        return QueueClient(url, name, **options)

    def outcome_of(self, error: Exception, resource: ResourceId, now: int) -> Outcome:
        return storage_faults.outcome_of(error, resource, now)

    async def close(self) -> None:
        """Close every connection."""
        await self._own.close()
        await self._session.close()
        await asyncio.sleep(0)  # aiohttp's transports end at the loop's next turn

    def _options(self, credential: Credential) -> dict[str, Any]:
        return {
            "credential": self._sdk_credential(credential),
            "transport": _transport(self._session),
            "retry_total": 0,
            "permit_redirects": False,
        }

    def _sdk_credential(self, credential: Credential) -> dict[str, str] | str | AsyncTokenCredential:
        match credential:
            case AccountKey(account, key):
                return {"account_name": account, "account_key": key}
            case SharedAccess(token):
                return token
            case DefaultCredential():
                return self._own.get()
            case FunctionKey() | PolicyKey() | TopicKey() | TopicToken():
                raise TypeError("not a credential of a storage account")
        assert_never(credential)


def _transport(session: aiohttp.ClientSession) -> AioHttpTransport:
    connect_s = limits.CONNECT_WAIT_NS / SECOND
    return AioHttpTransport(
        session=session, session_owner=False, use_env_settings=False, connection_timeout=connect_s, read_timeout=None
    )


class GuardedResolver(AbstractResolver):
    """Resolves names for aiohttp by a name service that answers in bounded time."""

    def __init__(self, names: NameService) -> None:
        self._names = names

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """The addresses of a host. OSError if it has none."""
        resolved = await resolve(self._names, host)
        if not resolved.addresses:
            raise OSError(errno.EHOSTUNREACH, resolved.problem)
        return [_result(host, port, address) for address in resolved.addresses]

    async def close(self) -> None:
        """The name service is its owner's to close."""


def open_session(names: NameService, egress: Egress, ca_file: str | None) -> aiohttp.ClientSession:
    """A session of aiohttp that judges every connection. It keeps no cookies; lanes bound the number of connections."""

    def make_socket(info: AddressInfo) -> socket.socket:
        address = str(info[4][0])
        reason = judge(address, egress)
        if reason is not None:
            raise OSError(errno.EACCES, f"egress refused {address}: {reason}")
        dialled = socket.socket(info[0], info[1], info[2])
        dialled.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        return dialled

    connector = aiohttp.TCPConnector(
        resolver=GuardedResolver(names),
        use_dns_cache=False,
        limit=0,
        keepalive_timeout=limits.CONNECTION_IDLE_NS / SECOND,
        socket_factory=make_socket,
        ssl=ssl.create_default_context(cafile=ca_file),
    )
    return aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=False)


def _result(host: str, port: int, address: str) -> ResolveResult:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    return ResolveResult(hostname=host, host=address, port=port, family=family, proto=0, flags=socket.AI_NUMERICHOST)
