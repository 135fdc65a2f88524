"""Bodies that the front keeps: the same bytes as they came, and their content without chunks."""

import asyncio

import pytest

from recapito.api.blob_front.head import WrongHead, read_request
from recapito.api.blob_front.passing import collect_body
from recapito.domain import limits


def kept(head: bytes, body: bytes) -> tuple[bytes, bytes]:
    """The raw body behind a head, and its content."""

    async def main() -> tuple[bytes, bytes]:
        reader = asyncio.StreamReader()
        reader.feed_data(body)
        reader.feed_eof()
        request = read_request(b"POST /a?comp=batch HTTP/1.1\r\n" + head + b"\r\n\r\n")
        body_of = await collect_body(request, reader)
        return bytes(body_of.raw), body_of.content(request.length is None)

    return asyncio.run(main())


def test_a_body_of_known_length() -> None:
    """It is its own content; bytes behind it are left."""
    assert kept(b"Content-Length: 5", b"abcdefgh") == (b"abcde", b"abcde")


def test_a_body_in_chunks() -> None:
    """Sizes, extensions and the trailer are no content, and pass on as they came."""
    raw = b"3;x=1\r\nabc\r\nA\r\n0123456789\r\n0\r\nTrailer: t\r\n\r\n"
    assert kept(b"Transfer-Encoding: chunked", raw) == (raw, b"abc0123456789")


def test_a_body_that_is_too_large_is_refused() -> None:
    """A batch is kept whole, so it is bounded."""
    size = limits.FRONT_BATCH_BYTES + 1
    with pytest.raises(WrongHead, match="batch"):
        kept(b"Content-Length: %d" % size, b"x" * size)
