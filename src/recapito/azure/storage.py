"""Microsoft's clients for blobs and queues, all on one guarded session. Loaded only where there is a connection.

They neither retry nor follow redirects nor wait by themselves: the lanes and the dead-letter writer do.
"""

import asyncio
from collections.abc import Callable
from typing import Any, assert_never

import aiohttp
from azure.core.credentials_async import AsyncTokenCredential
from azure.core.pipeline.transport import AioHttpTransport
from azure.storage.blob.aio import ContainerClient
from azure.storage.queue.aio import QueueClient

from recapito.azure import storage_faults
from recapito.azure.credential import default_credential
from recapito.azure.guarded_connector import open_session
from recapito.azure.name_service import NameService
from recapito.domain import limits
from recapito.domain.access.egress import Egress
from recapito.domain.connections.connection import (
    AccountKey,
    Connection,
    Credential,
    DefaultCredential,
    FunctionKey,
    PolicyKey,
    Service,
    SharedAccess,
)
from recapito.domain.delivery.outcome import Outcome
from recapito.domain.instant import SECOND
from recapito.domain.resources.resource_id import ResourceId


class Storage:
    """Opens clients. They own nothing: the session and the server's own credential are closed here."""

    def __init__(
        self,
        names: NameService,
        egress: Egress,
        ca_file: str | None,
        credential: Callable[[], AsyncTokenCredential] | None = None,
    ) -> None:
        self._session = open_session(names, egress, ca_file)
        self._make_credential = credential or default_credential
        self._own: AsyncTokenCredential | None = None

    def open(self, service: Service, connection: Connection, name: str) -> ContainerClient | QueueClient:
        """A client for a container or a queue."""
        url = connection.endpoints[service]
        options = self._options(connection.credential)
        if service is Service.BLOB:
            return ContainerClient(url, name, **options)
        return QueueClient(url, name, **options)

    def outcome_of(self, error: Exception, resource: ResourceId, now: int) -> Outcome:
        """What an error that a client raised means."""
        return storage_faults.outcome_of(error, resource, now)

    async def close(self) -> None:
        """Close every connection."""
        if self._own is not None:
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
                if self._own is None:
                    self._own = self._make_credential()
                return self._own
            case FunctionKey() | PolicyKey():
                raise TypeError("not a credential of a storage account")
        assert_never(credential)


def _transport(session: aiohttp.ClientSession) -> AioHttpTransport:
    connect_s = limits.CONNECT_WAIT_NS / SECOND
    return AioHttpTransport(
        session=session, session_owner=False, use_env_settings=False, connection_timeout=connect_s, read_timeout=None
    )
