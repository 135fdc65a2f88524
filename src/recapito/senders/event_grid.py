"""Another Event Grid, in the cloud or on another machine: batches are published there, as a publisher would.

The credential is a key, a token that was signed with one, or a bearer token of Microsoft Entra. A namespace topic has a
path and an API version of its own.
"""

from msgspec.structs import replace

from recapito.azure.entra import EntraTokens
from recapito.domain.connections.connection import AzureService, Connection, DefaultCredential, TopicKey, TopicToken
from recapito.domain.delivery.attributes import Header
from recapito.domain.delivery.headers import SAS_KEY, SAS_TOKEN
from recapito.domain.delivery.outcome import Outcome, Result
from recapito.domain.resources.destination import EventGrid
from recapito.domain.resources.resource_id import EVENT_GRID_NAMESPACE, ResourceId, parse_resource_id
from recapito.senders.azure_http import ResourceTarget

_API_VERSION, _NAMESPACE_API_VERSION = "2018-01-01", "2024-06-01"
_RESOURCE = "https://eventgrid.azure.net"
_HOME_TENANT = ""
_LOOP = 508

_REMEDY = {
    400: "it refuses an event, or its schema is another one than that of the event subscription",
    401: "it refuses the key or the token of its connection: recapito connection set {top}",
    403: "it refuses this address, or the identity may not send (EventGrid Data Sender): correct it there",
    404: "it does not exist there: create it, or recapito connection set {top} with its endpoint",
    413: "an event is larger than it takes",
    _LOOP: "the event came from there",
}


class EventGridAdapter:
    """The target of a topic, a domain or a namespace topic, and the meaning of its refusals."""

    service = AzureService.EVENT_GRID

    def __init__(self, tokens: EntraTokens) -> None:
        self._tokens = tokens

    async def target(self, destination: EventGrid, connection: Connection, now: int) -> ResourceTarget | Outcome:
        """The URL to publish to, and the credential. `EntraTokens` keeps a bearer token while it is young."""
        url, credential = _url(parse_resource_id(destination.resource_id), connection), connection.credential
        match credential:
            case TopicKey(key):
                name, value = (
                    ("Authorization", f"SharedAccessKey {key}") if _in_namespace(destination) else (SAS_KEY, key)
                )
                return ResourceTarget(url, (Header(name, value, secret=True),))
            case TopicToken(token):
                return ResourceTarget(url, (Header(SAS_TOKEN, token, secret=True),))
            case DefaultCredential():
                bearer = await self._tokens.token(_HOME_TENANT, _RESOURCE)
                if isinstance(bearer, Outcome):
                    return bearer
                return ResourceTarget(url, (Header("Authorization", f"Bearer {bearer}", secret=True),), now)
        return ResourceTarget(url)

    def explain(self, destination: EventGrid, outcome: Outcome) -> Outcome:
        """The outcome with the remedy before its detail. A refused bearer token is not sent again."""
        resource = parse_resource_id(destination.resource_id)
        if outcome.status == 401:
            self._tokens.forget(_HOME_TENANT, _RESOURCE)
        result = Result.LOOP_DETECTED if outcome.status == _LOOP else outcome.result
        remedy = _REMEDY.get(outcome.status or 0, "").format(top=resource.top.text)
        detail = "; ".join(text for text in (remedy, outcome.detail) if text)
        return replace(outcome, result=result, detail=f"{resource.name} of Event Grid: {detail}" if detail else "")


def _url(resource: ResourceId, connection: Connection) -> str:
    root = connection.endpoints[AzureService.EVENT_GRID]
    if resource.top.kind == EVENT_GRID_NAMESPACE:
        return f"{root}/topics/{resource.name}:publish?api-version={_NAMESPACE_API_VERSION}"
    return f"{root}?api-version={_API_VERSION}"


def _in_namespace(destination: EventGrid) -> bool:
    return parse_resource_id(destination.resource_id).top.kind == EVENT_GRID_NAMESPACE
