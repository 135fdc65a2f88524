"""What Azure has around the resources, as far as clients ask: tenants, subscriptions, locations, providers, types."""

from recapito.api.wire.decode import Shown, shorten
from recapito.domain.resources.topic_type import EventType, TopicType
from recapito.errors import NotFound

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
    "Microsoft.Resources": ("subscriptions", "tenants", "resourceGroups", "locations"),
    "Microsoft.Storage": ("storageAccounts",),
}


def show_tenant(id: str) -> Shown:
    """A tenant."""
    return {"id": f"/tenants/{id}", "tenantId": id, "displayName": "Recapito", "tenantCategory": "Home"}


def show_subscription(id: str, tenant: str) -> Shown:
    """An Azure subscription."""
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
    """The one location there is; a resource may name any other."""
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
    """The provider of that name in its proper spelling, None if it is not served here."""
    return next((name for name in PROVIDERS if name.lower() == namespace.lower()), None)


def show_topic_type(type: TopicType) -> Shown:
    """A type of system topics."""
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
    """A type of events of a system topic."""
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
    """What may be done with a resource, as roles name it."""
    display = {"provider": provider, "resource": resource, "operation": operation, "description": operation}
    return {"name": name, "display": display, "origin": "UserAndSystem"}


def unknown_provider(namespace: str) -> NotFound:
    """A resource provider that is not served here."""
    return NotFound(
        "InvalidResourceNamespace",
        f"The resource namespace '{shorten(namespace)}' is not served here. Served: {', '.join(PROVIDERS)}.",
    )


def unknown_path(path: str) -> NotFound:
    """The error for a path where nothing is; of ARM's paths it says what about them is unknown."""
    parts = path.strip("/").split("/")
    places = [n for n, part in enumerate(parts[:-1]) if part.lower() == "providers"]
    if not places:
        return NotFound("NotFound", "There is nothing at this path.")
    namespace, *rest = parts[places[-1] + 1 :]
    if provider_named(namespace) is None:
        return unknown_provider(namespace)
    type = "/".join(rest[::2])
    return NotFound("InvalidResourceType", f"'{shorten(f'{namespace}/{type}')}' is not a type that is served here.")
