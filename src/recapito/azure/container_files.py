"""Whole files in a folder of a blob container, sent and fetched in blocks: the way of a backup.

A file appears under its name when its last block is stored, and replaces no other. A block that fails for a cause that
may pass is sent again a few times. Memory holds one block.
"""

import asyncio
import re
import time
from base64 import b64encode
from collections.abc import Awaitable, Callable, Sequence
from io import BytesIO
from pathlib import Path
from typing import TypeVar

from azure.core import MatchConditions
from azure.storage.blob import BlobBlock
from azure.storage.blob.aio import BlobClient, ContainerClient

from recapito.azure.storage import StorageOpener
from recapito.domain import limits
from recapito.domain.connections.connection import AzureService, Connection
from recapito.domain.connections.container_folder import ContainerFolder
from recapito.domain.delivery.outcome import Outcome, Result
from recapito.domain.instant import SECOND
from recapito.errors import SettingsError

T = TypeVar("T")
Progress = Callable[[str], None]
_PAUSES_S = (1, 2, 4, 8)
_BLOCKS_A_LINE = 16
_WAIT_S = limits.BLOB_BLOCK_WAIT_NS / SECOND
_SHOWN_CODE = re.compile(r" \([0-9]{3}[^()]*\)$")
_LASTING = {
    Result.UNAUTHORIZED: "the key, signature or identity is not accepted or has ended, or this machine's clock is off",
    Result.FORBIDDEN: "the key, signature or identity is wrong or may not do this (a backup needs the permissions "
    "create, write and list, a restore read and list), or the account's firewall keeps this machine out",
    Result.NOT_FOUND: "the container does not exist: create it",
    Result.DISABLED: "the account or the container is disabled: enable it",
    Result.BAD_REQUEST: "the service does not take the request",
}
_UNKNOWN = "the service failed, or what answers is no Azure Storage"


class ContainerFiles:
    """The files of one folder. Every verb raises SettingsError, which names the URL and no secret.

    pauses_s: between the tries of one block.
    """

    def __init__(
        self,
        opener: StorageOpener,
        folder: ContainerFolder,
        connection: Connection,
        pauses_s: Sequence[float] = _PAUSES_S,
    ) -> None:
        client = opener.open(AzureService.BLOB, connection, folder.container)
        assert isinstance(client, ContainerClient)
        self._client = client
        self._outcome_of = opener.outcome_of
        self._folder = folder
        self._pauses_s = pauses_s

    def __repr__(self) -> str:
        return f"<ContainerFiles of {self.url}>"

    @property
    def url(self) -> str:
        """The URL of the folder, without a signature."""
        return self._folder.url

    async def check_empty(self) -> None:
        """Refuse a folder that has a blob."""
        found = await self._ask(lambda: self._first(self._folder.path_of("")), ())
        if found:
            raise SettingsError(
                f"{self.url} is not empty ({found}): choose another folder, or remove what a backup that broke "
                "off has left there."
            )

    async def put(self, source: Path, file: str, progress: Progress) -> None:
        """Store a file under a name that is free."""
        blob, total = self._blob(file), (await asyncio.to_thread(source.stat)).st_size
        size = max(limits.BLOB_BLOCK_BYTES, -(-total // limits.BLOB_BLOCKS))
        blocks: list[BlobBlock] = []
        progress(f"sending {file}: {total} bytes")
        with source.open("rb") as stream:
            while block := await asyncio.to_thread(stream.read, size):
                blocks.append(BlobBlock(b64encode(b"%08d" % len(blocks)).decode()))
                await self._send(blob, blocks[-1].id, block)
                _tell(progress, f"sent {file}", len(blocks), stream.tell(), total)
        await self._ask(
            lambda: blob.commit_block_list(blocks, match_condition=MatchConditions.IfMissing), self._pauses_s
        )

    async def get(self, file: str, target: Path, progress: Progress) -> None:
        """Fetch a file that is there."""
        blob = self._blob(file)
        if not await self._ask(lambda: self._has(file), self._pauses_s):
            raise SettingsError(f"{self.url} is no complete backup: {file} is missing. Use another backup.")
        total = (await self._ask(blob.get_blob_properties, self._pauses_s)).size
        progress(f"fetching {file}: {total} bytes")
        blocks = 0
        with target.open("xb") as stream:
            while stream.tell() < total:
                wanted = min(limits.BLOB_BLOCK_BYTES, total - stream.tell())
                block = await self._fetch(blob, stream.tell(), wanted)
                if len(block) != wanted:
                    raise SettingsError(f"{self.url}: {file} changed while it was fetched. Try again.")
                await asyncio.to_thread(stream.write, block)
                blocks += 1
                _tell(progress, f"fetched {file}", blocks, stream.tell(), total)

    def _blob(self, file: str) -> BlobClient:
        return self._client.get_blob_client(self._folder.path_of(file))

    async def _send(self, blob: BlobClient, id: str, block: bytes) -> None:
        # From a stream: aiohttp would block the event loop with a megabyte at once.
        await self._ask(lambda: blob.stage_block(id, BytesIO(block), len(block)), self._pauses_s)

    async def _fetch(self, blob: BlobClient, start: int, length: int) -> bytes:
        async def get() -> bytes:
            return await (await blob.download_blob(start, length)).readall()

        return await self._ask(get, self._pauses_s)

    async def _has(self, file: str) -> bool:
        """Whether a file is there. A listing tells a container that is missing from a file that is."""
        name = self._folder.path_of(file)
        return await self._first(name) == name

    async def _first(self, prefix: str) -> str | None:
        async for name in self._client.list_blob_names(name_starts_with=prefix):
            return name
        return None

    async def _ask(self, request: Callable[[], Awaitable[T]], pauses_s: Sequence[float]) -> T:
        """Make a request, and again after each pause if its failure may pass."""
        for pause_s in (*pauses_s, None):
            try:
                async with asyncio.timeout(_WAIT_S):
                    return await request()
            except TimeoutError:
                outcome = Outcome(Result.TIMED_OUT, detail=f"no answer within {_WAIT_S:g} s")
            except Exception as error:  # Microsoft's libraries promise no closed set
                outcome = self._outcome_of(error, self._folder.resource, time.time_ns())
            if pause_s is None or not _may_pass(outcome):
                raise SettingsError(f"{self.url}: {self._reason(outcome)}.")
            await asyncio.sleep(pause_s)
        raise AssertionError("the last try returns or raises")

    def _reason(self, outcome: Outcome) -> str:
        """The cause in words for this command: an outcome's own name subscriptions and stored connections."""
        code = _SHOWN_CODE.search(outcome.detail)
        if outcome.status in (409, 412):
            return (
                "a file is there meanwhile, of another backup or after an answer that was lost: choose another folder"
            )
        if outcome.result in _LASTING or (outcome.result is Result.GENERIC_ERROR and code):
            return _LASTING.get(outcome.result, _UNKNOWN) + (code[0] if code else "")
        return outcome.detail.removeprefix(f"{self._folder.container} of storage account {self._folder.account}: ")


def _may_pass(outcome: Outcome) -> bool:
    status = outcome.status
    return outcome.result not in _LASTING and (status is None or status in (408, 429) or status >= 500)


def _tell(progress: Progress, what: str, blocks: int, done: int, total: int) -> None:
    if blocks % _BLOCKS_A_LINE == 0:
        progress(f"{what}: {done} of {total} bytes")
