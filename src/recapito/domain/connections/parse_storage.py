"""Parses connection strings, URLs with a shared access signature, default credentials and Azurite into connections.

An error names the part that is wrong and never repeats a value of it.
"""

import re
from base64 import b64decode
from collections.abc import Collection, Iterator, Mapping

from recapito.domain import limits
from recapito.domain.access.egress import EndpointUrl, parse_endpoint
from recapito.domain.connections import parse_messaging
from recapito.domain.connections.connection import (
    STORAGE_SERVICES,
    AccountKey,
    AzureService,
    Connection,
    Credential,
    DefaultCredential,
    SharedAccess,
    command_for,
    parameters_of,
    parse_instant,
)
from recapito.domain.resources.resource_id import (
    BLOB_CONTAINER,
    EVENT_GRID_DOMAIN,
    EVENT_GRID_NAMESPACE,
    EVENT_GRID_TOPIC,
    EVENT_HUBS_NAMESPACE,
    FUNCTION_APP,
    QUEUE,
    RELAY_NAMESPACE,
    SERVICE_BUS_NAMESPACE,
    STORAGE_ACCOUNT,
    ResourceId,
    parse_resource_id,
)
from recapito.errors import InvalidInput

AZURITE_ACCOUNT = "devstoreaccount1"
# The same in every Azurite and printed in its manual, so not a secret.
AZURITE_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
_AZURITE_PORTS = {AzureService.BLOB: 10000, AzureService.QUEUE: 10001}
_CLOUD = "core.windows.net"
_ACCOUNT_NAME = re.compile(r"[a-z0-9]{3,24}")
SERVICE_HOST = re.compile(r"([a-z0-9]{3,24})\.(blob|queue)\.([a-z0-9.-]+)")
_OTHERS = (
    SERVICE_BUS_NAMESPACE,
    EVENT_HUBS_NAMESPACE,
    RELAY_NAMESPACE,
    FUNCTION_APP,
    EVENT_GRID_TOPIC,
    EVENT_GRID_DOMAIN,
    EVENT_GRID_NAMESPACE,
)
_STORAGE, _MESSAGING = "storage accounts, their containers and queues", "namespaces of Service Bus and Event Hubs"
_EVENT_GRID = "topics, domains and namespaces of Event Grid"
_CONNECTABLE = f"{_STORAGE}, {_MESSAGING}, their queues, topics and hubs, relays, function apps, {_EVENT_GRID}"
_PARTS = {
    "accountname",
    "accountkey",
    "sharedaccesssignature",
    "defaultendpointsprotocol",
    "endpointsuffix",
    "blobendpoint",
    "queueendpoint",
    "tableendpoint",
    "fileendpoint",
    "usedevelopmentstorage",
}


def from_connection_string(resource_id: str, text: str) -> Connection:
    """Parse the connection string of a storage account or of a messaging namespace."""
    if parse_messaging.is_messaging(resource := parse_resource_id(resource_id)):
        return parse_messaging.from_connection_string(resource, text)
    resource = _storage(resource_id, "A connection string", f"{_STORAGE}, {_MESSAGING} and relays")
    parts = _split(text)
    if parts.get("usedevelopmentstorage", "").lower() == "true":
        return azurite(resource_id)
    given = {service: parts[f"{service}endpoint"] for service in STORAGE_SERVICES if parts.get(f"{service}endpoint")}
    account = parts.get("accountname", "")
    if not given and not account:
        raise invalid_connection("The connection string has neither AccountName nor BlobEndpoint or QueueEndpoint.")
    if not given:
        _check_account(account, resource)
        scheme, suffix = parts.get("defaultendpointsprotocol", "https"), parts.get("endpointsuffix", _CLOUD)
        given = {service: f"{scheme}://{account}.{service}.{suffix}" for service in STORAGE_SERVICES}
    return Connection(
        resource_id=resource.text,
        endpoints={service: _base_url(url, f"{service.capitalize()}Endpoint") for service, url in given.items()},
        credential=_credential(parts, account),
    )


