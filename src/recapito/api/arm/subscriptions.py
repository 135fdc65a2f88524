"""Event subscriptions under ARM's paths: nested under every kind of topic, and as extensions of a scope."""

from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial

from starlette.requests import Request
from starlette.responses import Response

from recapito.api.arm.paging import page_start, page_start_id, show_page
from recapito.api.arm.routing import PROVIDER, ArmRoute, Handler, accepted, answer, gone, in_group, precondition_of
from recapito.api.arm.scope import TOPIC_KINDS, ScopeStyle, SubscriptionScope, parse_scope
from recapito.api.body import BodyReader
from recapito.api.services import Services
from recapito.api.wire.attributes import show_attributes
from recapito.api.wire.decode import invalid, shorten
from recapito.api.wire.subscription import (
    SubscriptionBody,
    SubscriptionProperties,
    read_subscription,
    read_subscription_change,
)
from recapito.domain import limits
from recapito.domain.resources.destination import WebHook
from recapito.domain.resources.subscription import Subscription
from recapito.domain.resources.topic import TopicKind
from recapito.domain.resources.topic_type import STORAGE
from recapito.errors import CallerError, InvalidInput, NotFound
from recapito.intake.resources.not_found import parent_missing, subscription_missing
from recapito.intake.resources.storage_accounts import StorageAccount, account_of

_NESTED = {
    TopicKind.CUSTOM: ("/topics/{topic}",),
    TopicKind.DOMAIN: ("/domains/{topic}", "/domains/{topic}/topics/{domain_topic}"),
    TopicKind.SYSTEM: ("/systemTopics/{topic}",),
}
_EXTENSION = "/{scope:path}" + PROVIDER
_WAITING_RETRY_S = "2"

ScopeFinder = Callable[[Request], Awaitable[SubscriptionScope]]


