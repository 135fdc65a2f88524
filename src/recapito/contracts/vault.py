"""The contract of a vault, which stores dead letters as files: written, listed, read and deleted."""

from typing import NamedTuple, Protocol


class VaultUnavailable(Exception):
    """The call may succeed later. `missing`: the container does not exist."""

    def __init__(self, message: str, missing: bool = False) -> None:
        super().__init__(message)
        self.missing = missing


class Receipt(NamedTuple):
    """The answer of a storage service about a blob that it stored. The URL has no signature: it grants no access."""

    url: str
    etag: str
    request_id: str
    client_request_id: str


class Vault(Protocol):
    """Keeps whole files. A repeated write of one path replaces it, so a crash in between duplicates nothing.

    Every verb raises VaultUnavailable if the container cannot be reached.
    """

    async def write(self, container: str, path: str, content: bytes) -> Receipt | None:
        """Write one file durably: when this returns, it is on disk. A blob has a receipt."""

    async def folders(self, container: str) -> frozenset[str]:
        """The first parts of the paths, up to the first slash; a folder may be listed that has no file any more."""

    async def paths(self, container: str, prefix: str, after: str, limit: int) -> list[str]:
        """At most `limit` paths under a prefix that ends with a slash, in order, from the first after `after` on."""

    async def read(self, container: str, path: str) -> bytes | None:
        """The content of a file; None if it does not exist."""

    async def delete(self, container: str, path: str) -> None:
        """Remove a file; a file that does not exist counts as removed."""
