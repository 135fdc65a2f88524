"""The list of all resources of a group or of an Azure subscription, with the simple form of its `$filter`."""

import re
from collections.abc import AsyncIterator

from starlette.requests import Request
from starlette.responses import Response

from recapito.api.arm.routing import ArmRoute, answer, in_group, in_subscription, query
from recapito.api.body import BodyReader
from recapito.api.services import Services
from recapito.api.wire.decode import Shown, invalid
from recapito.domain import limits
from recapito.domain.resources.topic import TopicKind
from recapito.intake.resources.storage_accounts import TYPE
from recapito.intake.resources.topics import is_at

PAGE = 100
_TERM = re.compile(r"\s*(resourceType|name|resourceGroup|location)\s+(eq|ne)\s+'([^']*)'\s*", re.IGNORECASE)


class ResourceList:
    """The handler of the list. It returns one page: the quotas bound the number of resources."""

    def __init__(self, services: Services, bodies: BodyReader) -> None:
        self._topics = services.topics

    def routes(self) -> list[ArmRoute]:
        return [ArmRoute(place("/resources"), {"GET": self._list}) for place in (in_subscription, in_group)]

    async def _list(self, request: Request) -> Response:
        path = request.path_params
        if "group" in path:
            await self._topics.groups.get(path["subscription"], path["group"])
        terms = _read_terms(query(request, "$filter"))
        resources = self._walk(path["subscription"], path.get("group"))
        return answer({"value": [_bare(resource) async for resource in resources if _passes(resource, terms)]})

    async def _walk(self, subscription: str, group: str | None) -> AsyncIterator[Shown]:
        for kind in TopicKind:
            async for topic in self._topics.walk(kind):
                if is_at(topic, subscription, group):
                    type = f"Microsoft.EventGrid/{kind}"
                    yield _show(topic.resource_id, topic.name, type, topic.resource_group, topic.location, topic.tags)
        after = ""
        while page := await self._topics.accounts.page(after, PAGE):
            for account in page:
                if account.is_at(subscription, group):
                    group_name = account.resource_group
                    yield _show(account.resource_id, account.name, TYPE, group_name, account.location, account.tags)
            after = page[-1].name


def _show(id: str, name: str, type: str, group: str, location: str, tags: dict[str, str]) -> Shown:
    return {"id": id, "name": name, "type": type, "location": location, "tags": tags, "group": group}


def _bare(resource: Shown) -> Shown:
    return {name: value for name, value in resource.items() if name != "group"}


def _read_terms(text: str) -> list[tuple[str, bool, str]]:
    """The comparisons of a filter, all of which must hold: the property, whether it must be equal, and the value."""
    if not text.strip():
        return []
    matches = [_TERM.fullmatch(part) for part in re.split(r"\sand\s", text[: limits.LIST_FILTER_CHARS])]
    terms = [(term[1].lower(), term[2].lower() == "eq", term[3].lower()) for term in matches if term]
    if len(terms) != len(matches):
        raise invalid(
            "'$filter' may compare resourceType, name, resourceGroup and location with eq or ne, joined by and.",
            "$filter",
        )
    return terms


def _passes(resource: Shown, terms: list[tuple[str, bool, str]]) -> bool:
    names = {"resourcetype": "type", "resourcegroup": "group"}
    return all((resource[names.get(name, name)].lower() == value) is equal for name, equal, value in terms)
