"""A vault in blob containers of Azure Storage. A container is named by its resource id and reached by its connection.

A file is one block blob, written in one request that replaces any older one: a repeated write can neither duplicate nor
tear it, and only the service's answer confirms it. A service that hangs is given up in bounded time.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from io import BytesIO
from typing import TYPE_CHECKING, Any

from recapito.azure.storage_clients import StorageClients
from recapito.contracts.vault import Receipt, VaultUnavailable
from recapito.domain import limits
from recapito.domain.delivery.outcome import Result
from recapito.domain.instant import SECOND
from recapito.domain.resources.resource_id import ResourceId, parse_resource_id
from recapito.errors import InvalidInput

if TYPE_CHECKING:
    from azure.core.pipeline import PipelineRequest
    from azure.storage.blob.aio import ContainerClient


class BlobVault:
    """Keeps blobs. One verb may take `wait_ns` of real time."""

    def __init__(self, storage_clients: StorageClients, wait_ns: int = limits.VAULT_WAIT_NS) -> None:
        self._storage_clients = storage_clients
        self._wait_s = wait_ns / SECOND

    def __repr__(self) -> str:
        return f"<BlobVault by {self._storage_clients}>"

    async def write(self, container: str, path: str, content: bytes) -> Receipt:
        receipts: list[Receipt] = []

        async def put(client: "ContainerClient") -> None:
            blob = client.get_blob_client(path)
            answer = await blob.upload_blob(content, overwrite=True, raw_request_hook=_stream)
            receipts.append(_receipt(blob.url, answer))

        await self._use(container, put)
        if not receipts[0].etag:  # Azure Storage never omits it: another service answered
            place = _parse(container)
            raise VaultUnavailable(
                f"{place.name} of storage account {place.top.name}: what answers does not confirm writes as Azure"
                f" Storage does: is its address right? If not, recapito connection set {place.top.text}"
            )
        return receipts[0]

    async def folders(self, container: str) -> frozenset[str]:
        found: set[str] = set()

        async def look(client: "ContainerClient") -> None:
            async for item in client.walk_blobs():
                name, slash, _ = item.name.partition("/")
                if slash:
                    found.add(name)

        await self._use(container, look)
        return frozenset(found)

    async def paths(self, container: str, prefix: str, after: str, limit: int) -> list[str]:
        found: list[str] = []

        async def look(client: "ContainerClient") -> None:
            async for name in client.list_blob_names(name_starts_with=prefix):
                if name > after:
                    found.append(name)
                if len(found) >= limit:
                    return

        await self._use(container, look)
        return found

    async def read(self, container: str, path: str) -> bytes | None:
        found: list[bytes] = []

        async def get(client: "ContainerClient") -> None:
            with _absent_is_fine():
                found.append(await (await client.download_blob(path)).readall())

        await self._use(container, get)
        return found[0] if found else None

    async def delete(self, container: str, path: str) -> None:

        async def remove(client: "ContainerClient") -> None:
            with _absent_is_fine():
                await client.delete_blob(path)

        await self._use(container, remove)

    async def _use(self, container: str, use: "Callable[[ContainerClient], Awaitable[None]]") -> None:
        place = _parse(container)
        try:
            async with asyncio.timeout(self._wait_s):
                outcome = await self._storage_clients.use_container(place, use)
        except TimeoutError:
            raise VaultUnavailable(
                f"{place.name} of storage account {place.top.name}: no answer within {self._wait_s:g} s"
            ) from None
        if outcome.result is not Result.SUCCESS:
            raise VaultUnavailable(outcome.detail, missing=outcome.result is Result.NOT_FOUND)


@contextmanager
def _absent_is_fine() -> Iterator[None]:
    """A missing blob is no failure; a missing container is."""
    from azure.core.exceptions import ResourceNotFoundError  # loaded by now, with the client

    try:
        yield
    except ResourceNotFoundError as error:
        if getattr(error, "error_code", None) != "BlobNotFound":
            raise


def _stream(request: "PipelineRequest[Any]") -> None:
    """Send the body in pieces: megabytes at once would block the event loop."""
    request.http_request.data = BytesIO(request.http_request.data)


def _receipt(url: str, answer: dict[str, Any]) -> Receipt:
    """The receipt of a blob; the URL has no signature."""
    receipt = [str(answer.get(name) or "") for name in ("etag", "request_id", "client_request_id")]
    return Receipt(url.partition("?")[0], receipt[0].strip('"'), receipt[1], receipt[2])


def _parse(container: str) -> ResourceId:
    try:
        return parse_resource_id(container)
    except InvalidInput as error:
        raise VaultUnavailable(error.message) from None
