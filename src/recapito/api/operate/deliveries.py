"""Deliveries over HTTP: the attempts in history, and explanations of events. Callers need the right to manage.

A page names the start of the next one, and the mark from which a client follows new attempts.
"""

from uuid import uuid4

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from recapito.api.arm.routing import answer
from recapito.api.auth.management import admit
from recapito.api.body import BodyReader
from recapito.api.docs.documented_route import DocumentedRoute, names_in, read_instant, read_query
from recapito.api.operate.known_names import unknown_name
from recapito.api.services import Services
from recapito.api.wire.attempt import missing_nodes, places_of, show_attempt, show_explanation
from recapito.api.wire.decode import Body, Shown, check_choice, check_length, check_range, invalid
from recapito.api.wire.decode import decode as decode_body
from recapito.contracts.history import KeptAttempt
from recapito.domain import limits
from recapito.domain.delivery.outcome import Result
from recapito.domain.delivery.vocabulary import NonRequestOutcome
from recapito.domain.events.json_text import Fault, decode
from recapito.domain.events.schema_table import INPUT_SCHEMAS, accept
from recapito.domain.history.attempt import FAILED, AttemptQuery
from recapito.domain.instant import stamp
from recapito.domain.resources.topic import Topic
from recapito.errors import InvalidInput

PATH = "/deliveries"
OUTCOMES = (*Result, *NonRequestOutcome, FAILED)


class _WantedAttempts(Body):
    """`describe` adds type and subject, of events that the log still has."""

    event: str | None = None
    topic: str | None = None
    subscription: str | None = None
    outcome: str | None = None
    since: str | None = None
    until: str | None = None
    search: str | None = None
    before: str | None = None
    after: str | None = None
    describe: bool = False
    limit: int = limits.HISTORY_PAGE_DEFAULT


class _WantedExplanation(Body):
    """`payload` adds the event itself, as it is stored."""

    event: str
    topic: str | None = None
    payload: bool = False


class ResendBody(Body):
    """An event that was published, and the subscription that gets it again."""

    event: str
    subscription_id: int
    topic: str | None = None


class RehearsalBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """An event that is not published, and the topic that it would go to."""

    topic: str
    event: msgspec.Raw


class Deliveries:
    def __init__(self, services: Services, bodies: BodyReader) -> None:
        self._history = services.history
        self._registry = services.registry
        self._explainer = services.explainer
        self._redriver = services.redriver
        self._clock = services.clock
        self._bodies = bodies

    def routes(self) -> list[DocumentedRoute]:
        return [
            DocumentedRoute(PATH, self._list, queries=names_in(_WantedAttempts)),
            DocumentedRoute(f"{PATH}/explain", self._explain, queries=names_in(_WantedExplanation)),
            DocumentedRoute(f"{PATH}/explain", self._rehearse, RehearsalBody),
            DocumentedRoute(f"{PATH}/resend", self._resend, ResendBody),
        ]

    async def _list(self, request: Request) -> Response:
        await admit(request)
        wanted = read_query(request, _WantedAttempts)
        selection, limit = _selection(wanted), check_range(wanted.limit, limits.HISTORY_PAGE, "limit")
        if wanted.after is None:
            page = await self._history.newest_first(selection, _mark(wanted.before, "before"), limit)
        else:
            page = await self._history.oldest_first(selection, _mark(wanted.after, "after") or 0, limit)
        extent = await self._history.extent()
        return answer(
            {
                **missing_nodes(page.missing),
                "value": await self._show(page.value, selection, wanted.describe),
                "next": None if page.next is None else str(page.next),
                "newest": str(page.newest),
                "unknown": None
                if page.value or wanted.after is not None
                else await unknown_name(self._registry, wanted.topic, wanted.subscription),
                "kept": {
                    "since": None if extent.since is None else stamp(extent.since),
                    "attempts": extent.attempts,
                    "notKept": extent.not_kept,
                },
                "now": stamp(self._clock.now()),
            }
        )

    async def _show(self, kept: list[KeptAttempt], selection: AttemptQuery, describe: bool) -> list[Shown]:
        value = [show_attempt(each, selection) for each in kept]
        if describe:
            for topic, places in places_of(kept[: limits.DESCRIBED_ATTEMPTS], selection).items():
                described = await self._explainer.describe(topic, list(places))
                for place, (type, subject) in described.items():
                    for index in places[place]:
                        value[index]["events"][0] |= {"type": type, "subject": subject}
        return value

    async def _resend(self, request: Request) -> Response:
        await admit(request)
        body = await self._bodies.read(dict(request.scope["headers"]), request.receive, limits.MANAGE_BODY_BYTES)
        wanted = decode_body(body, ResendBody)
        check_length(wanted.event, limits.EVENT_FIELD_CHARS, "event", 1)
        order = await self._explainer.find_to_resend(wanted.event, wanted.topic, wanted.subscription_id)
        position = await self._redriver.resend(order)
        origin = {"position": order.place.position, "offset": order.place.offset}
        return answer({"subscription": order.subscription.name, "position": position, "from": origin})

    async def _explain(self, request: Request) -> Response:
        await admit(request)
        asked = read_query(request, _WantedExplanation)
        check_length(asked.event, limits.EVENT_FIELD_CHARS, "event", 1)
        explanation = await self._explainer.explain(asked.event, asked.topic)
        return answer(show_explanation(explanation, self._clock.now(), asked.payload))

    async def _rehearse(self, request: Request) -> Response:
        await admit(request)
        body = await self._bodies.read(dict(request.scope["headers"]), request.receive, limits.PUBLISH_BYTES)
        wanted = _read_rehearsal(body)
        topic = await self._explainer.topic(wanted.topic)
        (event,) = accept(topic, *_published(topic, bytes(wanted.event)), self._clock.now(), lambda: str(uuid4()))
        explanation = await self._explainer.rehearse(topic, event)
        return answer(show_explanation(explanation, self._clock.now()))


_decode_rehearsal = msgspec.json.Decoder(RehearsalBody).decode


def _read_rehearsal(body: bytes) -> RehearsalBody:
    """The body; its event keeps its bytes, which are read as a publish reads them."""
    try:
        return decode(_decode_rehearsal, body)
    except Fault as fault:
        raise InvalidInput("InvalidRequest", f'The body must be {{"topic": "name", "event": {{…}}}}: {fault}') from None


def _published(topic: Topic, event: bytes) -> tuple[dict[bytes, bytes], bytes]:
    """The headers and the body of a request that would publish one event."""
    content_type, body = INPUT_SCHEMAS[topic.input_schema].request(event)
    return {b"content-type": content_type.encode()}, body


def _selection(wanted: _WantedAttempts) -> AttemptQuery:
    if wanted.before is not None and wanted.after is not None:
        raise invalid("'before' and 'after' exclude each other.", "after")
    outcome = None if wanted.outcome is None else check_choice(wanted.outcome, OUTCOMES, "outcome")
    return AttemptQuery(
        event=wanted.event,
        search=wanted.search or None,
        topic=wanted.topic,
        subscription=wanted.subscription,
        outcome=outcome,
        since=read_instant(wanted.since, "since"),
        until=read_instant(wanted.until, "until"),
    )


def _mark(text: str | None, target: str) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise invalid(f"'{target}' must be a mark of an earlier page.", target)
    return int(text)
