"""The keyring: a server's connections, each an encrypted document of the registry. Secrets in it are never shown.

Intake writes it; dispatch, which may be another process, reads in it how to reach the resources of subscriptions.
"""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from recapito.connections.encryption import SecretBox
from recapito.contracts.registry import Registry
from recapito.domain.connections.connection import AzureService, Connection, check_unexpired
from recapito.domain.connections.parse_storage import AZURITE_ACCOUNT, azurite
from recapito.domain.resources.resource_id import STORAGE_ACCOUNT, parse_resource_id
from recapito.errors import Conflict, NotFound, SettingsError

KIND = "connection"
PAGE = 100
_decode = msgspec.json.Decoder(Connection).decode


class ListedConnection(NamedTuple):
    """A connection without its secret. `problem` is the reason why it cannot be used, if one is known.

    `given`: the connection comes from the settings.
    """

    resource_id: str
    kind: str
    endpoints: dict[AzureService, str]
    expires_at: int | None
    problem: str | None = None
    given: bool = False


class Keyring:
    """Keeps connections by resource id, without regard to case.

    Connections that are `given` by the settings are not stored and cannot be set. With `azurite`, a storage account
    without a connection of its own is an Azurite on this machine, whose blob service is at `blobs_at` if that is given.
    """

    def __init__(
        self,
        registry: Registry,
        secret_box: SecretBox,
        azurite: bool = False,
        given: Mapping[str, Connection] | None = None,
        blobs_at: str = "",
    ) -> None:
        self._registry = registry
        self.secret_box = secret_box
        self._azurite = azurite
        self._given = given or {}
        self._blobs_at = blobs_at

    async def set(self, connection: Connection, now: int) -> None:
        """Store a connection, in place of any other. InvalidInput if it has expired."""
        self._check_not_given(connection.key)
        check_unexpired(connection, now)
        try:
            encrypted = self.secret_box.encrypt(msgspec.json.encode(connection), connection.key)
        except SettingsError as error:
            raise Conflict("ConnectionNotSealed", f"The connection cannot be stored. {error}", "connection") from None
        await self._registry.put_document(KIND, connection.key, encrypted)

    async def get(self, resource_id: str) -> Connection | None:
        """The connection of exactly this resource. SettingsError if it cannot be decrypted."""
        if resource_id.lower() in self._given:
            return self._given[resource_id.lower()]
        encrypted = await self._registry.document(KIND, resource_id.lower())
        return None if encrypted is None else _decode(self.secret_box.decrypt(encrypted, resource_id.lower()))

    async def find(self, resource_id: str) -> Connection | None:
        """The connection to use for a resource: its own, or that of the account it is a part of."""
        top = parse_resource_id(resource_id).top
        connection = await self.get(resource_id) or await self.get(top.text)
        if connection is None and self._azurite and top.kind == STORAGE_ACCOUNT:
            connection = azurite(top.text)
            blobs = {AzureService.BLOB: f"{self._blobs_at}/{AZURITE_ACCOUNT}"} if self._blobs_at else {}
            return msgspec.structs.replace(connection, endpoints={**connection.endpoints, **blobs})
        return connection

    async def list(self) -> list[ListedConnection]:
        """All connections in the order of their ids, without their secrets."""
        listed = {key: _listed(connection, given=True) for key, connection in self._given.items()}
        after = ""
        while page := await self._registry.documents(KIND, after, PAGE):
            for key, encrypted in page:
                listed.setdefault(key, self._list(key, encrypted))
            after = page[-1].key
        return [listed[key] for key in sorted(listed)]

    async def remove(self, resource_id: str) -> None:
        """Delete a connection. NotFound if there is none."""
        self._check_not_given(resource_id.lower())
        if not await self._registry.delete_document(KIND, resource_id.lower()):
            raise NotFound("ResourceNotFound", f"There is no connection for {resource_id}.")

    def _list(self, key: str, encrypted: bytes) -> ListedConnection:
        try:
            connection = _decode(self.secret_box.decrypt(encrypted, key))
        except SettingsError as error:
            return ListedConnection(key, "unknown", {}, None, str(error))
        return _listed(connection)

    def _check_not_given(self, key: str) -> None:
        if key in self._given:
            message = "This connection comes from the server's settings (connection.resources): change it there."
            raise Conflict("ConnectionGiven", message, "resourceId")


def _listed(connection: Connection, given: bool = False) -> ListedConnection:
    return ListedConnection(
        connection.resource_id, connection.kind, connection.endpoints, connection.expires_at, given=given
    )
