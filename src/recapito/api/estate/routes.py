"""Estates over HTTP: `POST /estate` plans or applies a document, `GET /estate` exports one without secrets.

An error's `target` is the path of the key in the document; the caller knows its line.
"""

from typing import Any, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from recapito.api.arm.routing import answer, query
from recapito.api.auth.management import admit
from recapito.api.body import BodyReader
from recapito.api.estate.expansion import Expander
from recapito.api.estate.export import as_estate, as_template
from recapito.api.estate.manager import Estate, EstateManager, Report
from recapito.api.estate.portion import Portion, pack, report_of
from recapito.api.estate.spread import EXPORT, PATH, SOURCES, STATE
from recapito.api.services import Services
from recapito.api.wire.decode import Body, Shown, check_choice, decode
from recapito.domain import limits
from recapito.domain.estate.estate import DEFAULT_GROUP, NO_SUBSCRIPTION
from recapito.domain.templates.evaluator import Surroundings
from recapito.intake.resources.validation import DEFAULT_LOCATION, check_scope

_FORMATS = ("estate", "arm")
T = TypeVar("T")


class EstateBody(Body):
    """A document to apply. The place is that of a template; an estate names its own."""

    document: Any
    parameters: dict[str, Any] | None = None
    azure_subscription: str | None = None
    resource_group: str | None = None
    dry_run: bool | None = None
    prune: bool | None = None


class AskedState(msgspec.Struct, frozen=True):
    """A question of a template about a resource."""

    id: str
    verb: str


class EstateRoutes:
    def __init__(self, services: Services, bodies: BodyReader) -> None:
        self._services = services
        self._bodies = bodies

    def routes(self) -> list[Route]:
        return [
            Route("/estate", self._export, methods=["GET"]),
            Route("/estate", self._apply, methods=["POST"]),
            Route("/estate/export", self._export_secrets, methods=["POST"]),
        ]

    async def _apply(self, request: Request) -> Response:
        await admit(request)
        headers = dict(request.scope["headers"])
        sent = decode(await self._bodies.read(headers, request.receive, limits.ESTATE_BYTES), EstateBody)
        place = Surroundings(
            sent.azure_subscription or NO_SUBSCRIPTION, sent.resource_group or DEFAULT_GROUP, DEFAULT_LOCATION
        )
        check_scope(place.azure_subscription, "azureSubscription")
        check_scope(place.resource_group, "resourceGroup")
        estate = estate_for(request, self._services)
        expander = Expander(estate.state, self._services.public_url)
        expansion = await expander.expand(sent.document, sent.parameters or {}, place)
        if sent.dry_run:
            report = Report(await estate.plan(expansion.resources, bool(sent.prune)))
        else:
            report = await estate.apply(expansion.resources, bool(sent.prune))
        return answer(report.show())

    async def _export(self, request: Request) -> Response:
        await admit(request)
        return answer(await self._document(request, secrets=False))

    async def _export_secrets(self, request: Request) -> Response:
        """The same with secrets, for a principal that may change them."""
        await admit(request)
        return answer(await self._document(request, secrets=True))

    async def _document(self, request: Request, secrets: bool) -> Shown:
        form = check_choice(query(request, "format") or "estate", _FORMATS, "format")
        resources = await estate_for(request, self._services).export(secrets)
        if form == "estate":
            return as_estate(resources, secrets)
        azure = query(request, "azuresubscription") or NO_SUBSCRIPTION
        return as_template(resources, azure, query(request, "resourcegroup") or DEFAULT_GROUP)


class PortionRoutes:
    """A partition's own part of estates, which the partition that coordinates asks for."""

    def __init__(self, services: Services, bodies: BodyReader) -> None:
        assert services.estate is not None
        self._estate: EstateManager = services.estate
        self._bodies = bodies

    def routes(self) -> list[Route]:
        return [
            Route(PATH, self._export, methods=["GET"]),
            Route(PATH, self._make, methods=["POST"]),
            Route(EXPORT, self._export_secrets, methods=["POST"]),
            Route(STATE, self._state, methods=["POST"]),
            Route(SOURCES, self._sources, methods=["POST"]),
        ]

    async def _make(self, request: Request) -> Response:
        sent = await self._read(request, Portion)
        if sent.dry_run:
            report = Report(await self._estate.plan(sent.resources, sent.prune, sent.kept))
        else:
            report = await self._estate.apply(sent.resources, sent.prune, sent.kept)
        return _encoded(report_of(report))

    async def _export(self, request: Request) -> Response:
        await admit(request)
        return _encoded([pack(one, secrets=False) for one in await self._estate.export(secrets=False)])

    async def _export_secrets(self, request: Request) -> Response:
        await admit(request)
        return _encoded([pack(one, secrets=True) for one in await self._estate.export(secrets=True)])

    async def _state(self, request: Request) -> Response:
        sent = await self._read(request, AskedState)
        return answer({"state": await self._estate.state(sent.id, sent.verb)})

    async def _sources(self, request: Request) -> Response:
        return _encoded(await self._estate.topics_of(await self._read(request, list[str])))

    async def _read(self, request: Request, type: type[T]) -> T:
        await admit(request)
        headers = dict(request.scope["headers"])
        return msgspec.json.decode(await self._bodies.read(headers, request.receive, limits.PORTION_BYTES), type=type)


def _encoded(content: Any) -> Response:
    return Response(msgspec.json.encode(content), media_type="application/json")


def estate_for(request: Request, services: Services) -> Estate:
    """The estate that a client sees: that of this server, or that of all partitions."""
    assert services.estate is not None
    return services.estate if services.spread is None else services.spread.on_behalf_of(request.scope)
