"""Management: topics and their event subscriptions under ARM's paths, with the statuses that the Azure SDKs accept."""

from functools import partial

from starlette.requests import Request
from starlette.responses import Response

from recapito.api import arm
from recapito.api.arm import ArmRoute, Handler, answer
from recapito.api.body import BodyReader
from recapito.api.services import Services
from recapito.api.wire import invalid
from recapito.api.wire_subscription import Form, read_subscription, show_subscription
from recapito.api.wire_topic import read_key_name, read_topic, show_keys, show_topic
from recapito.domain import limits
from recapito.domain.topic import Topic
from recapito.errors import NotFound

_PROVIDER = "/providers/Microsoft.EventGrid"
_IN_SUBSCRIPTION = "/subscriptions/{subscription}" + _PROVIDER + "/topics"
_IN_GROUP = "/subscriptions/{subscription}/resourceGroups/{group}" + _PROVIDER + "/topics"
_TOPIC = _IN_GROUP + "/{topic}"
_SUBSCRIPTIONS = {
    Form.NESTED: _TOPIC + "/eventSubscriptions",
    Form.SCOPE: _TOPIC + _PROVIDER + "/eventSubscriptions",
}


class Management:
    """The handlers of the management API, and their routes."""

    def __init__(self, services: Services, bodies: BodyReader) -> None:
        self._provisioner = services.provisioner
        self._public_url = services.public_url
        self._clock = services.clock
        self._bodies = bodies

    def routes(self) -> list[ArmRoute]:
        """Every path, with its methods."""
        topics = [
            ArmRoute(_IN_SUBSCRIPTION, {"GET": self._list_topics}),
            ArmRoute(_IN_GROUP, {"GET": self._list_topics}),
            ArmRoute(_TOPIC, {"GET": self._get_topic, "PUT": self._put_topic, "DELETE": self._delete_topic}),
            ArmRoute(_TOPIC + "/listKeys", {"POST": self._list_keys}),
            ArmRoute(_TOPIC + "/regenerateKey", {"POST": self._regenerate_key}),
        ]
        return topics + [
            route for form, path in _SUBSCRIPTIONS.items() for route in self._subscription_routes(form, path)
        ]

    def _subscription_routes(self, form: Form, path: str) -> list[ArmRoute]:
        one: dict[str, Handler] = {
            "GET": partial(self._get_subscription, form),
            "PUT": partial(self._put_subscription, form),
            "DELETE": self._delete_subscription,
        }
        return [
            ArmRoute(path, {"GET": partial(self._list_subscriptions, form)}),
            ArmRoute(path + "/{name}", one),
        ]

    async def _body(self, request: Request) -> bytes:
        return await self._bodies.read(dict(request.scope["headers"]), request.receive, limits.MANAGE_BODY_BYTES)

    async def _topic(self, request: Request) -> Topic:
        path = request.path_params
        return await self._provisioner.topic(path["subscription"], path["group"], path["topic"])

    async def _list_topics(self, request: Request) -> Response:
        path = request.path_params
        topics, after = await self._provisioner.topics(
            path["subscription"], path.get("group"), arm.page_start(request), arm.page_size(request)
        )
        return arm.page(request, [show_topic(topic, self._public_url) for topic in topics], after)

    async def _get_topic(self, request: Request) -> Response:
        topic = await self._topic(request)
        return answer(show_topic(topic, self._public_url), etag=topic.version)

    async def _put_topic(self, request: Request) -> Response:
        path = request.path_params
        draft = read_topic(await self._body(request), path["subscription"], path["group"], path["topic"])
        topic = await self._provisioner.put_topic(draft)
        return answer(show_topic(topic, self._public_url), 201, topic.version)

    async def _delete_topic(self, request: Request) -> Response:
        try:
            await self._provisioner.delete_topic(await self._topic(request))
        except NotFound:
            return Response(status_code=204)
        return Response(status_code=204)

    async def _list_keys(self, request: Request) -> Response:
        return answer(show_keys(await self._topic(request)))

    async def _regenerate_key(self, request: Request) -> Response:
        topic = await self._topic(request)
        key_name = read_key_name(await self._body(request))
        return answer(show_keys(await self._provisioner.regenerate_key(topic, key_name)))

    async def _list_subscriptions(self, form: Form, request: Request) -> Response:
        topic = await self._topic(request)
        start = arm.page_start(request) or "0"
        if not (start.isascii() and start.isdigit() and len(start) < 19):
            raise invalid("'$skiptoken' is not one that a list has given.", "$skiptoken")
        found, after = await self._provisioner.subscriptions(topic, int(start), arm.page_size(request))
        return arm.page(request, [show_subscription(topic, one, form, self._clock.now()) for one in found], after)

    async def _get_subscription(self, form: Form, request: Request) -> Response:
        topic = await self._topic(request)
        found = await self._provisioner.subscription(topic, request.path_params["name"])
        return answer(show_subscription(topic, found, form, self._clock.now()))

    async def _put_subscription(self, form: Form, request: Request) -> Response:
        topic = await self._topic(request)
        draft = read_subscription(await self._body(request), request.path_params["name"])
        stored = await self._provisioner.put_subscription(topic, draft)
        return answer(show_subscription(topic, stored, form, self._clock.now()), 201)

    async def _delete_subscription(self, request: Request) -> Response:
        try:
            await self._provisioner.delete_subscription(await self._topic(request), request.path_params["name"])
        except NotFound:
            return Response(status_code=204)
        return Response(status_code=200)
