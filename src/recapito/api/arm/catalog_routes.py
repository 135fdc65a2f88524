"""What clients look up before and besides the resources: tenants, subscriptions, locations, providers, topic types."""

from starlette.requests import Request
from starlette.responses import Response

from recapito.api.arm import catalog
from recapito.api.arm.routing import PROVIDER, ArmRoute, answer, in_group, in_subscription
from recapito.api.arm.scope import parse_scope
from recapito.api.body import BodyReader
from recapito.api.services import Services
from recapito.api.wire.decode import shorten
from recapito.domain.resources.topic_type import STORAGE, TOPIC_TYPES, TopicType, topic_type
from recapito.errors import NotFound
from recapito.intake.resources import rules

_VERBS = (("read", "Read"), ("write", "Create or update"), ("delete", "Delete"))


class CatalogManagement:
    """The handlers of what is looked up, and their routes."""

    def __init__(self, services: Services, bodies: BodyReader) -> None:
        self._topics = services.topics
        issuer = services.access.issuer
        self._tenant = catalog.NO_TENANT if issuer is None else issuer.tenant

    def routes(self) -> list[ArmRoute]:
        """Every path, with its methods."""
        types = PROVIDER + "/topicTypes"
        provider = in_subscription("/providers/{namespace}")
        resource = in_group("/providers/{namespace}/{type}/{name}")
        return [
            ArmRoute("/tenants", {"GET": self._tenants}),
            ArmRoute("/subscriptions", {"GET": self._subscriptions}),
            ArmRoute(in_subscription(""), {"GET": self._subscription}),
            ArmRoute(in_subscription("/locations"), {"GET": self._locations}),
            ArmRoute(in_subscription("/providers"), {"GET": self._providers}),
            ArmRoute(provider, {"GET": self._provider}),
            ArmRoute(provider + "/register", {"POST": self._provider}),
            ArmRoute(provider + "/unregister", {"POST": self._provider}),
            ArmRoute(types, {"GET": self._topic_types}),
            ArmRoute(types + "/{type}", {"GET": self._topic_type}),
            ArmRoute(types + "/{type}/eventTypes", {"GET": self._event_types}),
            ArmRoute(PROVIDER + "/operations", {"GET": self._operations}),
            ArmRoute(resource + PROVIDER + "/eventTypes", {"GET": self._event_types_of_resource}),
            ArmRoute("/{scope:path}" + PROVIDER + "/extensionTopics/default", {"GET": self._extension_topic}),
        ]

    async def _tenants(self, request: Request) -> Response:
        return answer({"value": [catalog.show_tenant(self._tenant)]})

    async def _subscriptions(self, request: Request) -> Response:
        ids = await self._topics.groups.azure_subscriptions()
        if catalog.SUBSCRIPTION not in ids:
            ids.insert(0, catalog.SUBSCRIPTION)
        return answer({"value": [catalog.show_subscription(id, self._tenant) for id in ids]})

    async def _subscription(self, request: Request) -> Response:
        id = request.path_params["subscription"]
        rules.check_scope(id, "subscriptionId")
        return answer(catalog.show_subscription(id, self._tenant))

    async def _locations(self, request: Request) -> Response:
        return answer({"value": [catalog.show_location(request.path_params["subscription"])]})

    async def _providers(self, request: Request) -> Response:
        subscription = request.path_params["subscription"]
        return answer({"value": [catalog.show_provider(subscription, name) for name in catalog.PROVIDERS]})

    async def _provider(self, request: Request) -> Response:
        path = request.path_params
        name = catalog.provider_named(path["namespace"])
        if name is None:
            raise catalog.unknown_provider(path["namespace"])
        return answer(catalog.show_provider(path["subscription"], name))

    async def _topic_types(self, request: Request) -> Response:
        return answer({"value": [catalog.show_topic_type(type) for type in TOPIC_TYPES]})

    async def _topic_type(self, request: Request) -> Response:
        return answer(catalog.show_topic_type(_type_named(request)))

    async def _event_types(self, request: Request) -> Response:
        type = _type_named(request)
        return answer({"value": [catalog.show_event_type(type, event) for event in type.events]})

    async def _event_types_of_resource(self, request: Request) -> Response:
        path = request.path_params
        wanted = f"{path['namespace']}/{path['type']}".lower()
        type = next((type for type in TOPIC_TYPES if type.resource_type.lower() == wanted), None)
        events = () if type is None else type.events
        return answer({"value": [catalog.show_event_type(type, event) for event in events if type is not None]})

    async def _operations(self, request: Request) -> Response:
        return answer(
            {
                "value": [
                    catalog.show_operation(f"Microsoft.EventGrid/{resource}/{verb}", "Event Grid", resource, title)
                    for resource in ("topics", "domains", "systemTopics", "eventSubscriptions")
                    for verb, title in _VERBS
                ]
            }
        )

    async def _extension_topic(self, request: Request) -> Response:
        scope = parse_scope(request.path_params["scope"])
        if scope is None or scope.group is None or scope.type != STORAGE.resource_type.lower() or scope.child:
            raise NotFound("ResourceNotFound", "There is no extension topic on this resource.")
        account = await self._topics.accounts.get(scope.subscription, scope.group, scope.name)
        topic = await self._topics.system_topic_of(account.resource_id)
        id = f"{account.resource_id}{PROVIDER}/extensionTopics/default"
        system_topic = None if topic is None else topic.resource_id
        return answer(
            {
                "id": id,
                "name": "default",
                "type": "Microsoft.EventGrid/extensionTopics",
                "properties": {"description": f"The events of {account.name}.", "systemTopic": system_topic},
            }
        )


def _type_named(request: Request) -> TopicType:
    name = request.path_params["type"]
    found = topic_type(name)
    if found is None:
        raise NotFound("ResourceNotFound", f"Topic type '{shorten(name)}' is not known.")
    return found
