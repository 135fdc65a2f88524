"""The vault of a server: blob containers are reached by their connection, all else is in directories.

Dead letters of a blob container that nobody has connected are kept in the directory `<account>/<container>`: a server
that was told of no Azure at all, as on a laptop, loses none of them.
"""

from collections.abc import Awaitable, Callable

from recapito.domain.resource_id import ResourceId, parse_resource_id
from recapito.vault import Vault


class RoutingVault:
    """Hands each write to the vault that has the container."""

    def __init__(self, directories: Vault, blobs: Vault, connected: Callable[[ResourceId], Awaitable[bool]]) -> None:
        self._directories = directories
        self._blobs = blobs
        self._connected = connected

    def __repr__(self) -> str:
        return f"<RoutingVault to {self._directories} and {self._blobs}>"

    async def write(self, container: str, path: str, content: bytes) -> None:
        """Write one file durably. Raises VaultUnavailable."""
        if not container.startswith("/"):
            await self._directories.write(container, path, content)
            return
        place = parse_resource_id(container)
        if await self._connected(place):
            await self._blobs.write(container, path, content)
        else:
            await self._directories.write(f"{place.top.name}/{place.name}", path, content)
