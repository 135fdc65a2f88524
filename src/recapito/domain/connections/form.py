"""The form in which a caller would give a connection: the inverse of `choose`. It holds the secret."""

from typing import Any
from urllib.parse import quote

from recapito.domain.connections.connection import (
    AccountKey,
    AzureService,
    Connection,
    DefaultCredential,
    FunctionKey,
    PolicyKey,
    SharedAccess,
    TopicKey,
    TopicToken,
)
from recapito.domain.connections.parse_storage import azurite
from recapito.domain.resources.resource_id import STORAGE_ACCOUNT, parse_resource_id

SECRET_FORMS = ("connectionString", "hostUrl")


def form_of(connection: Connection) -> dict[str, Any]:
    """One of the five forms, by its name over HTTP."""
    storage = parse_resource_id(connection.resource_id).top.kind == STORAGE_ACCOUNT
    if storage and connection == azurite(connection.resource_id):
        return {"azurite": True}
    match connection.credential:
        case DefaultCredential():
            return {"defaultCredential": True, "endpoints": dict(connection.endpoints)}
        case FunctionKey(key):
            code = f"?code={quote(key, safe='')}" if key else ""
            return {"hostUrl": connection.endpoints[AzureService.FUNCTION] + code}
        case AccountKey(account, key):
            parts = {"AccountName": account, "AccountKey": key}
        case PolicyKey(policy, key):
            parts = {"SharedAccessKeyName": policy, "SharedAccessKey": key}
        case TopicKey(key):
            parts = {"SharedAccessKey": key}
        case TopicToken(token):
            parts = {"SharedAccessSignature": token}
        case SharedAccess(token):
            parts = {"SharedAccessSignature": token if storage else f"SharedAccessSignature {token}"}
    for service, url in connection.endpoints.items():
        parts[f"{service.capitalize()}Endpoint" if storage else "Endpoint"] = url
        if url.startswith("amqp://"):
            parts["UseDevelopmentEmulator"] = "true"
    return {"connectionString": ";".join(f"{name}={value}" for name, value in parts.items())}
