"""POST /topics/{topic}/api/events, as bare ASGI: the hot path makes no request objects.

The key is checked before the body is read; 200 leaves after the commit, never before.
"""

from asyncio import Future
from http import HTTPStatus
from typing import NamedTuple

from starlette.types import Receive, Scope, Send

from recapito.api.authenticate import PublishGate
from recapito.api.body import BodyReader, ClientGone
from recapito.api.errors import (
    MethodNotAllowed,
    UnsupportedMedia,
    journal_fault,
    new_report,
    publish_body,
    refusal,
)
from recapito.api.local import peer_of
from recapito.api.services import Services
from recapito.domain import limits
from recapito.domain.event import accept
from recapito.domain.topic import Topic
from recapito.errors import NotFound

_PREFIX = "/topics/"
_SUFFIX = "/api/events"
_ACCEPTED = {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]}
_EMPTY = {"type": "http.response.body", "body": b""}
_CURL_DEFAULT = b"application/x-www-form-urlencoded"  # Event Grid's own quickstarts publish with a bare `curl -d`


def published_topic(path: str) -> str | None:
    """The topic that a path publishes to, None if it is another path."""
    if not (path.startswith(_PREFIX) and path.endswith(_SUFFIX)):
        return None
    name = path[len(_PREFIX) : -len(_SUFFIX)]
    return name if name and "/" not in name else None


class Answer(NamedTuple):
    """A refusal, ready to be sent."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes

    def to_bytes(self, keep_alive: bool) -> bytes:
        """The whole response as it goes over the wire."""
        lines = [b"HTTP/1.1 %d %b" % (self.status, HTTPStatus(self.status).phrase.encode())]
        lines += [b"%b: %b" % header for header in self.headers]
        if not keep_alive:
            lines.append(b"connection: close")
        return b"\r\n".join([*lines, b"", self.body])


class PublishRoute:
    """Takes a publish request and answers it, whatever happens."""

    def __init__(self, services: Services, bodies: BodyReader) -> None:
        self.publisher = services.publisher
        self._provisioner = services.provisioner
        self._clock = services.clock
        self._journal = services.journal
        self._bodies = bodies
        self.gate = PublishGate(services.clock.now, services.access.tokens)
        self._throttle = services.throttle

    async def __call__(self, name: str, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._publish(name, scope, receive)
        except ClientGone:
            return
        except Exception as error:
            refused = self.refused(error)
            await send({"type": "http.response.start", "status": refused.status, "headers": refused.headers})
            await send({"type": "http.response.body", "body": refused.body})
        else:
            await send(_ACCEPTED)
            await send(_EMPTY)

    async def _publish(self, name: str, scope: Scope, receive: Receive) -> None:
        if scope["method"] != "POST":
            raise MethodNotAllowed("POST")
        topic = await self._provisioner.find_topic(name)
        if topic is None:
            raise NotFound("NotFound", "There is no topic of this name.")
        headers = dict(scope["headers"])
        await self.gate.admit(headers, scope["query_string"], peer_of(scope), topic)
        check_content_type(headers.get(b"content-type"))
        self.publisher.check_open()
        await self.submit(topic, await self._bodies.read(headers, receive, limits.PUBLISH_BYTES))

    def known_topic(self, name: str) -> Topic | None:
        """The topic, if it is at hand without asking the store."""
        return self._provisioner.known_topic(name)

    def submit(self, topic: Topic, body: bytes) -> Future[None]:
        """Accept the events of a body; the future is done when they are durable."""
        events = accept(body, topic.resource_id)
        size = sum([len(event.body) for event in events])
        if self._throttle is not None:
            self._throttle.admit(topic.id, len(events), size)
        return self.publisher.submit(topic, events, size)

    def refused(self, error: Exception) -> Answer:
        """What the publisher is told about an error; our own faults are journalled."""
        report = new_report(self._clock.now())
        journal_fault(self._journal, error, report)
        refused = refusal(error)
        body = publish_body(refused, report)
        headers = [
            (b"content-type", b"application/json; charset=utf-8"),
            (b"content-length", b"%d" % len(body)),
            *refused.headers,
        ]
        return Answer(refused.status, headers, body)


def check_content_type(content_type: bytes | None) -> None:
    """Refuse what does not call itself JSON."""
    media = (content_type or b"").partition(b";")[0].strip().lower()
    if media and not media.endswith((b"/json", b"+json")) and media != _CURL_DEFAULT:
        raise UnsupportedMedia("UnsupportedMediaType", "Events are taken as JSON: send Content-Type: application/json.")
