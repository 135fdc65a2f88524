"""The keyring: a server's connections, each a sealed document of the registry. What is in it is never shown again.

Intake writes it; dispatch, which may be another process, finds in it how to reach what a subscription names.
"""

from typing import NamedTuple

import msgspec

from recapito.domain.connection import Connection, Service, check_unexpired
from recapito.domain.connection_form import azurite
from recapito.domain.resource_id import STORAGE_ACCOUNT, parse_resource_id
from recapito.errors import NotFound, SettingsError
from recapito.keys.seal import Seal
from recapito.store import Registry

KIND = "connection"
PAGE = 100
_decode = msgspec.json.Decoder(Connection).decode


class Listed(NamedTuple):
    """A connection without its secret; `problem` says why it can not be used, if that is known."""

    resource_id: str
    kind: str
    endpoints: dict[Service, str]
    expires_at: int | None
    problem: str | None = None


class Keyring:
    """Keeps connections by resource id, without regard to case.

    With `azurite`, storage that has no connection of its own is an Azurite on this machine.
    """

    def __init__(self, registry: Registry, seal: Seal, azurite: bool = False) -> None:
        self._registry = registry
        self._seal = seal
        self._azurite = azurite

    async def set(self, connection: Connection, now: int) -> None:
        """Keep a connection, in the place of any that was there. InvalidInput if it has ended already."""
        check_unexpired(connection, now)
        sealed = self._seal.close(msgspec.json.encode(connection), connection.key)
        await self._registry.put_document(KIND, connection.key, sealed)

    async def get(self, resource_id: str) -> Connection | None:
        """The connection of exactly this resource. SettingsError if it can not be opened."""
        sealed = await self._registry.document(KIND, resource_id.lower())
        return None if sealed is None else _decode(self._seal.open(sealed, resource_id.lower()))

    async def find(self, resource_id: str) -> Connection | None:
        """The connection to use for a resource: its own, or that of the account it is a part of."""
        top = parse_resource_id(resource_id).top
        found = await self.get(resource_id) or await self.get(top.text)
        if found is None and self._azurite and top.kind == STORAGE_ACCOUNT:
            return azurite(top.text)
        return found

    async def list(self) -> list[Listed]:
        """All connections in the order of their ids, without their secrets."""
        listed: list[Listed] = []
        after = ""
        while page := await self._registry.documents(KIND, after, PAGE):
            listed += [self._list(document.key, document.content) for document in page]
            after = page[-1].key
        return listed

    async def remove(self, resource_id: str) -> None:
        """Forget a connection. NotFound if there is none."""
        if not await self._registry.delete_document(KIND, resource_id.lower()):
            raise NotFound("ResourceNotFound", f"There is no connection for {resource_id}.")

    def _list(self, key: str, sealed: bytes) -> Listed:
        try:
            connection = _decode(self._seal.open(sealed, key))
        except SettingsError as error:
            return Listed(key, "unknown", {}, None, str(error))
        return Listed(connection.resource_id, connection.kind, connection.endpoints, connection.expires_at)
