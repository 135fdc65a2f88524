"""uvicorn's protocol without its trust in clients: heads end, idle connections end, bodies always arrive, and a client
that closes only its own side of a connection still gets its answers.

An offer to upgrade is declined by answering the request as it is; trailers are no headers; bytes that are not a request
get their answer in their turn.
"""

from asyncio import Transport
from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from recapito.domain import limits

ClientOf = Callable[[Sequence[tuple[bytes, bytes]]], str | None]
"""The address of the client whose request another node forwards, by its headers; None if it came by itself."""


class HttpProtocol(HttpToolsProtocol):
    """One connection. `begin` and `complete` are called at the head and the end of each request to answer.

    `client_of` is None on a server that is no node of a cluster. `secure`: clients use https, wherever TLS ends.
    """

    def __init__(self, *, client_of: ClientOf | None = None, secure: bool = False, **arguments: Any) -> None:
        super().__init__(**arguments)
        self._client_of = client_of
        self._secure = secure
        self._peer: tuple[str, int] | None = None
        self._between = True  # the parser is not within a request
        self._in_body = False
        self._declining = False  # the parser has stopped at an offer to upgrade
        self._unbounded = 0  # the bytes of a head or of trailers so far, an upper bound
        self._used_at = 0.0

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override] # as uvicorn has it
        """Start the timer that waits for requests."""
        super().connection_made(transport)
        self._peer = self.client
        if self._secure:
            self.scheme = "https"
        self._used_at = self.loop.time()
        self._rest(self.timeout_keep_alive)

    def data_received(self, data: bytes) -> None:
        """Parse what has arrived. The timer is left alone: it checks itself whether the connection is in use."""
        if self._between:
            self._used_at = self.loop.time()
        self._unbounded += len(data)
        try:
            self._feed(data)
        except httptools.HttpParserError:
            if self._unbounded <= limits.HEAD_BYTES:
                self._refuse(HTTPStatus.BAD_REQUEST, "Invalid HTTP request received.")
        if self._unbounded > limits.HEAD_BYTES:
            self._refuse(
                HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
                f"The request line and the headers together are longer than {limits.HEAD_BYTES} bytes.",
            )

    def _feed(self, data: bytes) -> None:
        while data:
            try:
                self.parser.feed_data(data)
                return
            except httptools.HttpParserUpgrade as stopped:
                data = data[stopped.args[0] :]
                if not self._declining:  # CONNECT: the bytes that follow are not HTTP
                    self.cycle.keep_alive = False
                    return
                data = self._head_without_offer() + data
                self._declining = False
                self.parser = httptools.HttpRequestParser(self)
                self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn has it

    def _head_without_offer(self) -> bytes:
        lines = [b"%b %b HTTP/%b" % (self.parser.get_method(), self.url, self.parser.get_http_version().encode())]
        lines += [b"%b: %b" % header for header in self.headers if header[0] != b"upgrade"]
        return b"\r\n".join([*lines, b"", b""])

    def eof_received(self) -> bool:  # type: ignore[override] # as asyncio has it
        """The client sends no more: the connection ends with the answer to its last complete request, if one is due.

        Handlers that wait for a disconnect are woken, because the server cannot know whether the client still listens.
        """
        if self.cycle is None or self.cycle.response_complete or self._in_body:
            return False
        self.cycle.keep_alive = False
        self.cycle.message_event.set()
        return True

    def on_message_begin(self) -> None:
        self._between = False
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Start a request at its head. An upgrade is declined (RFC 9110 §7.8), or the parser would skip the body."""
        if self.parser.should_upgrade() and self.parser.get_method() != b"CONNECT":
            self._declining = True
            return
        if self._unbounded > limits.HEAD_BYTES:
            self._unbounded = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
            if self._unbounded > limits.HEAD_BYTES:
                raise ValueError("too long")  # for the parser, which stops here
        self._in_body = True
        if self._client_of is not None:
            forwarded = self._client_of(self.headers)
            self.client = self._peer if forwarded is None else (forwarded, 0)
            self.scope["client"] = self.client
        self.begin()
        self.headers = []  # the scope keeps the headers of the head

    def begin(self) -> None:
        """Start the request cycle."""
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._unbounded = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        if not self._declining:
            self._between = True
            self._in_body = False
            self._unbounded = 0
            self.complete()

    def complete(self) -> None:
        """Pass the end of the body to the request cycle."""
        super().on_message_complete()

    def _refuse(self, status: HTTPStatus, message: str) -> None:
        """Answer bytes that are not a request, and close. Earlier requests without an answer get theirs first."""
        unanswered = self.cycle is not None and not self.cycle.response_complete
        if unanswered and not self._in_body:
            self.cycle.keep_alive = False
            self.flow.pause_reading()
            return
        if not self.pipeline and (unanswered or not self._in_body):
            head = f"HTTP/1.1 {status.value} {status.phrase}\r\ncontent-type: text/plain; charset=utf-8\r\n"
            head += f"content-length: {len(message)}\r\nconnection: close\r\n\r\n"
            self.transport.write(f"{head}{message}".encode())
        self.transport.close()

    def timeout_keep_alive_handler(self) -> None:
        """Close a connection that was idle the whole time, or whose head is still incomplete."""
        if self.transport.is_closing():
            return
        in_use = self.cycle is not None and not self.cycle.response_complete
        left_s = self.timeout_keep_alive if in_use else self._used_at + self.timeout_keep_alive - self.loop.time()
        if left_s > 0:
            self._rest(left_s)
        else:
            self.transport.close()

    def _rest(self, seconds: float) -> None:
        self.timeout_keep_alive_task = self.loop.call_later(seconds, self.timeout_keep_alive_handler)
