"""POST /topics/{topic}/api/events, as bare ASGI: the hot path makes no request objects.

The key is checked before the body is read; 200 leaves after the commit, never before.
"""

from starlette.types import Receive, Scope, Send

from recapito.api.authenticate import authenticate
from recapito.api.body import BodyReader, ClientGone
from recapito.api.errors import (
    MethodNotAllowed,
    UnsupportedMedia,
    journal_fault,
    new_report,
    publish_body,
    refusal,
)
from recapito.api.services import Services
from recapito.domain import limits
from recapito.domain.event import accept
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


class PublishRoute:
    """Takes a publish request and answers it, whatever happens."""

    def __init__(self, services: Services, bodies: BodyReader) -> None:
        self._publisher = services.publisher
        self._provisioner = services.provisioner
        self._clock = services.clock
        self._journal = services.journal
        self._bodies = bodies

    async def __call__(self, name: str, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._publish(name, scope, receive)
        except ClientGone:
            return
        except Exception as error:
            await self._refuse(error, send)
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
        authenticate(headers, topic)
        _check_content_type(headers.get(b"content-type"))
        self._publisher.check_open()
        body = await self._bodies.read(headers, receive, limits.PUBLISH_BYTES)
        events = accept(body, topic.resource_id)
        await self._publisher.publish(topic, events, sum([len(event.body) for event in events]))

    async def _refuse(self, error: Exception, send: Send) -> None:
        report = new_report(self._clock.now())
        journal_fault(self._journal, error, report)
        refused = refusal(error)
        body = publish_body(refused, report)
        headers = [
            (b"content-type", b"application/json; charset=utf-8"),
            (b"content-length", b"%d" % len(body)),
            *refused.headers,
        ]
        await send({"type": "http.response.start", "status": refused.status, "headers": headers})
        await send({"type": "http.response.body", "body": body})


def _check_content_type(content_type: bytes | None) -> None:
    media = (content_type or b"").partition(b";")[0].strip().lower()
    if media and not media.endswith((b"/json", b"+json")) and media != _CURL_DEFAULT:
        raise UnsupportedMedia("UnsupportedMediaType", "Events are taken as JSON: send Content-Type: application/json.")
