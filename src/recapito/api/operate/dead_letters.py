"""Dead letters over HTTP: listed, shown, redriven and purged, a page at a time. Callers need the right to manage.

Each answer names the start of the next page, so a client can stop and continue later.
"""

from contextlib import aclosing

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from recapito.api.arm.routing import answer
from recapito.api.auth.management import admit
from recapito.api.body import BodyReader
from recapito.api.docs.documented_route import DocumentedRoute, names_in, read_instant, read_query
from recapito.api.operate.known_names import unknown_name
from recapito.api.services import Services
from recapito.api.wire.decode import Body, Shown, check_range, decode, invalid
from recapito.domain import limits
from recapito.domain.instant import stamp
from recapito.errors import NotFound
from recapito.intake.dead_letters.redrive import Progress
from recapito.intake.dead_letters.search import DeadLetterQuery, LetterFile, Name, parse_name

PATH = "/deadletters"


class _WantedLetters(Body):
    topic: str | None = None
    subscription: str | None = None
    since: str | None = None
    until: str | None = None
    reason: str | None = None
    event_type: str | None = None
    subject: str | None = None
    redriven: bool | None = None
    after: str | None = None
    limit: int = limits.LETTER_PAGE_DEFAULT


class RedriveBody(_WantedLetters):
    """The letters to send again, and the rate; or the one letter of a name."""

    name: str | None = None
    events_per_second: int | None = None
    dry_run: bool = False


class PurgeBody(_WantedLetters):
    """The letters to remove."""

    dry_run: bool = False


class DeadLetterRoutes:
    def __init__(self, services: Services, bodies: BodyReader) -> None:
        self._redriver = services.redriver
        self._registry = services.registry
        self._bodies = bodies

    def routes(self) -> list[DocumentedRoute]:
        return [
            DocumentedRoute(PATH, self._list, queries=names_in(_WantedLetters)),
            DocumentedRoute(f"{PATH}/redrive", self._redrive, RedriveBody),
            DocumentedRoute(f"{PATH}/purge", self._purge, PurgeBody),
            DocumentedRoute(PATH + "/{name:path}", self._show),
        ]

    async def _list(self, request: Request) -> Response:
        await admit(request)
        wanted = read_query(request, _WantedLetters)
        selection, after = _selection(wanted), _after(wanted)
        letters: list[Shown] = []
        problems: list[str] = []
        last: Name | None = None
        async with aclosing(self._redriver.letters.walk(selection, after)) as files:
            read = 0
            async for file, first in files:
                read += 1
                if file.problem is not None and len(problems) < limits.LETTER_PROBLEMS:
                    problems.append(f"{file.path}: {file.problem}")
                places = file.selected(selection, first)[: wanted.limit - len(letters)]
                letters += [_show(file, place) for place in places]
                if len(letters) >= wanted.limit:
                    last = file.name(places[-1])
                    break
                if read >= limits.LETTER_FILES_READ:
                    last = file.name(len(file.letters))
                    break
        return answer({"value": letters, "problems": problems, "next": None if last is None else str(last)})

    async def _show(self, request: Request) -> Response:
        await admit(request)
        name = parse_name(request.path_params["name"])
        file = await self._redriver.letters.find(name)
        return answer({**_show(file, name.place), "record": msgspec.Raw(file.letters[name.place].record)})

    async def _redrive(self, request: Request) -> Response:
        await admit(request)
        wanted = decode(await self._body(request), RedriveBody)
        if wanted.events_per_second is not None:
            check_range(wanted.events_per_second, limits.REDRIVE_RATE, "eventsPerSecond")
        if wanted.redriven is not None:
            raise invalid("'redriven' cannot be set: a letter that was redriven is not redriven again.", "redriven")
        if wanted.name is not None:
            if wanted.dry_run or wanted.events_per_second is not None:
                raise invalid("A letter that is named is redriven at once.", "name")
            return answer(msgspec.to_builtins(await self._redriver.redrive_one(parse_name(wanted.name))))
        progress = await self._redriver.redrive(
            _selection(wanted), _after(wanted), wanted.limit, wanted.events_per_second, wanted.dry_run
        )
        await self._refuse_unknown(wanted, progress)
        return answer(msgspec.to_builtins(progress))

    async def _purge(self, request: Request) -> Response:
        await admit(request)
        wanted = decode(await self._body(request), PurgeBody)
        progress = await self._redriver.purge(_selection(wanted), _after(wanted), wanted.limit, wanted.dry_run)
        await self._refuse_unknown(wanted, progress)
        return answer(msgspec.to_builtins(progress))

    async def _refuse_unknown(self, wanted: _WantedLetters, progress: Progress) -> None:
        """Raise NotFound if nothing was selected because there is no topic or subscription of the given name."""
        if progress.selected or progress.refused or progress.next is not None or wanted.after:
            return
        field = await unknown_name(self._registry, wanted.topic, wanted.subscription)
        if field == "topic":
            raise NotFound("TopicNotFound", f"There is no topic '{wanted.topic}'.", field)
        if field == "subscription":
            of = "" if wanted.topic is None else f" of topic '{wanted.topic}'"
            text = f"There is no event subscription '{wanted.subscription}'{of}."
            raise NotFound("EventSubscriptionNotFound", text, field)

    async def _body(self, request: Request) -> bytes:
        return await self._bodies.read(dict(request.scope["headers"]), request.receive, limits.MANAGE_BODY_BYTES)


def _selection(wanted: _WantedLetters) -> DeadLetterQuery:
    check_range(wanted.limit, limits.LETTER_PAGE, "limit")
    return DeadLetterQuery(
        topic=wanted.topic,
        subscription=wanted.subscription,
        since=read_instant(wanted.since, "since"),
        until=read_instant(wanted.until, "until"),
        reason=wanted.reason,
        event_type=wanted.event_type,
        subject=wanted.subject,
        redriven=wanted.redriven,
    )


def _after(wanted: _WantedLetters) -> Name | None:
    if not wanted.after:
        return None
    try:
        return parse_name(wanted.after)
    except NotFound:
        raise invalid("'after' must be the name of a dead letter.", "after") from None


def _show(file: LetterFile, place: int) -> Shown:
    letter, mark = file.letters[place], file.redriven.get(place)
    return {
        "name": str(file.name(place)),
        "topic": file.origin.topic.name,
        "subscription": file.origin.subscription.name,
        "container": file.origin.container,
        "path": file.path,
        "reason": letter.reason,
        "eventId": letter.id,
        "eventType": letter.type,
        "subject": letter.subject,
        "deliveryAttempts": letter.attempts,
        "lastDeliveryOutcome": letter.outcome,
        "publishTime": letter.published,
        "redriven": None if mark is None else {"at": stamp(mark.at), "redrive": mark.redrive},
    }
