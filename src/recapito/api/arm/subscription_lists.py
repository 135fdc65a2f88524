"""Lists of event subscriptions across topics: by group, Azure subscription, location and topic type.

Azure separates global from regional ones by the location of their topic; here a list without a location has all.
"""

from collections.abc import AsyncIterator
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from recapito.api.arm.paging import page_start_id, show_page
from recapito.api.arm.routing import PROVIDER, ArmRoute, in_group, in_subscription
from recapito.api.arm.scope import scope_of
from recapito.api.body import BodyReader
from recapito.api.services import Services
from recapito.api.wire.decode import Shown
from recapito.domain.resources.subscription import Subscription
from recapito.domain.resources.topic import Topic, TopicKind
from recapito.errors import RecordDamaged
from recapito.intake.resources.topics import is_at

_LAST = "/eventSubscriptions"
_PATHS = (
    f"{PROVIDER}{_LAST}",
    f"{PROVIDER}/topicTypes/{{topic_type}}{_LAST}",
    f"{PROVIDER}/locations/{{location}}{_LAST}",
    f"{PROVIDER}/locations/{{location}}/topicTypes/{{topic_type}}{_LAST}",
)
_OWN_TYPES = {TopicKind.CUSTOM: "microsoft.eventgrid.topics", TopicKind.DOMAIN: "microsoft.eventgrid.domains"}
_REMEMBERED = 1000


class _ListedSubscription(NamedTuple):
    topic: Topic
    subscription: Subscription


class SubscriptionLists:
    def __init__(self, services: Services, bodies: BodyReader) -> None:
        self._topics = services.topics
        self._subscriptions = services.subscriptions
        self._registry = services.registry
        self._clock = services.clock

    def routes(self) -> list[ArmRoute]:
        return [ArmRoute(place(path), {"GET": self._list}) for path in _PATHS for place in (in_subscription, in_group)]

    async def _list(self, request: Request) -> Response:
        path = request.path_params
        if "group" in path:
            await self._topics.groups.get(path["subscription"], path["group"])
        return await show_page(request, self._walk(request), _name, _id, partial(_show, now=self._clock.now()))

    async def _walk(self, request: Request) -> AsyncIterator[_ListedSubscription]:
        topics: dict[int, Topic | None] = {}
        async for subscription in self._subscriptions.walk(None, page_start_id(request)):
            if subscription.topic not in topics:
                if len(topics) >= _REMEMBERED:
                    topics.clear()
                with suppress(RecordDamaged):  # a damaged record is left out of lists
                    topics[subscription.topic] = await self._registry.topic_by_id(subscription.topic)
            topic = topics.get(subscription.topic)
            if topic is not None and _is_wanted(topic, request.path_params):
                yield _ListedSubscription(topic, subscription)


def _is_wanted(topic: Topic, path: dict[str, str]) -> bool:
    if not is_at(topic, path["subscription"], path.get("group")):
        return False
    if "location" in path and _plain(topic.location) != _plain(path["location"]):
        return False
    if "topic_type" not in path:
        return True
    kind = topic.source.topic_type.lower() if topic.source is not None else _OWN_TYPES[topic.kind]
    return kind == path["topic_type"].lower()


def _plain(location: str) -> str:
    """A location for comparison: Azure's locations have a name and a title, `westus2` and `West US 2`."""
    return location.replace(" ", "").lower()


def _show(listed: _ListedSubscription, now: int) -> Shown:
    return scope_of(listed.topic, listed.subscription).show(listed.subscription, now)


def _name(listed: _ListedSubscription) -> str:
    return listed.subscription.name


def _id(listed: _ListedSubscription) -> int:
    return listed.subscription.id
