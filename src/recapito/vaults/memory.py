"""A vault in memory: the reference model. It can be told to be down, or to lack a container."""

from recapito.vault import VaultUnavailable


class MemoryVault:
    """Keeps what is written in `files`, by container and path."""

    def __init__(self) -> None:
        self.files: dict[tuple[str, str], bytes] = {}
        self.down = False
        self.missing: set[str] = set()

    async def write(self, container: str, path: str, content: bytes) -> None:
        """Write one file. Raises VaultUnavailable."""
        if self.down:
            raise VaultUnavailable("The vault is down.")
        if container in self.missing:
            raise VaultUnavailable(f"The vault has no container {container}.", missing=True)
        self.files[container, path] = content
