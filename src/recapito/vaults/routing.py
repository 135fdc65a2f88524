"""The vault of a server: blob containers are reached by their connection, all else is in directories.

A subscription to a blob container without a connection is refused. If the connection is removed later, dead letters are
kept in the directory `<account>/<container>`: none is lost.
"""

from collections.abc import Awaitable, Callable

from recapito.contracts.vault import Receipt, Vault
from recapito.domain.resources.resource_id import ResourceId, parse_resource_id


class RoutingVault:
    """Passes each file to the vault that has the container."""

    def __init__(self, directories: Vault, blobs: Vault, connected: Callable[[ResourceId], Awaitable[bool]]) -> None:
        self._directories = directories
        self._blobs = blobs
        self._connected = connected

    def __repr__(self) -> str:
        return f"<RoutingVault to {self._directories} and {self._blobs}>"

    async def write(self, container: str, path: str, content: bytes) -> Receipt | None:
        if not container.startswith("/"):
            return await self._directories.write(container, path, content)
        place = parse_resource_id(container)
        if await self._connected(place):
            return await self._blobs.write(container, path, content)
        return await self._directories.write(_directory(place), path, content)

    async def folders(self, container: str) -> frozenset[str]:
        """Folders, those from before the container was connected included."""
        if not container.startswith("/"):
            return await self._directories.folders(container)
        place = parse_resource_id(container)
        found = await self._directories.folders(_directory(place))
        if await self._connected(place):
            found |= await self._blobs.folders(container)
        return found

    async def paths(self, container: str, prefix: str, after: str, limit: int) -> list[str]:
        """Paths in order, those from before the container was connected included."""
        if not container.startswith("/"):
            return await self._directories.paths(container, prefix, after, limit)
        place = parse_resource_id(container)
        found = await self._directories.paths(_directory(place), prefix, after, limit)
        if await self._connected(place):
            found += await self._blobs.paths(container, prefix, after, limit)
        return sorted(set(found))[:limit]

    async def read(self, container: str, path: str) -> bytes | None:
        """One file, in either vault."""
        if not container.startswith("/"):
            return await self._directories.read(container, path)
        place = parse_resource_id(container)
        found = await self._directories.read(_directory(place), path)
        if found is None and await self._connected(place):
            return await self._blobs.read(container, path)
        return found

    async def delete(self, container: str, path: str) -> None:
        """Remove one file, in either vault."""
        if not container.startswith("/"):
            await self._directories.delete(container, path)
            return
        place = parse_resource_id(container)
        await self._directories.delete(_directory(place), path)
        if await self._connected(place):
            await self._blobs.delete(container, path)


def _directory(place: ResourceId) -> str:
    return f"{place.top.name}/{place.name}"
