"""Publishing, as bare ASGI: the hot path makes no request objects. Topics are named by the path or by the host.

The key is checked before the body is read; 200 leaves after the commit, never before.
"""

import re
from asyncio import Future
from collections.abc import Iterable, Mapping
from functools import partial
from http import HTTPStatus
from typing import NamedTuple
from uuid import uuid4

from starlette.types import Receive, Scope, Send

from recapito.api.auth.management import peer_of
from recapito.api.body import BodyReader, ClientGone
from recapito.api.errors import (
    MethodNotAllowed,
    Refusal,
    UnsupportedMedia,
    journal_fault,
    new_report,
    publish_body,
    publish_refusal,
)
from recapito.api.publish.authenticate import PublishGate
from recapito.api.services import Services
from recapito.domain import limits
from recapito.domain.events.cloud_event import media_of
from recapito.domain.events.passed import HEADER, check_passed, waymark
from recapito.domain.events.schema_table import INPUT_SCHEMAS, accept
from recapito.domain.observability.diagnostic import DiagnosticRecord, publish_failure
from recapito.domain.resources.topic import Topic, TopicKind
from recapito.errors import NotFound, Unauthorized
from recapito.observability.tracing import Traced

_TOPICS, _DOMAINS, _SYSTEM_TOPICS = "/topics/", "/domains/", "/systemTopics/"
_SUFFIX = "/api/events"
_HOST = re.compile(rb"([a-z0-9-]+)\.(?:[a-z0-9-]+\.eventgrid\.azure\.net|localhost)\.?(?::\d+)?", re.IGNORECASE)
_ACCEPTED = {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]}
_EMPTY = {"type": "http.response.body", "body": b""}
_PASSED = HEADER.encode()
_CURL_DEFAULT = b"application/x-www-form-urlencoded"  # Event Grid's own quickstarts publish with a plain `curl -d`


class PublishTarget(NamedTuple):
    """The target of a publish: a name, and the kinds of topics that it may name, in the order of search."""

    name: str
    kinds: tuple[TopicKind, ...]


_NOWHERE = PublishTarget("", ())
_CUSTOM, _DOMAIN, _BY_HOST = (TopicKind.CUSTOM,), (TopicKind.DOMAIN,), (TopicKind.CUSTOM, TopicKind.DOMAIN)
_SYSTEM = (TopicKind.SYSTEM,)


def target_of(path: str, headers: Iterable[tuple[bytes, bytes]]) -> PublishTarget | None:
    """The target of a request with this path; None if it does not publish."""
    if not path.endswith(_SUFFIX):
        return None
    if path.startswith(_TOPICS):
        target = PublishTarget(path[len(_TOPICS) : -len(_SUFFIX)], _CUSTOM)
    elif path.startswith(_DOMAINS):
        target = PublishTarget(path[len(_DOMAINS) : -len(_SUFFIX)], _DOMAIN)
    elif path.startswith(_SYSTEM_TOPICS):
        target = PublishTarget(path[len(_SYSTEM_TOPICS) : -len(_SUFFIX)], _SYSTEM)
    elif path == _SUFFIX:
        host = _HOST.fullmatch(next((value for name, value in headers if name == b"host"), b""))
        return PublishTarget(host[1].decode(), _BY_HOST) if host else _NOWHERE
    else:
        return None
    return target if target.name and "/" not in target.name else None


