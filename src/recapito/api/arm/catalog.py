"""The parts of Azure around the resources that clients look up: tenants, subscriptions, locations, providers, types."""

from starlette.requests import Request
from starlette.responses import Response

from recapito.api.arm.routing import PROVIDER, ArmRoute, answer, in_group, in_subscription
from recapito.api.arm.scope import parse_scope
from recapito.api.body import BodyReader
from recapito.api.services import Services
from recapito.api.wire.decode import Shown, shorten
from recapito.domain.resources.topic_type import STORAGE, TOPIC_TYPES, EventType, TopicType, topic_type
from recapito.errors import NotFound
from recapito.intake.resources.validation import check_scope

NO_TENANT = "00000000-0000-0000-0000-000000000000"
SUBSCRIPTION = "00000000-0000-0000-0000-000000000000"
LOCATION = "local"
API_VERSIONS = [
    "2025-02-15",
    "2022-06-15",
    "2021-12-01",
    "2021-10-15-preview",
    "2020-06-01",
    "2019-06-01",
    "2019-01-01",
    "2018-01-01",
]
PROVIDERS = {
    "Microsoft.EventGrid": (
        "topics",
        "domains",
        "domains/topics",
        "systemTopics",
        "eventSubscriptions",
        "topicTypes",
        "extensionTopics",
        "operations",
    ),
    "Microsoft.Resources": ("subscriptions", "tenants", "resourceGroups", "locations", "deployments"),
    "Microsoft.Storage": ("storageAccounts",),
}
_VERBS = (("read", "Read"), ("write", "Create or update"), ("delete", "Delete"))


