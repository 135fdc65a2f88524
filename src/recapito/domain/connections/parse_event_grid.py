"""Parses the connections to topics, domains and namespaces of another Event Grid.

A connection string has the endpoint that the portal of Azure shows, and a key, a token that was signed with one, or
the request to use the server's own identity. An error names the part that is wrong and never repeats a value of it.
"""

from collections.abc import Mapping

from recapito.domain.access.sas import parse_token
from recapito.domain.connections.connection import (
    AzureService,
    Connection,
    Credential,
    DefaultCredential,
    TopicKey,
    TopicToken,
)
from recapito.domain.connections.parse_storage import invalid_connection, read_endpoint, root_of, split_parts
from recapito.domain.resources.resource_id import (
    EVENT_GRID_DOMAIN,
    EVENT_GRID_DOMAIN_TOPIC,
    EVENT_GRID_NAMESPACE,
    EVENT_GRID_NAMESPACE_TOPIC,
    EVENT_GRID_TOPIC,
    ResourceId,
)

PUBLISH_PATH = "/api/events"
_KINDS = (
    EVENT_GRID_TOPIC,
    EVENT_GRID_DOMAIN,
    EVENT_GRID_DOMAIN_TOPIC,
    EVENT_GRID_NAMESPACE,
    EVENT_GRID_NAMESPACE_TOPIC,
)
_PARTS = {"endpoint", "sharedaccesskey", "sharedaccesssignature", "authentication"}
_OWN_IDENTITY = "managed identity"
_WRONG_PARTS = (
    "The connection string is not that of an Event Grid: it must consist of Endpoint and one of SharedAccessKey,"
    " SharedAccessSignature and Authentication=Managed Identity, each once, separated by semicolons."
)


def is_event_grid(resource: ResourceId) -> bool:
    return resource.kind in _KINDS


def from_connection_string(resource: ResourceId, text: str) -> Connection:
    """Parse `Endpoint=…;SharedAccessKey=…`; a token or `Authentication=Managed Identity` may replace the key."""
    parts = split_parts(text, _PARTS, _WRONG_PARTS)
    credential = _credential(parts)
    return _connection(resource, parts.get("endpoint", ""), credential)


def from_default_credential(resource: ResourceId, endpoints: Mapping[AzureService, str] | None = None) -> Connection:
    """The connection with the server's own identity. The name of a topic does not tell its region, so no endpoint."""
    given = dict(endpoints or {})
    if set(given) != {AzureService.EVENT_GRID}:
        raise invalid_connection(
            "The endpoint of an Event Grid must be given: 'eventgrid' in 'endpoints', or the connection string"
            " 'Endpoint=URL;Authentication=Managed Identity'."
        )
    return _connection(resource, given[AzureService.EVENT_GRID], DefaultCredential())


def _connection(resource: ResourceId, url: str, credential: Credential) -> Connection:
    endpoint = read_endpoint(url, "The Endpoint")
    if isinstance(credential, DefaultCredential) and endpoint.scheme != "https":
        raise invalid_connection("The server's own identity sends a token, which needs an https:// endpoint.")
    path = endpoint.target.partition("?")[0].rstrip("/")
    if resource.top.kind == EVENT_GRID_NAMESPACE:
        if isinstance(credential, TopicToken):
            raise invalid_connection("A namespace takes a key or an identity, and no SharedAccessSignature.")
    elif path and not path.endswith(PUBLISH_PATH):
        raise invalid_connection(
            f"The Endpoint must be a URL without a path, or one whose path ends in {PUBLISH_PATH}."
        )
    else:
        path = path or PUBLISH_PATH
    url = root_of(endpoint) + path
    return Connection(resource_id=resource.text, endpoints={AzureService.EVENT_GRID: url}, credential=credential)


def _credential(parts: Mapping[str, str]) -> Credential:
    given = [name for name in ("sharedaccesskey", "sharedaccesssignature", "authentication") if parts.get(name)]
    if len(given) != 1:
        raise invalid_connection(_WRONG_PARTS)
    value = parts[given[0]]
    if given[0] == "authentication":
        if value.replace(" ", "").lower() != _OWN_IDENTITY.replace(" ", ""):
            raise invalid_connection("The connection string's Authentication must be 'Managed Identity'.")
        return DefaultCredential()
    if given[0] == "sharedaccesskey":
        return TopicKey(value)
    if parse_token(value) is None:
        raise invalid_connection(
            "The connection string's SharedAccessSignature is not a token of Event Grid: r=…&e=…&s=…, URL-encoded."
        )
    return TopicToken(value)
