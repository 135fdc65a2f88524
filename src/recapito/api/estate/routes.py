"""Estates over HTTP: `POST /estate` plans or applies a document, `GET /estate` exports one without secrets.

An error's `target` is the path of the key in the document; the caller knows its line.
"""

from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from recapito.api.arm.routing import answer, query
from recapito.api.auth.management import admit
from recapito.api.body import BodyReader
from recapito.api.estate.expansion import Expander
from recapito.api.estate.export import as_estate, as_template, walk_all
from recapito.api.estate.manager import EstateManager, Report
from recapito.api.services import Services
from recapito.api.wire.decode import Body, Shown, check_choice, decode
from recapito.domain import limits
from recapito.domain.estate.estate import DEFAULT_GROUP, NO_SUBSCRIPTION
from recapito.domain.templates.evaluator import Surroundings
from recapito.intake.resources.validation import DEFAULT_LOCATION, check_scope

_FORMATS = ("estate", "arm")


class EstateBody(Body):
    """A document to apply. The place is that of a template; an estate names its own."""

    document: Any
    parameters: dict[str, Any] | None = None
    azure_subscription: str | None = None
    resource_group: str | None = None
    dry_run: bool | None = None
    prune: bool | None = None


class EstateRoutes:
    def __init__(self, services: Services, bodies: BodyReader) -> None:
        assert services.estate is not None
        self._estate: EstateManager = services.estate
        self._expander = Expander(services.estate.parts, services.public_url)
        self._public_url = services.public_url
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
        expansion = await self._expander.expand(sent.document, sent.parameters or {}, place)
        if sent.dry_run:
            report = Report(await self._estate.plan(expansion.resources, bool(sent.prune)))
        else:
            report = await self._estate.apply(expansion.resources, bool(sent.prune))
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
        resources = [one async for one in walk_all(self._estate.parts, self._public_url)]
        if form == "estate":
            return as_estate(resources, secrets)
        azure = query(request, "azuresubscription") or NO_SUBSCRIPTION
        return as_template(resources, azure, query(request, "resourcegroup") or DEFAULT_GROUP)
