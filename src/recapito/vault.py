"""The contract of a vault: where dead letters are written."""

from typing import Protocol


class VaultUnavailable(Exception):
    """The write may succeed later. `missing` says that the container does not exist."""

    def __init__(self, message: str, missing: bool = False) -> None:
        super().__init__(message)
        self.missing = missing


class Vault(Protocol):
    """Writes whole files. A repeated write of one path replaces it, so a crash in between duplicates nothing."""

    async def write(self, container: str, path: str, content: bytes) -> None:
        """Write one file durably: when this returns, it is on disk. Raises VaultUnavailable."""