class CatalogManagement:
    def __init__(self, services: Services, bodies: BodyReader) -> None:
        self._topics = services.topics
        issuer = services.access.issuer
        self._tenant = NO_TENANT if issuer is None else issuer.tenant

    def routes(self) -> list[ArmRoute]:
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
        return answer({"value": [show_tenant(self._tenant)]})

    async def _subscriptions(self, request: Request) -> Response:
        ids = await self._topics.groups.azure_subscriptions()
        if SUBSCRIPTION not in ids:
            ids.insert(0, SUBSCRIPTION)
        return answer({"value": [show_subscription(id, self._tenant) for id in ids]})

    async def _subscription(self, request: Request) -> Response:
        id = request.path_params["subscription"]
        check_scope(id, "subscriptionId")
        return answer(show_subscription(id, self._tenant))

    async def _locations(self, request: Request) -> Response:
        return answer({"value": [show_location(request.path_params["subscription"])]})

    async def _providers(self, request: Request) -> Response:
        subscription = request.path_params["subscription"]
        return answer({"value": [show_provider(subscription, name) for name in PROVIDERS]})

    async def _provider(self, request: Request) -> Response:
        path = request.path_params
        name = provider_named(path["namespace"])
        if name is None:
            raise unknown_provider(path["namespace"])
        return answer(show_provider(path["subscription"], name))

    async def _topic_types(self, request: Request) -> Response:
        return answer({"value": [show_topic_type(type) for type in TOPIC_TYPES]})

    async def _topic_type(self, request: Request) -> Response:
        return answer(show_topic_type(_type_named(request)))

    async def _event_types(self, request: Request) -> Response:
        type = _type_named(request)
        return answer({"value": [show_event_type(type, event) for event in type.events]})

    async def _event_types_of_resource(self, request: Request) -> Response:
        path = request.path_params
        wanted = f"{path['namespace']}/{path['type']}".lower()
        type = next((type for type in TOPIC_TYPES if type.resource_type.lower() == wanted), None)
        events = () if type is None else type.events
        return answer({"value": [show_event_type(type, event) for event in events if type is not None]})

    async def _operations(self, request: Request) -> Response:
        return answer(
            {
                "value": [
                    show_operation(f"Microsoft.EventGrid/{resource}/{verb}", "Event Grid", resource, title)
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
    type = topic_type(name)
    if type is None:
        raise NotFound("ResourceNotFound", f"Topic type '{shorten(name)}' is not known.")
    return type


def show_tenant(id: str) -> Shown:
    return {"id": f"/tenants/{id}", "tenantId": id, "displayName": "Recapito", "tenantCategory": "Home"}


def show_subscription(id: str, tenant: str) -> Shown:
    return {
        "id": f"/subscriptions/{id}",
        "subscriptionId": id,
        "tenantId": tenant,
        "displayName": "Recapito",
        "state": "Enabled",
        "authorizationSource": "RoleBased",
        "subscriptionPolicies": {"locationPlacementId": "Public_2014-09-01", "quotaId": "none", "spendingLimit": "Off"},
        "managedByTenants": [],
    }


def show_location(subscription: str) -> Shown:
    """The only location that is listed; a resource may name any other."""
    return {
        "id": f"/subscriptions/{subscription}/locations/{LOCATION}",
        "name": LOCATION,
        "type": "Region",
        "displayName": "Local",
        "regionalDisplayName": "Local",
        "metadata": {"regionType": "Physical", "regionCategory": "Recommended"},
    }


def show_provider(subscription: str, namespace: str) -> Shown:
    """A resource provider, which is always registered."""
    return {
        "id": f"/subscriptions/{subscription}/providers/{namespace}",
        "namespace": namespace,
        "registrationState": "Registered",
        "registrationPolicy": "RegistrationFree",
        "resourceTypes": [
            {"resourceType": type, "locations": ["Local"], "apiVersions": API_VERSIONS, "capabilities": "None"}
            for type in PROVIDERS[namespace]
        ],
    }


def provider_named(namespace: str) -> str | None:
    """The provider of that name in its proper spelling; None if it is not served here."""
    return next((name for name in PROVIDERS if name.lower() == namespace.lower()), None)


def show_topic_type(type: TopicType) -> Shown:
    return {
        "id": f"providers/Microsoft.EventGrid/topicTypes/{type.name}",
        "name": type.name,
        "type": "Microsoft.EventGrid/topicTypes",
        "properties": {
            "provider": type.provider,
            "displayName": type.title,
            "description": type.description,
            "resourceRegionType": "RegionalResource",
            "provisioningState": "Succeeded",
            "supportedLocations": ["Local"],
            "supportedScopesForSource": ["Resource"],
            "sourceResourceFormat": (
                f"/subscriptions/{{subscription}}/resourceGroups/{{group}}/providers/{type.resource_type}/{{name}}"
            ),
        },
    }


def show_event_type(type: TopicType, event: EventType) -> Shown:
    return {
        "id": f"providers/Microsoft.EventGrid/topicTypes/{type.name}/eventTypes/{event.name}",
        "name": event.name,
        "type": "Microsoft.EventGrid/topicTypes/eventTypes",
        "properties": {
            "displayName": event.title,
            "description": event.description,
            "schemaUrl": None,
            "isInDefaultSet": event.default,
        },
    }


def show_operation(name: str, provider: str, resource: str, operation: str) -> Shown:
    """An action on a resource, by the name that roles use."""
    display = {"provider": provider, "resource": resource, "operation": operation, "description": operation}
    return {"name": name, "display": display, "origin": "UserAndSystem"}


def unknown_provider(namespace: str) -> NotFound:
    return NotFound(
        "InvalidResourceNamespace",
        f"The resource namespace '{shorten(namespace)}' is not served here. Served: {', '.join(PROVIDERS)}.",
    )


def unknown_path(path: str) -> NotFound:
    """The error for an unknown path; for a path of ARM it names the provider or the type that is unknown."""
    parts = path.strip("/").split("/")
    places = [n for n, part in enumerate(parts[:-1]) if part.lower() == "providers"]
    if not places:
        return NotFound("NotFound", "This path does not exist.")
    namespace, *rest = parts[places[-1] + 1 :]
    if provider_named(namespace) is None:
        return unknown_provider(namespace)
    type = "/".join(rest[::2])
    return NotFound("InvalidResourceType", f"'{shorten(f'{namespace}/{type}')}' is not a type that is served here.")