def from_sas_url(resource_id: str, url: str) -> Connection:
    """Parse the URL of a service, a container or a queue with a shared access signature."""
    resource = _storage(resource_id, "A SAS URL")
    base, _, query = url.strip().partition("?")
    endpoint = read_endpoint(base, "The SAS URL")
    credential = shared_access(query)
    path = [step for step in endpoint.target.split("/") if step]
    root = root_of(endpoint)
    host = SERVICE_HOST.fullmatch(endpoint.host)
    if host is None and path:  # as Azurite has it: the account comes first in the path
        root, path = f"{root}/{path[0]}", path[1:]
    elif host is not None:
        _check_account(host[1], resource)
    _check_place(path, resource)
    return Connection(
        resource_id=resource.text, endpoints=_sas_endpoints(root, host, query, resource), credential=credential
    )


def from_default_credential(resource_id: str, endpoints: Mapping[AzureService, str] | None = None) -> Connection:
    """The connection with the server's own identity; the default endpoints are those of the public cloud."""
    if parse_messaging.is_messaging(resource := parse_resource_id(resource_id)):
        return parse_messaging.from_default_credential(resource, endpoints)
    resource = _storage(resource_id, "A default credential", f"{_STORAGE} and {_MESSAGING}")
    if endpoints and AzureService.MESSAGING in endpoints:
        raise invalid_connection("A storage account has no endpoint for messaging: give 'blob' or 'queue'.")
    account = resource.names[0].lower()
    given = endpoints or {service: f"https://{account}.{service}.{_CLOUD}" for service in STORAGE_SERVICES}
    checked = {service: _base_url(url, f"The {service} endpoint") for service, url in given.items()}
    if any(not url.startswith("https://") for url in checked.values()):
        raise invalid_connection("A default credential sends a token, which needs an https:// endpoint.")
    return Connection(resource_id=resource.text, endpoints=checked, credential=DefaultCredential())


def azurite(
    resource_id: str, host: str = "127.0.0.1", ports: Mapping[AzureService, int] = _AZURITE_PORTS
) -> Connection:
    """The connection to an Azurite, which stands in for any account that the resource id names."""
    resource = _storage(resource_id, "An Azurite")
    urls = {service: f"http://{host}:{port}/{AZURITE_ACCOUNT}" for service, port in ports.items()}
    return Connection(
        resource_id=resource.text,
        endpoints={service: _base_url(url, "The address of Azurite") for service, url in urls.items()},
        credential=AccountKey(AZURITE_ACCOUNT, AZURITE_KEY),
    )


def _storage(text: str, way: str, opened: str = _STORAGE) -> ResourceId:
    """The storage that a resource id names; for other resources the error has the command that connects them."""
    resource = parse_resource_id(text)
    if resource.kind in (STORAGE_ACCOUNT, BLOB_CONTAINER, QUEUE):
        return resource
    if resource.top.kind in _OTHERS:
        message = f"{way} connects {opened}, and {resource.text} is none of these: {command_for(resource)}"
    else:
        message = f"{resource.text} cannot be connected. Connections exist for {_CONNECTABLE}."
    raise InvalidInput("InvalidRequest", message, "resourceId")


def _base_url(url: str, what: str) -> str:
    endpoint = read_endpoint(url, what)
    if "?" in endpoint.target or endpoint.target.rstrip("/").count("/") > 1:
        raise invalid_connection(f"{what} must be a URL without a query, whose path is empty or the account's name.")
    return root_of(endpoint) + endpoint.target.rstrip("/")


def root_of(endpoint: EndpointUrl) -> str:
    """The URL of an endpoint without its path."""
    host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
    default = {"http": 80, "https": 443}[endpoint.scheme] == endpoint.port
    return f"{endpoint.scheme}://{host}" if default else f"{endpoint.scheme}://{host}:{endpoint.port}"


def read_endpoint(url: str, what: str) -> EndpointUrl:
    """Parse a URL; an error calls it `what`."""
    try:
        return parse_endpoint(url.strip())
    except InvalidInput as error:
        raise invalid_connection(
            error.message.replace("The endpoint URL", what).replace("the endpoint URL", what)
        ) from None


def invalid_connection(message: str) -> InvalidInput:
    """The error of a connection; its message must not repeat a value of it."""
    return InvalidInput("InvalidRequest", message, "connection")


