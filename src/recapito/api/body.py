"""Reading request bodies: bounded in the bytes of one body, in the bytes of all open bodies, and in time."""

import asyncio
from collections.abc import Mapping
from typing import NoReturn

from starlette.types import Receive

from recapito.api.errors import TooMuch, TooSlow, UnsupportedMedia
from recapito.domain import limits
from recapito.domain.instant import SECOND
from recapito.errors import Busy, TooLarge


class ClientGone(Exception):
    """The client hung up before the body was complete, so there is no one to answer."""


class BodyReader:
    """Reads bodies, and counts the bytes of incomplete ones."""

    def __init__(self) -> None:
        self._incomplete = 0

    async def read(self, headers: Mapping[bytes, bytes], receive: Receive, limit: int) -> bytes:
        """The whole body. The announced length is checked before anything is read."""
        check_headers(headers, limit)
        try:
            # Wall time, not the service's clock: this guards a connection, and is no rule of delivery.
            async with asyncio.timeout(limits.READING_NS / SECOND):
                first, more = await _next(receive)
                if not more and len(first) <= limit:
                    return first
                body, more = await self._read_on(first, more, receive, limit)
                if len(body) > limit:
                    await _skip(more, receive, limit)
        except TimeoutError:
            raise TooSlow("RequestTimeout", "The request body did not arrive in time.") from None
        return bytes(body)

    async def _read_on(self, first: bytes, more: bool, receive: Receive, limit: int) -> tuple[bytearray, bool]:
        """The body, or its beginning if that is over the limit already, and whether more follows."""
        body = bytearray(first)
        counted = 0
        try:
            while more and len(body) <= limit:
                self._incomplete += len(body) - counted
                counted = len(body)
                if self._incomplete > limits.READING_BYTES:
                    raise Busy("Too many request bodies are being received. Try again.")
                chunk, more = await _next(receive)
                body += chunk
        finally:
            self._incomplete -= counted
        return body, more


def check_headers(headers: Mapping[bytes, bytes], limit: int) -> None:
    """Refuse compressed bodies, and bodies that announce more than the limit."""
    encoding = headers.get(b"content-encoding", b"identity").strip().lower()
    if encoding not in (b"identity", b""):
        raise UnsupportedMedia("UnsupportedMediaType", "Content-Encoding is not supported. Send the body uncompressed.")
    announced = headers.get(b"content-length", b"")
    length = int(announced[:20]) if announced.isdigit() else 0
    if length > limit:
        raise _too_large(limit, TooMuch if length > limits.SKIPPED_BYTES else TooLarge)


async def _skip(more: bool, receive: Receive, limit: int) -> NoReturn:
    """Refuse a body that is too large, after reading its rest: a client whose connection breaks sees no answer."""
    skipped = 0
    while more and skipped <= limits.SKIPPED_BYTES:
        chunk, more = await _next(receive)
        skipped += len(chunk)
    raise _too_large(limit, TooMuch if more else TooLarge)


async def _next(receive: Receive) -> tuple[bytes, bool]:
    message = await receive()
    if message["type"] == "http.disconnect":
        raise ClientGone
    return message.get("body", b""), message.get("more_body", False)


def _too_large(limit: int, kind: type[TooLarge]) -> TooLarge:
    return kind("RequestEntityTooLarge", f"The request body is larger than {limit} bytes.")
