"""Questions about a blob: the service's answer, reckoned in this server's time."""

import asyncio
from asyncio import StreamReader, StreamWriter

import pytest

from recapito.api.blob_front.storage_service import StorageService
from recapito.clock import ManualClock
from recapito.domain.connections.parse_storage import AZURITE_KEY
from recapito.domain.instant import SECOND
from recapito.domain.storage.blob_event import BlobFacts
from tests.intake.blob_bench import change

NOW_S = 1_900_000_000
MODIFIED = "Sun, 17 Mar 2030 17:46:10 GMT"
DATE = "Sun, 17 Mar 2030 17:46:13 GMT"


def look(*lines: str) -> BlobFacts | None:
    """The facts that an answer with these lines gives."""

    async def main() -> BlobFacts | None:
        async def serve(reader: StreamReader, writer: StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write("\r\n".join((*lines, "", "")).encode())
            writer.close()

        async def key_of(account: str) -> str | None:
            return AZURITE_KEY

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            service = StorageService(f"http://127.0.0.1:{port}", key_of, ManualClock(NOW_S * SECOND), None)
            return await service.look(change())

    return asyncio.run(main())


def test_a_service_with_a_wrong_clock() -> None:
    """A blob of three seconds before the answer is three seconds old, whatever the service's clock says."""
    kind = ("Content-Type: text/plain", "Content-Length: 5", "x-ms-blob-type: BlockBlob", 'ETag: "0x1"')
    facts = look("HTTP/1.1 200 OK", *kind, f"Last-Modified: {MODIFIED}", f"Date: {DATE}")
    assert facts == BlobFacts("text/plain", 5, "BlockBlob", '"0x1"', NOW_S - 3)


def test_a_blob_that_is_not_there() -> None:
    """404 is no blob; another answer is none at all."""
    assert look("HTTP/1.1 404 Not Found") is None
    for lines in (("HTTP/1.1 403 Forbidden",), ("HTTP/1.1 200 OK", "Last-Modified: soon", f"Date: {DATE}"), ("?",), ()):
        with pytest.raises(OSError, match="the storage service"):
            look(*lines)
