"""Bytes from one connection to another, in pieces: whole heads, and bodies of any size."""

import asyncio
from asyncio import StreamReader
from typing import Protocol

from recapito.api.blob_front.head import END, MessageHead, WrongHead
from recapito.domain import limits
from recapito.domain.instant import SECOND

PATIENCE_S = limits.FRONT_SILENCE_NS / SECOND


async def take_head(reader: StreamReader, begun: bytes = b"") -> bytes | None:
    """The bytes of the next head, of which `begun` was read; None if the connection ended before it began."""
    try:
        async with asyncio.timeout(PATIENCE_S):
            return begun + await reader.readuntil(END)
    except asyncio.IncompleteReadError as error:
        if (begun + error.partial).strip():
            raise WrongHead("the connection ended within a head") from None
        return None
    except asyncio.LimitOverrunError:
        raise WrongHead(f"a head of more than {limits.FRONT_HEAD_BYTES} bytes") from None


async def take_some(source: StreamReader, most: int) -> bytes:
    """The bytes that are there, at least one; none if the connection ended."""
    async with asyncio.timeout(PATIENCE_S):
        return await source.read(most)


class BodyTarget(Protocol):
    """Takes the pieces of a body."""

    def write(self, data: bytes, /) -> None: ...

    async def drain(self) -> None: ...


class KeptBody:
    """Keeps a body, as it came and without its chunks. WrongHead if it is larger than a batch may be."""

    def __init__(self) -> None:
        self.raw = bytearray()

    def write(self, data: bytes, /) -> None:
        self.raw += data
        if len(self.raw) > limits.FRONT_BATCH_BYTES:
            raise WrongHead(f"a batch of more than {limits.FRONT_BATCH_BYTES} bytes")

    async def drain(self) -> None:
        return

    def content(self, chunked: bool) -> bytes:
        """The body without the sizes of its chunks, which were read when it passed."""
        if not chunked:
            return bytes(self.raw)
        content, place = b"", 0
        while size := int(self.raw[place : (end := self.raw.index(b"\r\n", place))].partition(b";")[0], 16):
            content += self.raw[end + 2 : end + 2 + size]
            place = end + size + 4
        return content


async def collect_body(head: MessageHead, source: StreamReader) -> KeptBody:
    """Keep the body behind a head. ConnectionError if it ends early."""
    kept = KeptBody()
    await pass_body(head, source, kept)
    return kept


async def pass_body(head: MessageHead, source: StreamReader, target: BodyTarget) -> None:
    """Pass the body behind a head on. ConnectionError if it ends early."""
    if head.until_close:
        while piece := await take_some(source, limits.FRONT_PIECE_BYTES):
            await _send(target, piece)
    elif head.length is not None:
        await _pass_exactly(head.length, source, target)
    else:
        await _pass_chunks(source, target)


async def _pass_exactly(length: int, source: StreamReader, target: BodyTarget) -> None:
    while length:
        piece = await take_some(source, min(length, limits.FRONT_PIECE_BYTES))
        if not piece:
            raise ConnectionError("the connection ended within a body")
        length -= len(piece)
        await _send(target, piece)


async def _pass_chunks(source: StreamReader, target: BodyTarget) -> None:
    """Chunks with their sizes, up to the empty one, and the trailer behind it."""
    while True:
        line = await _line(source)
        try:
            size = int(line.partition(b";")[0].strip(), 16)
        except ValueError:
            raise WrongHead("a chunk without a size") from None
        await _send(target, line)
        if size == 0:
            break
        await _pass_exactly(size + 2, source, target)
    while (line := await _line(source)) != b"\r\n":
        await _send(target, line)
    await _send(target, line)


async def _line(source: StreamReader) -> bytes:
    try:
        async with asyncio.timeout(PATIENCE_S):
            return await source.readuntil(b"\r\n")
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        raise ConnectionError("the connection ended within a body") from None


async def _send(target: BodyTarget, piece: bytes) -> None:
    target.write(piece)
    async with asyncio.timeout(PATIENCE_S):
        await target.drain()