def split_parts(text: str, known: Collection[str], wrong: str) -> dict[str, str]:
    """The parts of a connection string of another service by their names in lower case; `wrong`: the error."""
    _check_length(text)
    parts: dict[str, str] = {}
    for name, equals, value in _pairs(text):
        if not equals or name.lower() not in known or name.lower() in parts:
            raise invalid_connection(wrong)
        if not value.isascii() or not value.isprintable():
            raise invalid_connection(f"The connection string's {name} contains a character that cannot be sent.")
        parts[name.lower()] = value
    return parts


def _check_length(text: str) -> None:
    if len(text) > limits.CONNECTION_CHARS:
        raise invalid_connection(f"The connection string is longer than {limits.CONNECTION_CHARS} characters.")


def _pairs(text: str) -> Iterator[tuple[str, str, str]]:
    return (part.partition("=") for part in filter(None, (part.strip() for part in text.strip().split(";"))))


def _split(text: str) -> dict[str, str]:
    """The parts of a connection string by their names in lower case. No message repeats a value."""
    _check_length(text)
    parts: dict[str, str] = {}
    for name, equals, value in _pairs(text):
        if not equals or name.lower() not in _PARTS:
            raise invalid_connection(
                "The connection string is not that of a storage account: it must consist of Name=Value parts,"
                " separated by semicolons, such as AccountName, AccountKey and EndpointSuffix."
            )
        if name.lower() in parts:
            raise invalid_connection(f"The connection string has {name} twice.")
        parts[name.lower()] = value
    return parts


def _credential(parts: Mapping[str, str], account: str) -> Credential:
    key, token = parts.get("accountkey"), parts.get("sharedaccesssignature")
    if token and not key:
        return shared_access(token)
    if not key or token:
        raise invalid_connection("The connection string must have either AccountKey or SharedAccessSignature.")
    if not account:
        raise invalid_connection("The connection string has an AccountKey but no AccountName.")
    try:
        b64decode(key, validate=True)
    except ValueError:
        raise invalid_connection(
            "The connection string's AccountKey is not base64: copy it again, it was cut or changed."
        ) from None
    return AccountKey(account, key)


def shared_access(token: str) -> SharedAccess:
    """Parse a shared access signature, with or without its question mark."""
    token = token.strip().removeprefix("?")
    parameters = parameters_of(token)
    if not parameters.get("sig") or not token.isascii() or not token.isprintable() or " " in token:
        raise invalid_connection("The shared access signature is incomplete: it has no 'sig' or is not URL-encoded.")
    if "se" in parameters and parse_instant(parameters["se"]) is None:
        raise invalid_connection("The shared access signature's end, 'se', is not a time such as 2030-01-31T12:00:00Z.")
    return SharedAccess(token)


def _sas_endpoints(root: str, host: re.Match[str] | None, query: str, resource: ResourceId) -> dict[AzureService, str]:
    """The services that a SAS URL opens: its own, and the others of an account SAS where their hosts are known."""
    if resource.kind != STORAGE_ACCOUNT:
        return {AzureService.BLOB if resource.kind == BLOB_CONTAINER else AzureService.QUEUE: root}
    signed = [service for service in STORAGE_SERVICES if service[0] in parameters_of(query).get("ss", "")]
    if host is None and len(signed) == 1:
        return {signed[0]: root}
    if host is None:
        raise invalid_connection(
            "The SAS URL does not tell its service: give a connection string with BlobEndpoint or QueueEndpoint, and"
            " SharedAccessSignature."
        )
    own = AzureService(host[2])
    covered = {*signed, own}
    return {service: root.replace(f".{own}.", f".{service}.", 1) for service in STORAGE_SERVICES if service in covered}


def _check_place(path: list[str], resource: ResourceId) -> None:
    if not path:
        return
    if resource.kind == STORAGE_ACCOUNT:
        raise invalid_connection(
            f"The SAS URL is for '{path[0]}' only: set it as the connection of that container or queue."
        )
    if path != [resource.name.lower()]:
        raise invalid_connection(f"The SAS URL is not that of '{resource.name}', which the resource id names.")


def _check_account(account: str, resource: ResourceId) -> None:
    if not _ACCOUNT_NAME.fullmatch(account):
        raise invalid_connection("The account's name must be 3 to 24 lower-case letters and digits.")
    if account != resource.names[0].lower():
        raise invalid_connection(f"This is a connection to the account '{account}', not to '{resource.names[0]}'.")