class SubscriptionManagement:
    def __init__(self, services: Services, bodies: BodyReader) -> None:
        self._topics = services.topics
        self._subscriptions = services.subscriptions
        self._bodies = bodies
        self._clock = services.clock

    def routes(self) -> list[ArmRoute]:
        nested = [
            route
            for kind, paths in _NESTED.items()
            for path in paths
            for route in self._routes(f"{in_group(PROVIDER)}{path}/eventSubscriptions", partial(self._nested, kind))
        ]
        return nested + self._routes(_EXTENSION + "/eventSubscriptions", self._scope)

    def _routes(self, path: str, find: ScopeFinder) -> list[ArmRoute]:
        handlers: dict[str, Handler] = {
            "GET": partial(self._get, find),
            "PUT": partial(self._put, find),
            "PATCH": partial(self._patch, find),
            "DELETE": partial(self._delete, find),
        }
        return [
            ArmRoute(path, {"GET": partial(self._list, find)}),
            ArmRoute(path + "/{name}", handlers, {"PUT": SubscriptionBody, "PATCH": SubscriptionProperties}),
            ArmRoute(path + "/{name}/getFullUrl", {"POST": partial(self._full_url, find)}),
            ArmRoute(path + "/{name}/getDeliveryAttributes", {"POST": partial(self._attributes, find)}),
        ]

    async def _body(self, request: Request) -> bytes:
        return await self._bodies.read(dict(request.scope["headers"]), request.receive, limits.MANAGE_BODY_BYTES)

    async def _nested(self, kind: TopicKind, request: Request) -> SubscriptionScope:
        path = request.path_params
        return await self._topic_scope(
            kind, path["subscription"], path["group"], path["topic"], path.get("domain_topic"), ScopeStyle.NESTED
        )

    async def _scope(self, request: Request) -> SubscriptionScope:
        path = request.path_params["scope"]
        scope = parse_scope(path)
        if scope is None:
            raise invalid("The scope in front of '/providers/Microsoft.EventGrid' is not a resource id.", "scope")
        if scope.group is not None:
            kind = TOPIC_KINDS.get(scope.type)
            if kind is not None and (not scope.child or (kind is TopicKind.DOMAIN and scope.child_type == "topics")):
                return await self._topic_scope(
                    kind, scope.subscription, scope.group, scope.name, scope.child or None, ScopeStyle.SCOPE
                )
            if scope.type == STORAGE.resource_type.lower() and not scope.child:
                return await self._account_scope(scope.subscription, scope.group, scope.name, request.method == "PUT")
        topic = await self._topics.system_topic_of(f"/{path.strip('/')}")
        if topic is not None:
            return SubscriptionScope(topic, None, ScopeStyle.SCOPE)
        if scope.group is None:
            raise _no_events(request, "an Azure subscription")
        raise _no_events(request, f"'{shorten(scope.type)}'" if scope.type else "a resource group")

    async def _account_scope(self, subscription: str, group: str, name: str, making: bool) -> SubscriptionScope:
        """The scope of a storage account: it has a system topic already, or must be registered."""
        id = f"/subscriptions/{subscription}/resourceGroups/{group}/providers/{STORAGE.resource_type}/{name}"
        topic = await self._topics.system_topic_of(id)
        if topic is None:
            try:
                account = await self._topics.accounts.get(subscription, group, name)
            except NotFound as error:
                raise _unregistered(error, account_of(id)) from None
            topic = await self._topics.system_topic_for(account, making)
        if topic is None:
            raise parent_missing("Microsoft.EventGrid/eventSubscriptions", id)
        return SubscriptionScope(topic, None, ScopeStyle.SCOPE)

    async def _topic_scope(
        self, kind: TopicKind, subscription: str, group: str, name: str, domain_topic: str | None, form: ScopeStyle
    ) -> SubscriptionScope:
        try:
            topic = await self._topics.get(subscription, group, name, kind)
        except NotFound as error:
            if error.code != "ResourceNotFound":
                raise
            parent = f"/subscriptions/{subscription}/resourceGroups/{group}{PROVIDER}/{kind}/{name}"
            raise parent_missing("Microsoft.EventGrid/eventSubscriptions", parent) from None
        return SubscriptionScope(topic, domain_topic, form)

    async def _find(self, find: ScopeFinder, request: Request) -> tuple[SubscriptionScope, Subscription]:
        scope = await find(request)
        name = request.path_params["name"]
        return scope, await self._subscriptions.get(scope.topic, name, scope.domain_topic)

    async def _list(self, find: ScopeFinder, request: Request) -> Response:
        try:
            scope = await find(request)
        except NotFound as error:
            if error.code != "ParentResourceNotFound" or not _is_account(request.path_params.get("scope", "")):
                raise
            return answer({"value": []})  # an account without subscriptions has no system topic
        show = partial(scope.show, now=self._clock.now())
        if scope.domain_topic is not None:
            walk = self._subscriptions.walk_domain_topic(scope.topic, scope.domain_topic, page_start(request))
            return await show_page(request, walk, _name, _name, show)

        async def of_the_topic_itself() -> AsyncIterator[Subscription]:
            async for subscription in self._subscriptions.walk(scope.topic, page_start_id(request)):
                if subscription.domain_topic is None:
                    yield subscription

        return await show_page(request, of_the_topic_itself(), _name, _id, show)

    async def _get(self, find: ScopeFinder, request: Request) -> Response:
        scope, subscription = await self._find(find, request)
        response = answer(scope.show(subscription, self._clock.now()), etag=subscription.version)
        if subscription.handshake is not None:
            response.headers["retry-after"] = _WAITING_RETRY_S  # a client that waits for the handshake asks again soon
        return response

    async def _put(self, find: ScopeFinder, request: Request) -> Response:
        body = await self._body(request)
        draft = read_subscription(body, request.path_params["name"])
        scope = await find(request)
        draft = draft.changed(domain_topic=scope.domain_topic)
        try:
            stored = await self._subscriptions.put(scope.topic, draft, precondition_of(request))
        except CallerError:
            await self._topics.tidy_system_topic(scope.topic)
            raise
        return self._accepted(scope, stored)

    async def _patch(self, find: ScopeFinder, request: Request) -> Response:
        change = read_subscription_change(await self._body(request))
        scope, subscription = await self._find(find, request)
        stored = await self._subscriptions.change(
            scope.topic, subscription.name, scope.domain_topic, change, precondition_of(request)
        )
        return self._accepted(scope, stored)

    def _accepted(self, scope: SubscriptionScope, stored: Subscription) -> Response:
        state = "Creating" if stored.version == 1 else "Updating"
        return accepted(scope.show(stored, self._clock.now(), state), stored.version)

    async def _delete(self, find: ScopeFinder, request: Request) -> Response:
        precondition = precondition_of(request)
        try:
            scope = await find(request)
            name = request.path_params["name"]
            await self._subscriptions.delete(scope.topic, name, scope.domain_topic, precondition)
        except NotFound:
            precondition.check(None)
            return gone(found=False)
        return gone()

    async def _full_url(self, find: ScopeFinder, request: Request) -> Response:
        _, subscription = await self._find(find, request)
        destination = (subscription.proposed or subscription).destination
        return answer({"endpointUrl": destination.url if isinstance(destination, WebHook) else None})

    async def _attributes(self, find: ScopeFinder, request: Request) -> Response:
        _, subscription = await self._find(find, request)
        return answer({"value": show_attributes((subscription.proposed or subscription).attributes, secrets=True)})


def _unregistered(error: NotFound, account: StorageAccount | None) -> NotFound:
    """The error for an account that is not registered, with the commands that register it."""
    if account is None:
        return error
    register = f"az storage account create -g {account.resource_group} -n {account.name} -l local"
    topic = f"recapito system-topic create {account.name} --topic-type {STORAGE.name} --source {account.resource_id}"
    return NotFound(error.code, f"{error.message} Register it first: {register}; or {topic}")


def _no_events(request: Request, what: str) -> CallerError:
    """The error for a scope that publishes no events here: it cannot have subscriptions."""
    if request.method == "PUT":
        message = f"This server has no events of {what} without a system topic: recapito system-topic create."
        return InvalidInput("NotSupported", message, "scope")
    return subscription_missing(request.path_params.get("name", ""))


def _is_account(path: str) -> bool:
    scope = parse_scope(path)
    return scope is not None and scope.type == STORAGE.resource_type.lower()


def _name(subscription: Subscription) -> str:
    return subscription.name


def _id(subscription: Subscription) -> int:
    return subscription.id
