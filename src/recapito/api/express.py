"""The express lane for publishing: a small, whole, correct publish request is served without ASGI.

It is a uvicorn protocol. It takes only what it can answer with success: a request that is not whole in one read, not
authorized, not valid or not alone on its connection goes the ordinary way, where every error has its answer.
"""

import asyncio
from functools import partial
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from recapito.api.body import check_headers
from recapito.api.publish import PublishRoute, check_content_type, target_of
from recapito.domain import limits
from recapito.domain.topic import Topic
from recapito.errors import Busy, CallerError

_ACCEPTED = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"
_ACCEPTED_LAST = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class _Request:
    """A publish on the express lane. To uvicorn it looks like a request cycle that is not answered yet."""

    message_event = asyncio.Event()  # nobody waits for it: uvicorn sets it when a caller hangs up

    def __init__(self, topic: Topic, headers: dict[bytes, bytes], keep_alive: bool) -> None:
        self.topic = topic
        self.headers = headers
        self.keep_alive = keep_alive
        self.body = b""
        self.whole = False
        self.response_complete = False
        self.disconnected = False


class ExpressProtocol(HttpToolsProtocol):
    """uvicorn's protocol with the express lane in front. `route` is the ordinary way, which shares its parts."""

    def __init__(self, route: PublishRoute, **arguments: Any) -> None:
        super().__init__(**arguments)
        self._route = route
        self._given: dict[bytes, bytes] = {}
        self._express: _Request | None = None  # being received; once it is whole, uvicorn's `cycle` has it

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._express is not None and not self._express.whole:
            self._go_the_ordinary_way(whole=False)

    def on_headers_complete(self) -> None:
        alone = self.cycle is None or self.cycle.response_complete
        topic = self._topic() if alone and not self.expect_100_continue else None
        if topic is None:
            super().on_headers_complete()
            return
        keep_alive = self.parser.get_http_version() != "1.0" and self.parser.should_keep_alive()
        self._express = _Request(topic, self._given, keep_alive)

    def _topic(self) -> Topic | None:
        """The topic of a request that may be published to directly."""
        path, _, query = self.url.partition(b"?")
        target = target_of(path.decode("latin-1"), self.headers)
        topic = None if target is None else self._route.known_topic(target)
        if topic is None or self.parser.get_method() != b"POST":
            return None
        headers = self._given = dict(self.headers)
        try:
            self._route.gate.check(headers, query, self.client[0] if self.client else None, topic)
            check_content_type(headers, topic)
            check_headers(headers, limits.PUBLISH_BYTES)
            self._route.publisher.check_open()
        except (CallerError, Busy):
            return None
        return topic

    def on_body(self, body: bytes) -> None:
        if self._express is None:
            super().on_body(body)
        else:
            self._express.body += body

    def on_message_complete(self) -> None:
        request = self._express
        if request is None:
            super().on_message_complete()
            return
        request.whole = True
        try:
            stored = self._route.submit(request.topic, request.headers, request.body)
        except (CallerError, Busy):
            self._go_the_ordinary_way(whole=True)
            return
        self._express = None
        self.cycle = request  # type: ignore[assignment]
        stored.add_done_callback(partial(self._answer, request))

    def _go_the_ordinary_way(self, whole: bool) -> None:
        """Hand what has arrived to uvicorn."""
        request, self._express = self._express, None
        assert request is not None
        super().on_headers_complete()
        if request.body:
            super().on_body(request.body)
        if whole:
            super().on_message_complete()

    def _answer(self, request: _Request, stored: "asyncio.Future[None]") -> None:
        error = stored.exception()
        request.response_complete = True
        if request.disconnected or self.transport.is_closing():
            return
        if error is None:
            self.transport.write(_ACCEPTED if request.keep_alive else _ACCEPTED_LAST)
        else:
            assert isinstance(error, Exception)
            self.transport.write(self._route.refused(error).to_bytes(request.keep_alive))
        if not request.keep_alive:
            self.transport.close()
        self.on_response_complete()
