"""The storage service behind the front: connections to it, and questions about single blobs."""

import asyncio
import ssl
from asyncio import StreamReader, StreamWriter
from collections.abc import Awaitable, Callable
from email.utils import formatdate, parsedate_to_datetime
from urllib.parse import urlsplit

from recapito.api.blob_front.head import WrongHead, read_answer
from recapito.api.blob_front.passing import take_head
from recapito.clock import Clock
from recapito.domain import limits
from recapito.domain.instant import SECOND
from recapito.domain.storage.blob_change import BlobChange
from recapito.domain.storage.blob_event import BlobFacts
from recapito.domain.storage.shared_key import sign_head

CONNECT_S = 5.0


class StorageService:
    """An Azurite at `url`.

    key_of: the key of a storage account by its name; None if it is not known.
    wall: real time, by which requests are signed.
    """

    def __init__(
        self, url: str, key_of: Callable[[str], Awaitable[str | None]], wall: Clock, trust: ssl.SSLContext | None
    ) -> None:
        self.url = url
        parts = urlsplit(url)
        self._host, self._port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
        self._tls = trust if parts.scheme == "https" else None
        self._key_of = key_of
        self._wall = wall

    async def connect(self) -> tuple[StreamReader, StreamWriter]:
        """A new connection. OSError if there is none within a few seconds."""
        async with asyncio.timeout(CONNECT_S):
            return await asyncio.open_connection(self._host, self._port, ssl=self._tls, limit=limits.FRONT_HEAD_BYTES)

    async def check(self, account: str) -> None:
        """Raise OSError if `look` could never ask about a blob of this account."""
        await self._key(account)

    async def _key(self, account: str) -> str:
        key = await self._key_of(account)
        if key is None:
            raise OSError(f"no connection has the key of the storage account {account}")
        return key

    async def look(self, change: BlobChange) -> BlobFacts | None:
        """The facts of the blob of a change; None if it is not there. OSError if the service cannot be asked."""
        key = await self._key(change.account)
        date = formatdate(self._wall.now() / SECOND, usegmt=True)
        headers = {"Host": change.host, "Connection": "close", **sign_head(change.account, key, change.path, date)}
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        reader, writer = await self.connect()
        try:
            writer.write(f"HEAD {change.path} HTTP/1.1\r\n{lines}\r\n".encode())
            raw = await take_head(reader)
            if raw is None:
                raise OSError("the storage service hung up")
            answer = read_answer(raw, "HEAD")
        except WrongHead as error:
            raise OSError(f"the storage service answered {error}") from None
        finally:
            writer.close()
        if answer.status == 404:
            return None
        if answer.status != 200:
            reason = answer.headers.get("x-ms-error-code", "")
            raise OSError(f"the storage service answered {answer.status} {reason} to a question about a blob")
        try:
            changed, answered = (_time(answer.headers[name]) for name in ("last-modified", "date"))
            return BlobFacts(
                answer.headers.get("content-type", ""),
                int(answer.headers.get("content-length", "0")),
                answer.headers.get("x-ms-blob-type", ""),
                answer.headers.get("etag", ""),
                self._wall.now() // SECOND - (answered - changed),  # the service's clock may be another one
            )
        except (KeyError, ValueError) as error:
            raise OSError(f"the storage service answered without a valid length or date: {error}") from None


def _time(text: str) -> int:
    return int(parsedate_to_datetime(text).timestamp())
