"""The destinations of event subscriptions, and the table of their kinds, `DESTINATION_KINDS`.

The law: a fact about a kind of destination stands in its row. The API, the command line, the portal and the composition
of the server read the rows; none of them lists the kinds again. CONTRIBUTING.md has the steps to add one.
"""

from typing import Any, NamedTuple

import msgspec

from recapito.domain import limits
from recapito.domain.connections.connection import AzureService
from recapito.domain.profiles.profile import EndpointKind
from recapito.domain.resources.resource_id import (
    EVENT_HUB,
    FUNCTION,
    HYBRID_CONNECTION,
    SERVICE_BUS_QUEUE,
    SERVICE_BUS_TOPIC,
    STORAGE_ACCOUNT,
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


Broker = ServiceBusQueue | ServiceBusTopic | EventHub
AzureResource = StorageQueue | AzureFunction | HybridConnection | Broker
Destination = WebHook | AzureResource

_NO_NAMES: frozenset[str] = frozenset()
_SERVICE_BUS_KEYS = frozenset({"messageid", "partitionkey", "sessionid", "replytosessionid", "viapartitionkey"})


class DestinationKind(NamedTuple):
    """One row of `DESTINATION_KINDS`.

    `endpoint_type`: ARM's name for the kind, which is also the tag of the stored struct.
    `az_name`: the value of az's `--endpoint-type`; None if az has none.
    `title`, `noun`: the kind in a form and in a sentence.
    `resource`: the kind of resource whose id a client sends as `resourceId`; None if it sends a URL instead.
    `service`: the endpoint of a connection that reaches it; None if no connection is needed.
    `batches`: whether a client may ask for more than one event in a request.
    `attributes`: whether it takes delivery attributes. `reserved` are names, in lower case, that the server sets itself
    at this kind alone; `sort_keys` are names, in lower case, by which a broker sorts messages: their values are short
    and never empty.
    `endpoint_kind`: the table of the profile that applies.
    """

    endpoint_type: str
    az_name: str | None
    title: str
    noun: str
    resource: str | None = None
    service: AzureService | None = None
    batches: bool = False
    attributes: bool = True
    reserved: frozenset[str] = _NO_NAMES
    sort_keys: frozenset[str] = _NO_NAMES
    endpoint_kind: EndpointKind = EndpointKind.AZURE_RESOURCE


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
        resource=FUNCTION,
        service=AzureService.FUNCTION,
        batches=True,
    ),
    EventHub: DestinationKind(
        "EventHub",
        az_name="eventhub",
        title="Event hub",
        noun="an event hub",
        resource=EVENT_HUB,
        service=AzureService.MESSAGING,
        sort_keys=frozenset({"partitionkey"}),
    ),
    ServiceBusQueue: DestinationKind(
        "ServiceBusQueue",
        az_name="servicebusqueue",
        title="Service Bus queue",
        noun="a Service Bus queue",
        resource=SERVICE_BUS_QUEUE,
        service=AzureService.MESSAGING,
        sort_keys=_SERVICE_BUS_KEYS,
    ),
    ServiceBusTopic: DestinationKind(
        "ServiceBusTopic",
        az_name="servicebustopic",
        title="Service Bus topic",
        noun="a Service Bus topic",
        resource=SERVICE_BUS_TOPIC,
        service=AzureService.MESSAGING,
        sort_keys=_SERVICE_BUS_KEYS,
    ),
    StorageQueue: DestinationKind(
        "StorageQueue",
        az_name="storagequeue",
        title="Storage queue",
        noun="a storage account",
        resource=STORAGE_ACCOUNT,
        service=AzureService.QUEUE,
        attributes=False,
    ),
    HybridConnection: DestinationKind(
        "HybridConnection",
        az_name="hybridconnection",
        title="Hybrid connection",
        noun="a hybrid connection",
        resource=HYBRID_CONNECTION,
        service=AzureService.RELAY,
        reserved=frozenset({"servicebusauthorization"}),
    ),
}
"""Every kind of destination, in the order in which people see them."""

NOT_BUILT = ("NamespaceTopic", "MonitorAlert", "PartnerDestination")
"""Event Grid's endpoint types that Recapito refuses by name."""


def kind_of(destination: Destination) -> DestinationKind:
    """The row of a destination."""
    return DESTINATION_KINDS[type(destination)]


def service_of(destination: AzureResource) -> AzureService:
    """The service of a connection by which a resource is reached."""
    service = kind_of(destination).service
    assert service is not None, f"the row of {type(destination).__name__} names no service"
    return service