class PublishAnswer(NamedTuple):
    """A refusal, ready to be sent."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes

    def to_bytes(self, keep_alive: bool) -> bytes:
        """The whole response as bytes."""
        lines = [b"HTTP/1.1 %d %b" % (self.status, HTTPStatus(self.status).phrase.encode())]
        lines += [b"%b: %b" % header for header in self.headers]
        if not keep_alive:
            lines.append(b"connection: close")
        return b"\r\n".join([*lines, b"", self.body])


class PublishRoute:
    """Takes a publish request and answers it, whatever happens."""

    def __init__(self, services: Services, bodies: BodyReader) -> None:
        self.publisher = services.publisher
        self._topics = services.topics
        self._log = services.log
        self._clock = services.clock
        self._journal = services.journal
        self._bodies = bodies
        self.gate = PublishGate(services.clock.now, services.access.tokens)
        self._wrong_secrets = services.wrong_secrets
        self._throttle = services.throttle
        self._tracer = services.tracer
        self._diagnostics = services.diagnostics
        self._public_url = services.public_url
        self._opens_system_topics = services.opens_system_topics

    async def __call__(self, target: PublishTarget, scope: Scope, receive: Receive, send: Send) -> None:
        topic: Topic | None = None
        try:
            if scope["method"] != "POST":
                raise MethodNotAllowed("POST")
            topic = await self._find_topic(target)
            await self._publish(topic, scope, receive)
        except ClientGone:
            return
        except Exception as error:
            refused = self.refused(error, topic)
            await send({"type": "http.response.start", "status": refused.status, "headers": refused.headers})
            await send({"type": "http.response.body", "body": refused.body})
        else:
            await send(_ACCEPTED)
            await send(_EMPTY)

    async def _publish(self, topic: Topic, scope: Scope, receive: Receive) -> None:
        headers = dict(scope["headers"])
        try:
            await self.gate.admit(headers, scope["query_string"], peer_of(scope), topic)
        except Unauthorized:
            await self._wrong_secrets.refused("publish", peer_of(scope), topic.resource_id)
            raise
        check_content_type(headers, topic)
        self.publisher.check_open()
        body = await self._bodies.read(headers, receive, limits.PUBLISH_BYTES)
        await self.submit(topic, headers, body)

    async def _find_topic(self, target: PublishTarget) -> Topic:
        if target.kinds == _SYSTEM and not self._opens_system_topics:
            raise NotFound(
                "NotFound",
                "System topics take no events from publishers: set publish.system_topics to open them.",
            )
        for kind in target.kinds:
            topic = await self._topics.find(target.name, kind)
            if topic is not None:
                return topic
        if target.kinds:
            raise NotFound("NotFound", "There is no topic of this name.")
        raise NotFound(
            "NotFound",
            "The host names no topic. Publish to /topics/{topic}/api/events or /domains/{domain}/api/events, or to "
            "the host {topic}.{region}.eventgrid.azure.net.",
        )

    def known_topic(self, target: PublishTarget) -> Topic | None:
        """The topic, if the cache has it. Of several possible kinds only the first is looked up."""
        if target.kinds == _SYSTEM and not self._opens_system_topics:
            return None
        return self._topics.cached(target.name, target.kinds[0]) if target.kinds else None

    def submit(self, topic: Topic, headers: Mapping[bytes, bytes], body: bytes) -> Future[None]:
        """Accept the events of a body; the future completes when they are durable."""
        now = self._clock.now()
        passed = self._check_passed(topic, headers[_PASSED]) if _PASSED in headers else ""
        events = accept(topic, headers, body, now, _new_id)
        size = sum([len(event.body) for event in events])
        if self._throttle is not None:
            self._throttle.admit(topic.id, len(events), size)
        traced = None if self._tracer is None else self._tracer.sample(topic, headers, events, now)
        if traced is None:
            return self.publisher.submit(topic, events, size, now, passed=passed)
        stored = self.publisher.submit(topic, events, size, now, traced.traces, passed)
        stored.add_done_callback(partial(self._published, traced))
        return stored

    def _check_passed(self, topic: Topic, given: bytes) -> str:
        return check_passed(given.decode("latin-1"), waymark(self._log.id, topic.id))

    def _published(self, traced: Traced, stored: "Future[None]") -> None:
        if self._tracer is not None and not stored.cancelled():
            self._tracer.published(traced, self.publisher.last_commit, stored.exception())

    def refused(self, error: Exception, topic: Topic | None) -> PublishAnswer:
        """The answer to an error, which is counted if the topic is known; our own faults go to the journal.

        An error of an unknown topic is not counted: invented names would fill the memory.
        """
        report = new_report(self._clock.now())
        journal_fault(self._journal, error, report)
        refused = publish_refusal(error)
        if topic is not None:
            self.publisher.counters.failed(topic.id, refused.name)
            if self._diagnostics is not None:
                self._diagnostics.write(self._failure(topic, refused, report))
        body = publish_body(refused, report)
        headers = [
            (b"content-type", b"application/json; charset=utf-8"),
            (b"content-length", b"%d" % len(body)),
            *refused.headers,
        ]
        return PublishAnswer(refused.status, headers, body)

    def _failure(self, topic: Topic, refused: Refusal, report: str) -> DiagnosticRecord:
        url = f"{self._public_url}/{topic.kind}/{topic.name}{_SUFFIX}"
        response = f"{refused.status}: {refused.message}"
        return publish_failure(topic.resource_id, refused.name, report, url, response, self._clock.now())


def _new_id() -> str:
    return str(uuid4())


def check_content_type(headers: Mapping[bytes, bytes], topic: Topic) -> None:
    """Refuse bodies that do not call themselves JSON; in the binary mode of CloudEvents the data may be anything."""
    media = media_of(headers.get(b"content-type"))
    if not media.type or media.type.endswith((b"/json", b"+json")) or media.type == _CURL_DEFAULT:
        return
    in_headers = INPUT_SCHEMAS[topic.input_schema].in_headers
    if in_headers is not None and in_headers(headers, media):
        return
    raise UnsupportedMedia("UnsupportedMediaType", "Events must be JSON. Send Content-Type: application/json.")
