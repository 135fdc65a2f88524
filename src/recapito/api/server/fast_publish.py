"""The fast path of publishing: a small, complete, correct publish request is served without ASGI.

It is a uvicorn protocol. It takes only requests that it can answer with success: a request that is not complete in one
read, not authorized, not valid or not alone on its connection goes the ordinary way, where every error has its answer.
The beginning that a connection repeats is not parsed again. A busy intake is answered here too: under overload a
refusal must be cheap.
"""

import asyncio
import re
from collections.abc import Mapping
from functools import partial
from http import HTTPStatus
from typing import Any, NamedTuple

from recapito.api.body import check_headers
from recapito.api.publish.route import PublishRoute, PublishTarget, check_content_type, target_of
from recapito.api.server.protocol import HttpProtocol
from recapito.domain import limits
from recapito.domain.resources.topic import Topic
from recapito.errors import Busy, CallerError

_ACCEPTED = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"
_ACCEPTED_LAST = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
_LENGTH = re.compile(rb"\r\ncontent-length: ([0-9]+)\r\n", re.IGNORECASE)
_END = b"\r\n\r\n"


class Head(NamedTuple):
    """The parsed head of a publish request. `client` is the address of the publisher."""

    target: PublishTarget
    topic: Topic
    query: bytes
    headers: Mapping[bytes, bytes]
    client: str | None


class RequestTemplate(NamedTuple):
    """The repeated beginning of a connection's requests: the bytes before and after the digits of the length.

    The law: a request that fits a template equals, byte for byte but for those digits, a request that the parser has
    read before as a complete one, and its length is that of all bytes that follow. Others are left to the parser.
    """

    before: bytes
    after: bytes
    head: Head

    def body_of(self, data: bytes) -> bytes | None:
        """The body, if `data` is one complete request that fits; otherwise None."""
        if not data.startswith(self.before):
            return None
        start = len(self.before)
        end = data.find(b"\r", start)
        if not data.startswith(self.after, end):
            return None
        body = data[end + len(self.after) :]
        return body if data[start:end] == b"%d" % len(body) else None


def template_of(data: bytes, body: bytes, head: Head) -> RequestTemplate | None:
    """The template of a request that the parser found complete and alone in `data`; None if it has none."""
    start = data[: len(data) - len(body)]
    length = _LENGTH.search(start)
    if length is None or start.find(_END) != len(start) - len(_END):
        return None
    template = RequestTemplate(start[: length.start(1)], start[length.end(1) :], head)
    return template if template.body_of(data) == body else None


class _FastRequest:
    """A publish on the fast path. To uvicorn it looks like a request cycle that is not answered yet."""

    message_event = asyncio.Event()  # not waited for: uvicorn sets it when a client hangs up

    def __init__(self, head: Head, keep_alive: bool = True) -> None:
        self.head = head
        self.keep_alive = keep_alive
        self.body = b""
        self.response_complete = False
        self.disconnected = False


class FastPublishProtocol(HttpProtocol):
    """HTTP with the fast path in front. `route` is the ordinary way, which shares its parts."""

    def __init__(self, route: PublishRoute, **arguments: Any) -> None:
        super().__init__(**arguments)
        self._route = route
        self._incoming: _FastRequest | None = None  # being received; once it is complete, uvicorn's `cycle` has it
        self._template: RequestTemplate | None = None

    def data_received(self, data: bytes) -> None:
        begins = self._between
        if begins and self._template is not None and self._publish_again(self._template, data):
            return
        super().data_received(data)
        if self._incoming is not None:
            self._hand_over(complete=False)
        elif begins and self._between and self._template is None and isinstance(self.cycle, _FastRequest):
            self._template = template_of(data, self.cycle.body, self.cycle.head) if self.cycle.keep_alive else None

    def _publish_again(self, template: RequestTemplate, data: bytes) -> bool:
        """Publish a request that fits the template, unless its topic has changed or its key is no longer valid."""
        body = template.body_of(data) if self.cycle.response_complete and not self.flow.write_paused else None
        if body is None:
            return False
        request = _FastRequest(template.head)
        try:
            if self._route.known_topic(template.head.target) is template.head.topic:
                self._admit(template.head)
                self._submit(request, body)
                return True
        except CallerError:
            pass
        self._template = None
        return False

    def begin(self) -> None:
        alone = (self.cycle is None or self.cycle.response_complete) and not self.flow.write_paused
        head = self._head() if alone and not self.expect_100_continue else None
        if head is None:
            super().begin()
            return
        keep_alive = self.parser.get_http_version() != "1.0" and self.parser.should_keep_alive()
        self._incoming = _FastRequest(head, keep_alive)

    def _head(self) -> Head | None:
        """The head of a request that may take the fast path, otherwise None."""
        path, _, query = self.url.partition(b"?")
        target = target_of(path.decode("latin-1"), self.headers)
        topic = None if target is None else self._route.known_topic(target)
        if target is None or topic is None or self.parser.get_method() != b"POST":
            return None
        head = Head(target, topic, query, dict(self.headers), self.client[0] if self.client else None)
        try:
            self._admit(head)
            check_content_type(head.headers, topic)
            check_headers(head.headers, limits.PUBLISH_BYTES)
        except CallerError:
            return None
        return head

    def _admit(self, head: Head) -> None:
        self._route.gate.check(head.headers, head.query, head.client, head.topic)

    def on_body(self, body: bytes) -> None:
        if self._incoming is None:
            super().on_body(body)
        else:
            self._unbounded = 0
            self._incoming.body += body

    def complete(self) -> None:
        request, self._incoming = self._incoming, None
        if request is None:
            super().complete()
            return
        try:
            self._submit(request, request.body)
        except CallerError:
            self._incoming = request
            self._hand_over(complete=True)

    def _submit(self, request: _FastRequest, body: bytes) -> None:
        try:
            stored = self._route.submit(request.head.topic, request.head.headers, body)
        except Busy as error:
            self.cycle = request  # type: ignore[assignment]
            self._answer(request, error)
            return
        self.cycle = request  # type: ignore[assignment]
        stored.add_done_callback(partial(self._answer_stored, request))

    def _hand_over(self, complete: bool) -> None:
        """Hand the bytes that have arrived to uvicorn."""
        request, self._incoming = self._incoming, None
        assert request is not None
        super().begin()
        if request.body:
            super().on_body(request.body)
        if complete:
            super().complete()

    def _refuse(self, status: HTTPStatus, message: str) -> None:
        if self._incoming is not None:
            self._hand_over(complete=False)
        super()._refuse(status, message)

    def _answer_stored(self, request: _FastRequest, stored: "asyncio.Future[None]") -> None:
        self._answer(request, stored.exception())

    def _answer(self, request: _FastRequest, error: BaseException | None) -> None:
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
