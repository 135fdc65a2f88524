"""The destinations of event subscriptions, and the table of their kinds, `DESTINATION_KINDS`.

The law: a fact about a kind of destination stands in its row. The API, the command line, the portal and the composition
of the server read the rows; none of them lists the kinds again. CONTRIBUTING.md has the steps to add one.
"""

from typing import Any, NamedTuple

import msgspec

from recapito.domain import limits
from recapito.domain.connections.connection import AzureService
from recapito.domain.profiles.profile import EndpointKind, Profile, load
from recapito.domain.resources.resource_id import (
    EVENT_GRID_DOMAIN,
    EVENT_GRID_DOMAIN_TOPIC,
    EVENT_GRID_NAMESPACE_TOPIC,
    EVENT_GRID_TOPIC,
    EVENT_HUB,
    FUNCTION,
    HYBRID_CONNECTION,
    SERVICE_BUS_QUEUE,
    SERVICE_BUS_TOPIC,
    STORAGE_ACCOUNT,
    parse_resource_id,
    queue_id,
)


class _Destination(msgspec.Struct, frozen=True, kw_only=True, tag_field="endpoint_type"):
    @property
    def endpoint_kind(self) -> EndpointKind:
        """The table of the profile that applies to this destination."""
        return DESTINATION_KINDS[type(self)].endpoint_kind  # type: ignore[index]  # each one below has its row


class WebHook(_Destination, frozen=True, kw_only=True, tag="WebHook"):
    """A webhook. The URL's query may be a secret: show `base_url`, never `url`.

    With a tenant and an application its requests carry a bearer token that was issued for that application.
    """

    url: str
    tenant: str | None = None
    application: str | None = None

    @property
    def base_url(self) -> str:
        """The URL without its query."""
        return self.url.partition("?")[0]

    def __repr__(self) -> str:
        return f"<WebHook {self.base_url}>"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("base_url", self.base_url)]  # msgspec's own would show the query in a pretty traceback


class StorageQueue(_Destination, frozen=True, kw_only=True, tag="StorageQueue"):
    """A queue of a storage account, which is named by its ARM id. Messages last `ttl_s` seconds; -1 is forever."""

    account: str
    queue: str
    ttl_s: int = limits.QUEUE_MESSAGE_TTL_S_DEFAULT

    @property
    def resource_id(self) -> str:
        """The ARM id of the queue."""
        return queue_id(self.account, self.queue)


class AzureFunction(_Destination, frozen=True, kw_only=True, tag="AzureFunction"):
    """A function with an Event Grid trigger, by its ARM id. There is no handshake with its host."""

    resource_id: str


class HybridConnection(_Destination, frozen=True, kw_only=True, tag="HybridConnection"):
    """A hybrid connection of a relay, by its ARM id. Its listener gets the requests that a webhook would get."""

    resource_id: str


class ServiceBusQueue(_Destination, frozen=True, kw_only=True, tag="ServiceBusQueue"):
    """A queue of a Service Bus namespace, by its ARM id."""

    resource_id: str


class ServiceBusTopic(_Destination, frozen=True, kw_only=True, tag="ServiceBusTopic"):
    """A topic of a Service Bus namespace, by its ARM id."""

    resource_id: str


class EventHub(_Destination, frozen=True, kw_only=True, tag="EventHub"):
    """A hub of an Event Hubs namespace, by its ARM id."""

    resource_id: str


class EventGrid(_Destination, frozen=True, kw_only=True, tag="EventGrid"):
    """A topic, a domain, a domain topic or a namespace topic of another Event Grid, by its ARM id.

    Events of a domain keep the names of their topics at another domain; at a domain topic they get its name.
    """

    resource_id: str

    @property
    def resource_kind(self) -> str:
        """Which of the four it is, as `ResourceId.kind` has it."""
        return parse_resource_id(self.resource_id).kind


Broker = ServiceBusQueue | ServiceBusTopic | EventHub
AzureResource = StorageQueue | AzureFunction | HybridConnection | EventGrid | Broker
Destination = WebHook | AzureResource

_NO_NAMES: frozenset[str] = frozenset()
_SERVICE_BUS_KEYS = frozenset({"messageid", "partitionkey", "sessionid", "replytosessionid", "viapartitionkey"})


