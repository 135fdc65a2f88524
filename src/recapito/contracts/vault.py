"""The contract of a vault: where dead letters are written, looked for and read again."""

from typing import NamedTuple, Protocol


class VaultUnavailable(Exception):
    """What was asked for may succeed later. `missing` says that the container does not exist."""

    def __init__(self, message: str, missing: bool = False) -> None:
        super().__init__(message)
        self.missing = missing


class Receipt(NamedTuple):
    """What a storage service said of a blob that it has. The URL opens nothing: it has no signature."""

    url: str
    etag: str
    request_id: str
    client_request_id: str


class Vault(Protocol):
    """Keeps whole files. A repeated write of one path replaces it, so a crash in between duplicates nothing.

    Every verb raises VaultUnavailable where the container can not be reached, or not now.
    """

    async def write(self, container: str, path: str, content: bytes) -> Receipt | None:
        """Write one file durably: when this returns, it is on disk. A receipt, where it is a blob."""

    async def folders(self, container: str) -> frozenset[str]:
        """What the paths begin with, up to the first slash; a folder may be left that has no file any more."""

    async def paths(self, container: str, prefix: str, after: str, limit: int) -> list[str]:
        """At most `limit` paths under a prefix that ends with a slash, in their order, from the first after one on."""

    async def read(self, container: str, path: str) -> bytes | None:
        """A whole file; None if it is not there."""

    async def delete(self, container: str, path: str) -> None:
        """Remove a file; one that is not there is removed already."""
