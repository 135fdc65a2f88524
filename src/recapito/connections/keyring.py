"""The keyring: a server's connections, each a sealed document of the registry. What is in it is never shown again.

Intake writes it; dispatch, which may be another process, finds in it how to reach what a subscription names.
"""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from recapito.connections.encryption import SecretBox
from recapito.contracts.registry import Registry
from recapito.domain.connections.connection import Connection, Service, check_unexpired
from recapito.domain.connections.parse_storage import azurite
from recapito.domain.resources.resource_id import STORAGE_ACCOUNT, parse_resource_id
from recapito.errors import Conflict, NotFound, SettingsError

KIND = "connection"
PAGE = 100
_decode = msgspec.json.Decoder(Connection).decode


class Listed(NamedTuple):
    """A connection without its secret; `problem` says why it can not be used, if that is known.

    `given` says whether it comes from the settings.
    """

    resource_id: str
    kind: str
    endpoints: dict[Service, str]
    expires_at: int | None
    problem: str | None = None
    given: bool = False


class Keyring:
    """Keeps connections by resource id, without regard to case.

    Those that are `given` by the settings are not kept, and can not be set. With `azurite`, storage that has no
    connection of its own is an Azurite on this machine.
    """

    def __init__(
        self,
        registry: Registry,
        secret_box: SecretBox,
        azurite: bool = False,
        given: Mapping[str, Connection] | None = None,
    ) -> None:
        self._registry = registry
        self._secret_box = secret_box
        self._azurite = azurite
        self._given = given or {}

    async def set(self, connection: Connection, now: int) -> None:
        """Keep a connection, in the place of any that was there. InvalidInput if it has ended already."""
        self._check_not_given(connection.key)
        check_unexpired(connection, now)
        try:
            sealed = self._secret_box.close(msgspec.json.encode(connection), connection.key)
        except SettingsError as error:
            raise Conflict("ConnectionNotSealed", f"It can not be kept. {error}", "connection") from None
        await self._registry.put_document(KIND, connection.key, sealed)

    async def get(self, resource_id: str) -> Connection | None:
        """The connection of exactly this resource. SettingsError if it can not be opened."""
        if resource_id.lower() in self._given:
            return self._given[resource_id.lower()]
        sealed = await self._registry.document(KIND, resource_id.lower())
        return None if sealed is None else _decode(self._secret_box.open(sealed, resource_id.lower()))

    async def find(self, resource_id: str) -> Connection | None:
        """The connection to use for a resource: its own, or that of the account it is a part of."""
        top = parse_resource_id(resource_id).top
        found = await self.get(resource_id) or await self.get(top.text)
        if found is None and self._azurite and top.kind == STORAGE_ACCOUNT:
            return azurite(top.text)
        return found

    async def list(self) -> list[Listed]:
        """All connections in the order of their ids, without their secrets."""
        listed = {key: _listed(connection, given=True) for key, connection in self._given.items()}
        after = ""
        while page := await self._registry.documents(KIND, after, PAGE):
            for key, sealed in page:
                listed.setdefault(key, self._list(key, sealed))
            after = page[-1].key
        return [listed[key] for key in sorted(listed)]

    async def remove(self, resource_id: str) -> None:
        """Forget a connection. NotFound if there is none."""
        self._check_not_given(resource_id.lower())
        if not await self._registry.delete_document(KIND, resource_id.lower()):
            raise NotFound("ResourceNotFound", f"There is no connection for {resource_id}.")

    def _list(self, key: str, sealed: bytes) -> Listed:
        try:
            connection = _decode(self._secret_box.open(sealed, key))
        except SettingsError as error:
            return Listed(key, "unknown", {}, None, str(error))
        return _listed(connection)

    def _check_not_given(self, key: str) -> None:
        if key in self._given:
            message = "The server's settings say how this is reached (connection.resources): change them instead."
            raise Conflict("ConnectionGiven", message, "resourceId")


def _listed(connection: Connection, given: bool = False) -> Listed:
    return Listed(connection.resource_id, connection.kind, connection.endpoints, connection.expires_at, given=given)