class DestinationKind(NamedTuple):
    """One row of `DESTINATION_KINDS`.

    `endpoint_type`: ARM's name for the kind, which is also the tag of the stored struct.
    `az_name`: the value of `--endpoint-type`, as az spells it where az has the kind.
    `title`, `noun`: the kind in a form and in a sentence.
    `resources`: the kinds of resources whose id a client sends as `resourceId`; none if it sends a URL instead.
    `service`: the endpoint of a connection that reaches it; None if no connection is needed.
    `batches`: whether a client may ask for more than one event in a request.
    `attributes`: whether it takes delivery attributes. `reserved` are names, in lower case, that the server sets itself
    at this kind alone; `sort_keys` are names, in lower case, by which a broker sorts messages: their values are short
    and never empty.
    `endpoint_kind`: the table of the profile that applies.
    `profile`: the profile that applies whatever the topic's is, at a kind that Event Grid never had.
    """

    endpoint_type: str
    az_name: str
    title: str
    noun: str
    resources: tuple[str, ...] = ()
    service: AzureService | None = None
    batches: bool = False
    attributes: bool = True
    reserved: frozenset[str] = _NO_NAMES
    sort_keys: frozenset[str] = _NO_NAMES
    endpoint_kind: EndpointKind = EndpointKind.AZURE_RESOURCE
    profile: str | None = None


DESTINATION_KINDS: dict[type[Destination], DestinationKind] = {
    WebHook: DestinationKind(
        "WebHook",
        az_name="webhook",
        title="Web hook",
        noun="a webhook",
        batches=True,
        endpoint_kind=EndpointKind.WEBHOOK,
    ),
    AzureFunction: DestinationKind(
        "AzureFunction",
        az_name="azurefunction",
        title="Azure function",
        noun="a function",
        resources=(FUNCTION,),
        service=AzureService.FUNCTION,
        batches=True,
    ),
    EventHub: DestinationKind(
        "EventHub",
        az_name="eventhub",
        title="Event hub",
        noun="an event hub",
        resources=(EVENT_HUB,),
        service=AzureService.MESSAGING,
        sort_keys=frozenset({"partitionkey"}),
    ),
    ServiceBusQueue: DestinationKind(
        "ServiceBusQueue",
        az_name="servicebusqueue",
        title="Service Bus queue",
        noun="a Service Bus queue",
        resources=(SERVICE_BUS_QUEUE,),
        service=AzureService.MESSAGING,
        sort_keys=_SERVICE_BUS_KEYS,
    ),
    ServiceBusTopic: DestinationKind(
        "ServiceBusTopic",
        az_name="servicebustopic",
        title="Service Bus topic",
        noun="a Service Bus topic",
        resources=(SERVICE_BUS_TOPIC,),
        service=AzureService.MESSAGING,
        sort_keys=_SERVICE_BUS_KEYS,
    ),
    StorageQueue: DestinationKind(
        "StorageQueue",
        az_name="storagequeue",
        title="Storage queue",
        noun="a storage account",
        resources=(STORAGE_ACCOUNT,),
        service=AzureService.QUEUE,
        attributes=False,
    ),
    HybridConnection: DestinationKind(
        "HybridConnection",
        az_name="hybridconnection",
        title="Hybrid connection",
        noun="a hybrid connection",
        resources=(HYBRID_CONNECTION,),
        service=AzureService.RELAY,
        reserved=frozenset({"servicebusauthorization"}),
    ),
    EventGrid: DestinationKind(
        "EventGrid",
        az_name="eventgrid",
        title="Event Grid",
        noun="a topic, a domain, a domain topic or a namespace topic of Event Grid",
        resources=(EVENT_GRID_TOPIC, EVENT_GRID_DOMAIN, EVENT_GRID_DOMAIN_TOPIC, EVENT_GRID_NAMESPACE_TOPIC),
        service=AzureService.EVENT_GRID,
        attributes=False,
        profile="edge",
    ),
}
"""Every kind of destination, in the order in which people see them."""

NOT_BUILT = ("NamespaceTopic", "MonitorAlert", "PartnerDestination")
"""Event Grid's endpoint types that Recapito refuses by name."""


def kind_of(destination: Destination) -> DestinationKind:
    """The row of a destination."""
    return DESTINATION_KINDS[type(destination)]


def kind_named(endpoint_type: str) -> DestinationKind | None:
    """The row with ARM's name for a kind; None if there is none."""
    return next((kind for kind in DESTINATION_KINDS.values() if kind.endpoint_type == endpoint_type), None)


def profile_for(destination: Destination, topic_profile: Profile) -> Profile:
    """The profile of deliveries to a destination: the topic's, unless the kind has rules of its own."""
    own = kind_of(destination).profile
    return topic_profile if own is None else load(own)


def service_of(destination: AzureResource) -> AzureService:
    """The service of a connection by which a resource is reached."""
    service = kind_of(destination).service
    assert service is not None, f"the row of {type(destination).__name__} names no service"
    return service
