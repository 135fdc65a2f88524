"""Heads that pass, and heads that could be read in two ways."""

import pytest

from recapito.api.blob_front.head import WrongHead, read_answer, read_request


def head(*lines: str) -> bytes:
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def test_a_request() -> None:
    """Its names are in lower case, and its bytes stay."""
    raw = head("PUT /a/b HTTP/1.1", "Host: x", "Content-Length: 12", "X-Ms-Date: now")
    found = read_request(raw)
    assert (found.start, found.length, found.raw) == (("PUT", "/a/b", "HTTP/1.1"), 12, raw)
    assert found.headers["x-ms-date"] == "now" and found.persistent


def test_lengths() -> None:
    """A body is as long as its head says, chunked, or ends with the connection."""
    assert read_request(head("GET / HTTP/1.1")).length == 0
    assert read_request(head("PUT / HTTP/1.1", "Transfer-Encoding: chunked")).length is None
    assert read_answer(head("HTTP/1.1 200 OK"), "GET").until_close
    assert read_answer(head("HTTP/1.1 200 OK", "Content-Length: 5"), "HEAD").length == 0
    assert read_answer(head("HTTP/1.1 204 No Content"), "DELETE").length == 0


def test_persistence() -> None:
    """HTTP/1.0 and `close` end a connection."""
    assert not read_request(head("GET / HTTP/1.0")).persistent
    assert not read_request(head("GET / HTTP/1.1", "Connection: close")).persistent
    assert not read_answer(head("HTTP/1.1 200 OK"), "GET").persistent


@pytest.mark.parametrize(
    "raw",
    [
        head("PUT / HTTP/1.1", "Content-Length: 5", "Transfer-Encoding: chunked"),
        head("PUT / HTTP/1.1", "Content-Length: 5", "Content-Length: 6"),
        head("PUT / HTTP/1.1", "Content-Length: +5"),
        head("PUT / HTTP/1.1", "Transfer-Encoding: gzip, chunked"),
        head("PUT / HTTP/1.1", " folded: x"),
        head("PUT / HTTP/1.1", "Name : x"),
        head("PUT / HTTP/1.1", "nonsense"),
        head("GET / HTTP/2"),
        head("nonsense"),
        head("GET / HTTP/1.1", *(f"a{n}: x" for n in range(300))),
    ],
)
def test_refused(raw: bytes) -> None:
    """A head whose body could end in two places is refused, and so is one that is no head."""
    with pytest.raises(WrongHead):
        read_request(raw)
