"""The vault of a server: a container that has a resource id is one of Azure Storage, any other is a directory."""

from recapito.vault import Vault


class RoutingVault:
    """Hands each write to the vault that has the container."""

    def __init__(self, directories: Vault, blobs: Vault) -> None:
        self._directories = directories
        self._blobs = blobs

    def __repr__(self) -> str:
        return f"<RoutingVault to {self._directories} and {self._blobs}>"

    async def write(self, container: str, path: str, content: bytes) -> None:
        """Write one file durably. Raises VaultUnavailable."""
        vault = self._blobs if container.startswith("/") else self._directories
        await vault.write(container, path, content)
