"""Damaged records over HTTP: listed, shown with their bytes, and dismissed. Callers need the right to manage."""

from base64 import b64encode

from starlette.requests import Request
from starlette.responses import Response

from recapito.api.arm.routing import answer
from recapito.api.auth.management import admit
from recapito.api.body import BodyReader
from recapito.api.docs.documented_route import DocumentedRoute, names_in, read_query
from recapito.api.services import Services
from recapito.api.wire.decode import Body, Shown, check_range, decode
from recapito.domain import limits
from recapito.intake.maintenance.damage_report import NamedDamage

PATH = "/damaged"


class _WantedDamage(Body):
    after: int = 0
    limit: int = limits.DAMAGED_PAGE_DEFAULT


class DismissBody(Body):
    """The number of the last record to dismiss."""

    number: int


class DamagedRecords:
    def __init__(self, services: Services, bodies: BodyReader) -> None:
        self._damages = services.damages
        self._bodies = bodies

    def routes(self) -> list[DocumentedRoute]:
        return [
            DocumentedRoute(PATH, self._list, queries=names_in(_WantedDamage)),
            DocumentedRoute(f"{PATH}/dismiss", self._dismiss, DismissBody),
            DocumentedRoute(PATH + "/{name:path}", self._show),
        ]

    async def _list(self, request: Request) -> Response:
        await admit(request)
        wanted = read_query(request, _WantedDamage)
        check_range(wanted.limit, limits.DAMAGED_PAGE, "limit")
        records = await self._damages.page(wanted.after, wanted.limit)
        more = bool(records) and records[-1].number and len(records) >= wanted.limit
        return answer({"value": [_show(record) for record in records], "next": records[-1].number if more else None})

    async def _show(self, request: Request) -> Response:
        await admit(request)
        record = await self._damages.find(request.path_params["name"])
        content, columns = (b64encode(part).decode() for part in (record.damage.content, record.damage.columns))
        return answer({**_show(record), "content": content, "columns": columns})

    async def _dismiss(self, request: Request) -> Response:
        await admit(request)
        body = await self._bodies.read(dict(request.scope["headers"]), request.receive, limits.MANAGE_BODY_BYTES)
        wanted = decode(body, DismissBody)
        await self._damages.dismiss(wanted.number)
        return answer({"dismissed": wanted.number})


def _show(record: NamedDamage) -> Shown:
    damage = record.damage
    return {
        "name": record.name,
        "number": record.number,
        "table": damage.table,
        "topic": record.topic,
        "topicId": damage.topic,
        "subscription": record.subscription,
        "subscriptionId": damage.lane,
        "position": damage.position,
        "offset": damage.offset,
        "events": damage.events,
        "bytes": len(damage.content) + len(damage.columns),
        "dismissed": record.dismissed,
    }
