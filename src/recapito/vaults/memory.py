"""A vault in memory: the reference model. A test can make it unavailable, or remove a container."""

from recapito.contracts.vault import Receipt, VaultUnavailable


class MemoryVault:
    """Keeps content in `files`, by container and path."""

    def __init__(self) -> None:
        self.files: dict[tuple[str, str], bytes] = {}
        self.down = False
        self.missing: set[str] = set()

    async def write(self, container: str, path: str, content: bytes) -> Receipt | None:
        self._reach(container)
        self.files[container, path] = content
        if not container.startswith("/"):
            return None
        return Receipt(f"memory:{container}/{path}", f"{len(content):x}", "request", "client")

    async def folders(self, container: str) -> frozenset[str]:
        self._reach(container)
        return frozenset(path.partition("/")[0] for where, path in self.files if where == container and "/" in path)

    async def paths(self, container: str, prefix: str, after: str, limit: int) -> list[str]:
        self._reach(container)
        paths = (path for where, path in self.files if where == container and path.startswith(prefix))
        return sorted(path for path in paths if path > after)[:limit]

    async def read(self, container: str, path: str) -> bytes | None:
        self._reach(container)
        return self.files.get((container, path))

    async def delete(self, container: str, path: str) -> None:
        self._reach(container)
        self.files.pop((container, path), None)

    def _reach(self, container: str) -> None:
        if self.down:
            raise VaultUnavailable("The vault is down.")
        if container in self.missing:
            raise VaultUnavailable(f"The vault has no container {container}.", missing=True)
