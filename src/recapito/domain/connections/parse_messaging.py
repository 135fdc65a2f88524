"""Parses the connection strings of Service Bus and Event Hubs.

An error names the part that is wrong and never repeats a value of it.
"""

import re
from collections.abc import Mapping

from recapito.domain import limits
from recapito.domain.access.egress import parse_endpoint
from recapito.domain.connections.connection import (
    AzureService,
    Connection,
    Credential,
    DefaultCredential,
    PolicyKey,
    SharedAccess,
    parameters_of,
    parse_instant,
)
from recapito.domain.resources.resource_id import (
    EVENT_HUB,
    EVENT_HUBS_NAMESPACE,
    SERVICE_BUS_NAMESPACE,
    SERVICE_BUS_QUEUE,
    SERVICE_BUS_TOPIC,
    ResourceId,
)
from recapito.errors import InvalidInput

_NAMESPACES = (SERVICE_BUS_NAMESPACE, EVENT_HUBS_NAMESPACE)
_KINDS = (*_NAMESPACES, SERVICE_BUS_QUEUE, SERVICE_BUS_TOPIC, EVENT_HUB)
_CLOUD = "servicebus.windows.net"
_PORTS = {"amqp": 5672, "amqps": 5671}
_ENDPOINT = re.compile(r"(?:sb|amqps?)://([^/:\[\]@?#]+)(?::([0-9]{1,5}))?/?", re.IGNORECASE)
_NAMESPACE_HOST = re.compile(r"([a-z0-9-]+)\.servicebus\.[a-z0-9.-]+")
_SIGNED = "SharedAccessSignature "
_PARTS = {
    "endpoint",
    "sharedaccesskeyname",
    "sharedaccesskey",
    "sharedaccesssignature",
    "entitypath",
    "usedevelopmentemulator",
    "transporttype",
}


def is_messaging(resource: ResourceId) -> bool:
    return resource.kind in _KINDS


def from_connection_string(resource: ResourceId, text: str) -> Connection:
    """Parse the connection string of a namespace or an entity; an emulator is reached without TLS."""
    parts = _split(text)
    emulated = parts.get("usedevelopmentemulator", "").lower() == "true"
    _check_entity(parts.get("entitypath", ""), resource)
    endpoint = _read_endpoint(parts.get("endpoint", ""), "amqp" if emulated else "amqps", resource)
    return Connection(
        resource_id=resource.text, endpoints={AzureService.MESSAGING: endpoint}, credential=_credential(parts)
    )


def from_default_credential(resource: ResourceId, endpoints: Mapping[AzureService, str] | None = None) -> Connection:
    """The connection with the server's own identity; the default endpoint is that of the public cloud."""
    given = dict(endpoints or {AzureService.MESSAGING: f"sb://{resource.names[0].lower()}.{_CLOUD}/"})
    if set(given) != {AzureService.MESSAGING}:
        raise _invalid("A messaging namespace has one endpoint: give 'messaging' only.")
    endpoint = _read_endpoint(given[AzureService.MESSAGING], "amqps", resource)
    return Connection(
        resource_id=resource.text, endpoints={AzureService.MESSAGING: endpoint}, credential=DefaultCredential()
    )


def _split(text: str) -> dict[str, str]:
    if len(text) > limits.CONNECTION_CHARS:
        raise _invalid(f"The connection string is longer than {limits.CONNECTION_CHARS} characters.")
    parts: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.strip().split(";"))):
        name, equals, value = part.partition("=")
        if not equals or name.lower() not in _PARTS:
            raise _invalid(
                "The connection string is not that of Service Bus or Event Hubs: it must consist of Name=Value parts,"
                " separated by semicolons: Endpoint, SharedAccessKeyName and SharedAccessKey."
            )
        if name.lower() in parts:
            raise _invalid(f"The connection string has {name} twice.")
        parts[name.lower()] = value
    return parts


def _read_endpoint(text: str, scheme: str, resource: ResourceId) -> str:
    parts = _ENDPOINT.fullmatch(text)
    if parts is None:
        raise _invalid("The endpoint must have the form sb://<namespace>.servicebus.windows.net/.")
    try:
        host = parse_endpoint(f"https://{parts[1]}").host
    except InvalidInput:
        raise _invalid("The host of the endpoint is not a valid name or address.") from None
    port = int(parts[2]) if parts[2] else _PORTS[scheme]
    if not 1 <= port <= 65535:
        raise _invalid("The port of the endpoint must be between 1 and 65535.")
    named = _NAMESPACE_HOST.fullmatch(host)
    if named is not None and named[1] != resource.names[0].lower():
        raise _invalid(f"This is a connection to the namespace '{named[1]}', not to '{resource.names[0]}'.")
    return f"{scheme}://{host}:{port}"


def _check_entity(path: str, resource: ResourceId) -> None:
    if not path:
        return
    if resource.kind in _NAMESPACES:
        raise _invalid(f"The connection string is for '{path}' only: set it as the connection of that resource.")
    if path.lower() != resource.name.lower():
        raise _invalid(f"The connection string is not that of '{resource.name}', which the resource id names.")


def _credential(parts: dict[str, str]) -> Credential:
    policy, key, token = (parts.get(f"sharedaccess{name}") for name in ("keyname", "key", "signature"))
    if token and not key and not policy:
        return _shared_access(token)
    if not policy or not key or token:
        raise _invalid(
            "The connection string must have either SharedAccessKeyName and SharedAccessKey, or SharedAccessSignature."
        )
    return PolicyKey(policy, key)


def _shared_access(token: str) -> SharedAccess:
    token = token.strip().removeprefix(_SIGNED)
    parameters = parameters_of(token)
    if not parameters.get("sig") or not parameters.get("sr") or not token.isascii() or " " in token:
        raise _invalid("The shared access signature is incomplete: it has no 'sr' or 'sig' or is not URL-encoded.")
    if parse_instant(parameters.get("se")) is None:
        raise _invalid("The shared access signature's end, 'se', is not a number of seconds since 1970.")
    return SharedAccess(token)


def _invalid(message: str) -> InvalidInput:
    return InvalidInput("InvalidRequest", message, "connection")
