"""A connection: the endpoints and the credential with which the server reaches an Azure resource.

Its secrets are never in a message, in `repr` or in an API answer; they are sent to the service only.
"""

import re
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

import msgspec

from recapito.domain.access.sas import parse_token
from recapito.domain.instant import SECOND, stamp
from recapito.domain.resources.resource_id import FUNCTION_APP, ResourceId
from recapito.errors import InvalidInput

_SECONDS = re.compile(r"[0-9]{9,11}")


class AzureService(StrEnum):
    """The services that a connection may have an endpoint for."""

    BLOB = "blob"
    QUEUE = "queue"
    FUNCTION = "function"
    RELAY = "relay"
    MESSAGING = "messaging"
    EVENT_GRID = "eventgrid"


STORAGE_SERVICES = (AzureService.BLOB, AzureService.QUEUE)
TO_WRITE = {AzureService.BLOB: "cw", AzureService.QUEUE: "a"}
"""Permissions of a shared access signature, one of which is needed: create or write a blob, add a message."""


class AccountKey(msgspec.Struct, frozen=True, tag="account key", tag_field="kind"):
    """The key of a storage account."""

    account: str
    key: str

    def __repr__(self) -> str:
        return f"<AccountKey of {self.account}>"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("account", self.account)]


class PolicyKey(msgspec.Struct, frozen=True, tag="shared access key", tag_field="kind"):
    """The key of a shared access policy, of a messaging namespace or of a part of one."""

    policy: str
    key: str

    def __repr__(self) -> str:
        return f"<PolicyKey of {self.policy}>"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("policy", self.policy)]


class SharedAccess(msgspec.Struct, frozen=True, tag="shared access signature", tag_field="kind"):
    """A shared access signature: its permissions and its end are parameters of the token."""

    token: str

    @property
    def expires_at(self) -> int | None:
        """The end of the token; None if a stored access policy sets it instead."""
        return parse_instant(parameters_of(self.token).get("se"))

    @property
    def starts_at(self) -> int | None:
        """The beginning of the token; None if it has none."""
        return parse_instant(parameters_of(self.token).get("st"))

    def may(self, any_of: str) -> bool:
        """Whether it has one of these permission letters; True without any: a stored access policy may set them."""
        permitted = parameters_of(self.token).get("sp")
        return permitted is None or any(letter in permitted for letter in any_of)

    def __repr__(self) -> str:
        return "<SharedAccess>"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return []


class DefaultCredential(msgspec.Struct, frozen=True, tag="default credential", tag_field="kind"):
    """The server's own identity at Azure: its environment, its managed identity, or the signed-in developer."""


class FunctionKey(msgspec.Struct, frozen=True, tag="function key", tag_field="kind"):
    """The key of a Functions host; empty for a host without one, such as that of `func start`."""

    key: str = ""

    def __repr__(self) -> str:
        return "<FunctionKey>"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return []


class TopicKey(msgspec.Struct, frozen=True, tag="topic key", tag_field="kind"):
    """The key of a topic, a domain or a namespace of Event Grid."""

    key: str

    def __repr__(self) -> str:
        return "<TopicKey>"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return []


class TopicToken(msgspec.Struct, frozen=True, tag="topic token", tag_field="kind"):
    """A token that was signed with the key of a topic of Event Grid; its end is a part of it."""

    token: str

    @property
    def expires_at(self) -> int | None:
        parsed = parse_token(self.token)
        return None if parsed is None else parsed.expires_at

    def __repr__(self) -> str:
        return "<TopicToken>"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return []


Credential = AccountKey | PolicyKey | SharedAccess | DefaultCredential | FunctionKey | TopicKey | TopicToken


class Connection(msgspec.Struct, frozen=True, kw_only=True):
    """The connection to a storage account, a function app, a topic or a namespace, or to one resource in it."""

    resource_id: str
    endpoints: dict[AzureService, str]
    credential: Credential

    @property
    def key(self) -> str:
        """The key of the keyring: the resource id in lower case."""
        return self.resource_id.lower()

    @property
    def kind(self) -> str:
        return str(type(self.credential).__struct_config__.tag)

    @property
    def starts_at(self) -> int | None:
        return self.credential.starts_at if isinstance(self.credential, SharedAccess) else None

    @property
    def expires_at(self) -> int | None:
        return self.credential.expires_at if isinstance(self.credential, SharedAccess | TopicToken) else None

    def __repr__(self) -> str:
        return f"<Connection {self.resource_id} by {self.kind}>"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("resource_id", self.resource_id), ("kind", self.kind)]


def command_for(resource: ResourceId) -> str:
    """The command that sets the connection of the account, the app or the namespace of a resource."""
    way = "--host-url" if resource.top.kind == FUNCTION_APP else "--connection-string"
    return f"recapito connection set {resource.top.text} {way} -"


def check_unexpired(connection: Connection, now: int) -> None:
    """Refuse a connection whose credential has already ended."""
    if connection.expires_at is not None and connection.expires_at <= now:
        ended = stamp(connection.expires_at)
        raise InvalidInput(
            "InvalidRequest",
            f"The shared access signature ended at {ended}: create a new one, or check this machine's clock.",
            "connection",
        )


def check_usable(connection: Connection, service: AzureService, now: int, target: str = "resourceId") -> None:
    """Refuse a connection whose signature has ended or does not permit writing to the service."""
    credential, name = connection.credential, connection.resource_id
    again = f"recapito connection set {name}"
    if connection.expires_at is not None and connection.expires_at <= now:
        ended = stamp(connection.expires_at)
        raise InvalidInput(
            "InvalidRequest", f"The signature of the connection to {name} ended at {ended}: {again}", target
        )
    if service in TO_WRITE and isinstance(credential, SharedAccess) and not credential.may(TO_WRITE[service]):
        raise InvalidInput(
            "InvalidRequest",
            f"The signature of the connection to {name} may not write to its {service} service (sp needs one of"
            f" '{TO_WRITE[service]}'): create another one, then {again}",
            target,
        )


def parameters_of(token: str) -> dict[str, str]:
    """The parameters of a shared access signature, by name."""
    pairs = (part.partition("=") for part in token.split("&"))
    return {name: value.replace("%3A", ":").replace("%3a", ":") for name, _, value in pairs}


def parse_instant(text: str | None) -> int | None:
    """Parse an instant of a signature: seconds since 1970, or a date with or without a time; None if it is neither."""
    if text is not None and _SECONDS.fullmatch(text):
        return int(text) * SECOND
    try:
        parsed = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return int(parsed.replace(tzinfo=parsed.tzinfo or UTC).timestamp()) * SECOND
