"""The express lane for publishing: a small, whole, correct publish request is served without ASGI.

It is a uvicorn protocol. It takes only what it can answer with success: a request that is not whole in one read, not
authorized, not valid or not alone on its connection goes the ordinary way, where every error has its answer. What a
connection repeats is not parsed again. A busy intake is answered here too: under overload a refusal must be cheap.
"""

import asyncio
from functools import partial
from http import HTTPStatus
from typing import Any

from recapito.api.body import check_headers
from recapito.api.publish.route import PublishRoute, check_content_type, target_of
from recapito.api.server.protocol import HttpProtocol
from recapito.api.server.request_template import Head, RequestTemplate, template_of
from recapito.domain import limits
from recapito.errors import Busy, CallerError

_ACCEPTED = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"
_ACCEPTED_LAST = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class _Request:
    """A publish on the express lane. To uvicorn it looks like a request cycle that is not answered yet."""

    message_event = asyncio.Event()  # nobody waits for it: uvicorn sets it when a caller hangs up

    def __init__(self, head: Head, keep_alive: bool = True) -> None:
        self.head = head
        self.keep_alive = keep_alive
        self.body = b""
        self.response_complete = False
        self.disconnected = False


class FastPublishProtocol(HttpProtocol):
    """HTTP with the express lane in front. `route` is the ordinary way, which shares its parts."""

    def __init__(self, route: PublishRoute, **arguments: Any) -> None:
        super().__init__(**arguments)
        self._route = route
        self._express: _Request | None = None  # being received; once it is whole, uvicorn's `cycle` has it
        self._habit: RequestTemplate | None = None

    def data_received(self, data: bytes) -> None:
        begins = self._between
        if begins and self._habit is not None and self._publish_again(self._habit, data):
            return
        super().data_received(data)
        if self._express is not None:
            self._go_the_ordinary_way(whole=False)
        elif begins and self._between and self._habit is None and isinstance(self.cycle, _Request):
            self._habit = template_of(data, self.cycle.body, self.cycle.head) if self.cycle.keep_alive else None

    def _publish_again(self, habit: RequestTemplate, data: bytes) -> bool:
        """Take what the connection repeats, unless it is not the same to us any more."""
        body = habit.body_of(data) if self.cycle.response_complete and not self.flow.write_paused else None
        if body is None:
            return False
        request = _Request(habit.head)
        try:
            if self._route.known_topic(habit.head.target) is habit.head.topic:
                self._admit(habit.head)
                self._submit(request, body)
                return True
        except CallerError:
            pass
        self._habit = None
        return False

    def begin(self) -> None:
        alone = (self.cycle is None or self.cycle.response_complete) and not self.flow.write_paused
        head = self._head() if alone and not self.expect_100_continue else None
        if head is None:
            super().begin()
            return
        keep_alive = self.parser.get_http_version() != "1.0" and self.parser.should_keep_alive()
        self._express = _Request(head, keep_alive)

    def _head(self) -> Head | None:
        """What a request says that may be published directly."""
        path, _, query = self.url.partition(b"?")
        target = target_of(path.decode("latin-1"), self.headers)
        topic = None if target is None else self._route.known_topic(target)
        if target is None or topic is None or self.parser.get_method() != b"POST":
            return None
        head = Head(target, topic, query, dict(self.headers))
        try:
            self._admit(head)
            check_content_type(head.headers, topic)
            check_headers(head.headers, limits.PUBLISH_BYTES)
        except CallerError:
            return None
        return head

    def _admit(self, head: Head) -> None:
        self._route.gate.check(head.headers, head.query, self.client[0] if self.client else None, head.topic)

    def on_body(self, body: bytes) -> None:
        if self._express is None:
            super().on_body(body)
        else:
            self._unbounded = 0
            self._express.body += body

    def complete(self) -> None:
        request, self._express = self._express, None
        if request is None:
            super().complete()
            return
        try:
            self._submit(request, request.body)
        except CallerError:
            self._express = request
            self._go_the_ordinary_way(whole=True)

    def _submit(self, request: _Request, body: bytes) -> None:
        try:
            stored = self._route.submit(request.head.topic, request.head.headers, body)
        except Busy as error:
            self.cycle = request  # type: ignore[assignment]
            self._answer(request, error)
            return
        self.cycle = request  # type: ignore[assignment]
        stored.add_done_callback(partial(self._answer_stored, request))

    def _go_the_ordinary_way(self, whole: bool) -> None:
        """Hand what has arrived to uvicorn."""
        request, self._express = self._express, None
        assert request is not None
        super().begin()
        if request.body:
            super().on_body(request.body)
        if whole:
            super().complete()

    def _refuse(self, status: HTTPStatus, message: str) -> None:
        if self._express is not None:
            self._go_the_ordinary_way(whole=False)
        super()._refuse(status, message)

    def _answer_stored(self, request: _Request, stored: "asyncio.Future[None]") -> None:
        self._answer(request, stored.exception())

    def _answer(self, request: _Request, error: BaseException | None) -> None:
        request.response_complete = True
        if request.disconnected or self.transport.is_closing():
            return
        if error is None:
            self.transport.write(_ACCEPTED if request.keep_alive else _ACCEPTED_LAST)
        else:
            assert isinstance(error, Exception)
            self.transport.write(self._route.refused(error, request.head.topic).to_bytes(request.keep_alive))
        if not request.keep_alive:
            self.transport.close()
        self._used_at = self.loop.time()
        if self.pipeline:
            self.on_response_complete()
