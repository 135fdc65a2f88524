"""Parses the URL of a Functions host and the connection string of a relay.

An error names the part that is wrong and never repeats a value of it.
"""

from urllib.parse import parse_qsl

from recapito.domain import limits
from recapito.domain.connections.connection import AzureService, Connection, FunctionKey, PolicyKey
from recapito.domain.connections.parse_storage import invalid_connection, read_endpoint, root_of, split_parts
from recapito.domain.resources.resource_id import (
    FUNCTION,
    FUNCTION_APP,
    HYBRID_CONNECTION,
    RELAY_NAMESPACE,
    ResourceId,
    parse_resource_id,
)
from recapito.errors import InvalidInput

WEBHOOK_PATH = "/runtime/webhooks/eventgrid"
_PARTS = {"endpoint", "sharedaccesskeyname", "sharedaccesskey", "entitypath"}
_WRONG_PARTS = (
    "The connection string is not that of a relay: it must consist of Endpoint, SharedAccessKeyName,"
    " SharedAccessKey and, for a hybrid connection, EntityPath, each once, separated by semicolons."
)


def from_function_host(resource_id: str, url: str) -> Connection:
    """Parse the URL of a Functions host: the bare URL, or the one that the host prints, with the key as `code`."""
    resource = _resource(resource_id, (FUNCTION_APP, FUNCTION), "a function app or a function")
    base, _, query = url.strip().partition("?")
    endpoint = read_endpoint(base, "The URL of the host")
    if endpoint.target.rstrip("/").lower() not in ("", WEBHOOK_PATH):
        raise invalid_connection(f"The URL of the host must have no path, or {WEBHOOK_PATH}.")
    given = {name.lower(): value for name, value in parse_qsl(query)}
    if not given.keys() <= {"code", "functionname"}:
        raise invalid_connection("The URL of the host may have only 'code' and 'functionName' in its query.")
    named = given.get("functionname")
    if named and resource.kind == FUNCTION and named.lower() != resource.name.lower():
        raise invalid_connection(f"The URL is not that of '{resource.name}', which the resource id names.")
    key = given.get("code", "")
    if len(key) > limits.CONNECTION_CHARS or not key.isascii() or not key.isprintable():
        raise invalid_connection(
            "The key, 'code', is not a key of a Functions host: copy it again, it was cut or changed."
        )
    return Connection(
        resource_id=resource.text, endpoints={AzureService.FUNCTION: root_of(endpoint)}, credential=FunctionKey(key)
    )


def from_relay_string(resource_id: str, text: str) -> Connection:
    """Parse the connection string of a relay namespace or of a hybrid connection."""
    resource = _resource(resource_id, (RELAY_NAMESPACE, HYBRID_CONNECTION), "a relay namespace or a hybrid connection")
    parts = split_parts(text, _PARTS, _WRONG_PARTS)
    for name in ("Endpoint", "SharedAccessKeyName", "SharedAccessKey"):
        if not parts.get(name.lower()):
            raise invalid_connection(f"The connection string has no {name}.")
    entity = parts.get("entitypath", "")
    if entity and resource.kind == RELAY_NAMESPACE:
        raise invalid_connection(
            f"The connection string is for '{entity}' only: set it as the connection of that hybrid connection."
        )
    if entity and entity.lower() != resource.name.lower():
        raise invalid_connection(
            f"The connection string is for '{entity}', but the resource id names '{resource.name}'."
        )
    url = parts["endpoint"]
    scheme, _, rest = url.partition("://")
    endpoint = read_endpoint(f"https://{rest}" if scheme.lower() == "sb" else url, "The Endpoint")
    if endpoint.target != "/":
        raise invalid_connection("The Endpoint must be a URL without path and query.")
    namespace, _, suffix = endpoint.host.partition(".")
    if suffix.startswith("servicebus.") and namespace != resource.names[0].lower():
        raise invalid_connection(f"This is a connection to the namespace '{namespace}', not to '{resource.names[0]}'.")
    credential = PolicyKey(parts["sharedaccesskeyname"], parts["sharedaccesskey"])
    return Connection(
        resource_id=resource.text, endpoints={AzureService.RELAY: root_of(endpoint)}, credential=credential
    )


def _resource(text: str, kinds: tuple[str, ...], what: str) -> ResourceId:
    resource = parse_resource_id(text)
    if resource.kind not in kinds:
        raise InvalidInput("InvalidRequest", f"{resource.text} is not the id of {what}.", "resourceId")
    return resource
