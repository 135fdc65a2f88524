"""Topics, domains and system topics under ARM's paths: one set of handlers for the three kinds."""

from collections.abc import AsyncIterator
from functools import partial

from starlette.requests import Request
from starlette.responses import Response

from recapito.api.arm.paging import page_start, show_page
from recapito.api.arm.routing import (
    PROVIDER,
    ArmRoute,
    Handler,
    accepted,
    answer,
    gone,
    in_group,
    in_subscription,
    precondition_of,
)
from recapito.api.body import BodyReader
from recapito.api.services import Services
from recapito.api.wire.topic import (
    BODIES,
    RegenerateBody,
    read_key_name,
    read_topic,
    read_topic_change,
    show_keys,
    show_topic,
)
from recapito.domain import limits
from recapito.domain.resources.topic import Topic, TopicKind
from recapito.errors import NotFound
from recapito.intake.resources.topics import is_at


class TopicManagement:
    def __init__(self, services: Services, bodies: BodyReader) -> None:
        self._topics = services.topics
        self._public_url = services.public_url
        self._opens_system_topics = services.opens_system_topics
        self._bodies = bodies

    def routes(self) -> list[ArmRoute]:
        return [route for kind in TopicKind for route in self._routes(kind)]

    def _routes(self, kind: TopicKind) -> list[ArmRoute]:
        handlers: dict[str, Handler] = {
            "GET": partial(self._get, kind),
            "PUT": partial(self._put, kind),
            "PATCH": partial(self._patch, kind),
            "DELETE": partial(self._delete, kind),
        }
        path = f"{in_group(PROVIDER)}/{kind}/{{topic}}"
        routes = [
            ArmRoute(f"{in_subscription(PROVIDER)}/{kind}", {"GET": partial(self._list, kind)}),
            ArmRoute(f"{in_group(PROVIDER)}/{kind}", {"GET": partial(self._list, kind)}),
            ArmRoute(path, handlers, dict.fromkeys(("PUT", "PATCH"), BODIES[kind])),
        ]
        if kind is not TopicKind.SYSTEM or self._opens_system_topics:  # others have no use for keys
            routes += [
                ArmRoute(f"{path}/listKeys", {"POST": partial(self._list_keys, kind)}),
                ArmRoute(
                    f"{path}/regenerateKey", {"POST": partial(self._regenerate_key, kind)}, {"POST": RegenerateBody}
                ),
            ]
        return routes

    async def _body(self, request: Request) -> bytes:
        return await self._bodies.read(dict(request.scope["headers"]), request.receive, limits.MANAGE_BODY_BYTES)

    async def _topic(self, kind: TopicKind, request: Request) -> Topic:
        path = request.path_params
        return await self._topics.get(path["subscription"], path["group"], path["topic"], kind)

    async def _list(self, kind: TopicKind, request: Request) -> Response:
        path = request.path_params
        if "group" in path:
            await self._topics.groups.get(path["subscription"], path["group"])

        async def walk() -> AsyncIterator[Topic]:
            async for topic in self._topics.walk(kind, page_start(request)):
                if is_at(topic, path["subscription"], path.get("group")):
                    yield topic

        return await show_page(request, walk(), _name, _name, partial(show_topic, public_url=self._public_url))

    async def _get(self, kind: TopicKind, request: Request) -> Response:
        topic = await self._topic(kind, request)
        return answer(show_topic(topic, self._public_url), etag=topic.version)

    async def _put(self, kind: TopicKind, request: Request) -> Response:
        path = request.path_params
        draft = read_topic(kind, await self._body(request), path["subscription"], path["group"], path["topic"])
        return self._accepted(await self._topics.put(draft, precondition_of(request)))

    async def _patch(self, kind: TopicKind, request: Request) -> Response:
        topic = await self._topic(kind, request)
        change = read_topic_change(kind, await self._body(request))
        return self._accepted(await self._topics.change(topic, change, precondition_of(request)))

    async def _delete(self, kind: TopicKind, request: Request) -> Response:
        try:
            await self._topics.delete(await self._topic(kind, request), precondition_of(request))
        except NotFound:
            precondition_of(request).check(None)
        return gone(found=False)  # the SDKs do not accept 200 here

    async def _list_keys(self, kind: TopicKind, request: Request) -> Response:
        return answer(show_keys(await self._topic(kind, request)))

    async def _regenerate_key(self, kind: TopicKind, request: Request) -> Response:
        topic = await self._topic(kind, request)
        key_name = read_key_name(await self._body(request))
        return answer(show_keys(await self._topics.regenerate_key(topic, key_name)))

    def _accepted(self, topic: Topic) -> Response:
        state = "Creating" if topic.version == 1 else "Updating"
        return accepted(show_topic(topic, self._public_url, state), topic.version)


def _name(topic: Topic) -> str:
    return topic.name
