"""Resource groups under ARM's paths."""

from collections.abc import AsyncIterator
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from recapito.api.arm.paging import page_start, show_page
from recapito.api.arm.routing import ArmRoute, answer, gone, in_group, in_subscription
from recapito.api.body import BodyReader
from recapito.api.services import Services
from recapito.api.wire.decode import Body, Shown, check_length, decode
from recapito.api.wire.topic import read_location, read_tags
from recapito.domain import limits
from recapito.errors import NotFound
from recapito.intake.resources.groups import Group

PAGE = 100


class GroupBody(Body):
    """A resource group as sent."""

    location: str | None = None
    tags: dict[str, str] | None = None
    managed_by: str | None = None
    # Fields that only the service writes.
    id: Any = None
    name: Any = None
    type: Any = None
    properties: Any = None


class GroupManagement:
    def __init__(self, services: Services, bodies: BodyReader) -> None:
        self._topics = services.topics
        self._groups = services.topics.groups
        self._bodies = bodies

    def routes(self) -> list[ArmRoute]:
        return [
            ArmRoute(in_subscription("/resourceGroups"), {"GET": self._list}),
            ArmRoute(
                in_group(""),
                {
                    "GET": self._get,
                    "HEAD": self._head,
                    "PUT": self._put,
                    "PATCH": self._patch,
                    "DELETE": self._delete,
                },
                {"PUT": GroupBody, "PATCH": GroupBody},
            ),
        ]

    async def _list(self, request: Request) -> Response:
        async def walk() -> AsyncIterator[Group]:
            after = page_start(request)
            while page := await self._groups.page(request.path_params["subscription"], after, PAGE):
                for group in page:
                    yield group
                after = page[-1].name

        return await show_page(request, walk(), _name, _name, _show)

    async def _get(self, request: Request) -> Response:
        return answer(_show(await self._group(request)))

    async def _head(self, request: Request) -> Response:
        try:
            await self._group(request)
        except NotFound:
            return Response(status_code=404)
        return Response(status_code=204)

    async def _put(self, request: Request) -> Response:
        path = request.path_params
        old = await self._groups.find(path["subscription"], path["group"])
        group = await self._store(request)
        return answer(_show(group), 201 if old is None else 200)

    async def _patch(self, request: Request) -> Response:
        await self._group(request)
        return answer(_show(await self._store(request)))

    async def _delete(self, request: Request) -> Response:
        await self._topics.delete_group(await self._group(request))
        return gone()

    async def _group(self, request: Request) -> Group:
        return await self._groups.get(request.path_params["subscription"], request.path_params["group"])

    async def _store(self, request: Request) -> Group:
        headers = dict(request.scope["headers"])
        draft = read_group(await self._bodies.read(headers, request.receive, limits.MANAGE_BODY_BYTES))
        return await self._groups.put(request.path_params["subscription"], request.path_params["group"], *draft)


def read_group(body: bytes) -> tuple[str | None, dict[str, str] | None, str | None]:
    """The location, the tags and the manager of a group, or an error that names the field."""
    sent = decode(body, GroupBody)
    check_length(sent.managed_by or "", limits.RESOURCE_ID_CHARS, "managedBy")
    location = None if sent.location is None else read_location(sent.location)
    return location, None if sent.tags is None else read_tags(sent.tags), sent.managed_by


def _show(group: Group) -> Shown:
    return {
        "id": group.resource_id,
        "name": group.name,
        "type": "Microsoft.Resources/resourceGroups",
        "location": group.location,
        "tags": group.tags,
        "managedBy": group.managed_by,
        "properties": {"provisioningState": "Succeeded"},
    }


def _name(group: Group) -> str:
    return group.name
