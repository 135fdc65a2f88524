"""Heads of HTTP/1.1 messages: read for their meaning, and passed on as they came.

A message whose length can be read in two ways is refused, because the storage service might read it in the other.
"""

from typing import NamedTuple

from recapito.domain import limits

END = b"\r\n\r\n"


class WrongHead(Exception):
    """These bytes are not the head of a message that may pass."""


class MessageHead(NamedTuple):
    """A head: its first line in three parts, its headers with names in lower case, and its bytes.

    length: of the body; None if it is chunked, or ends with the connection where `until_close` is set.
    """

    start: tuple[str, str, str]
    headers: dict[str, str]
    raw: bytes
    length: int | None
    until_close: bool = False

    @property
    def status(self) -> int:
        """The status of an answer."""
        return int(self.start[1])

    @property
    def persistent(self) -> bool:
        """Whether the connection stays open after this message."""
        version = self.start[0] if self.start[0].startswith("HTTP/") else self.start[2]
        wish = self.headers.get("connection", "").lower()
        return not self.until_close and (wish == "keep-alive" if version == "HTTP/1.0" else wish != "close")


def read_request(raw: bytes) -> MessageHead:
    """The head of a request, which ends with an empty line."""
    start, headers = _parse(raw)
    if not start[2].startswith("HTTP/1."):
        raise WrongHead("not a request of HTTP/1.1")
    return MessageHead(start, headers, raw, _length(headers, 0))


def read_answer(raw: bytes, method: str) -> MessageHead:
    """The head of an answer to a request of that method."""
    start, headers = _parse(raw)
    if not start[0].startswith("HTTP/1.") or not start[1].isdigit() or len(start[1]) != 3:
        raise WrongHead("not an answer of HTTP/1.1")
    status = int(start[1])
    if method == "HEAD" or status < 200 or status in (204, 304):
        return MessageHead(start, headers, raw, 0)
    framed = "content-length" in headers or "transfer-encoding" in headers
    return MessageHead(start, headers, raw, _length(headers, None), not framed)


def _parse(raw: bytes) -> tuple[tuple[str, str, str], dict[str, str]]:
    lines = raw.removesuffix(END).decode("latin-1").split("\r\n")
    start = lines[0].split(" ", 2)
    if len(lines) > limits.FRONT_HEADERS or len(start) < 2:
        raise WrongHead("too many headers, or no first line")
    headers: dict[str, str] = {}
    for line in lines[1:]:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip():
            raise WrongHead("a line that is no header")
        name = name.lower()
        if name in headers and name in ("content-length", "transfer-encoding", "host"):
            raise WrongHead(f"{name} is there twice")
        headers[name] = value.strip()
    return (start[0], start[1], start[2] if len(start) > 2 else ""), headers


def _length(headers: dict[str, str], default: int | None) -> int | None:
    coding, length = headers.get("transfer-encoding"), headers.get("content-length")
    if coding is not None:
        if length is not None or coding.lower() != "chunked":
            raise WrongHead("a body whose length is unclear")
        return None
    if length is None:
        return default
    if not length.isascii() or not length.isdigit():
        raise WrongHead("content-length is no number")
    return int(length)
