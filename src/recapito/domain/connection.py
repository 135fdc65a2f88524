"""A connection: how an Azure resource that subscriptions name by its id is reached, and as whom.

What is secret in it is never part of a message, of `repr` or of what is shown: it goes in, and out to the service.
"""

from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

import msgspec

from recapito.domain.instant import SECOND, stamp
from recapito.errors import InvalidInput


class Service(StrEnum):
    """What a connection has an endpoint for."""

    BLOB = "blob"
    QUEUE = "queue"
    FUNCTION = "function"
    RELAY = "relay"


STORAGE_SERVICES = (Service.BLOB, Service.QUEUE)


class AccountKey(msgspec.Struct, frozen=True, tag="account key", tag_field="kind"):
    """The key of a storage account."""

    account: str
    key: str

    def __repr__(self) -> str:
        return f"<AccountKey of {self.account}>"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("account", self.account)]


class SharedAccess(msgspec.Struct, frozen=True, tag="shared access signature", tag_field="kind"):
    """A shared access signature: what it may be used for, and until when, is written in it."""

    token: str

    @property
    def expires_at(self) -> int | None:
        """When it ends, if it says so itself: a stored access policy may say it instead."""
        return parse_instant(parameters_of(self.token).get("se"))

    def __repr__(self) -> str:
        return "<SharedAccess>"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return []


class DefaultCredential(msgspec.Struct, frozen=True, tag="default credential", tag_field="kind"):
    """Whoever this server is to Azure: its environment, its managed identity, or the developer who is signed in."""


class FunctionKey(msgspec.Struct, frozen=True, tag="function key", tag_field="kind"):
    """The key of a Functions host; empty for one that asks for none, as that of `func start`."""

    key: str = ""

    def __repr__(self) -> str:
        return "<FunctionKey>"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return []


class SharedAccessKey(msgspec.Struct, frozen=True, tag="shared access key", tag_field="kind"):
    """A named key of a namespace, or of one thing in it, by which signatures are made."""

    name: str
    key: str

    def __repr__(self) -> str:
        return f"<SharedAccessKey {self.name}>"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("name", self.name)]


Credential = AccountKey | SharedAccess | DefaultCredential | FunctionKey | SharedAccessKey


class Connection(msgspec.Struct, frozen=True, kw_only=True):
    """How a resource is reached: a storage account, a function app or a namespace, or one thing in it."""

    resource_id: str
    endpoints: dict[Service, str]
    credential: Credential

    @property
    def key(self) -> str:
        """By which it is found."""
        return self.resource_id.lower()

    @property
    def kind(self) -> str:
        """The kind of its credential."""
        return str(type(self.credential).__struct_config__.tag)

    @property
    def expires_at(self) -> int | None:
        """When its credential ends, if that is known."""
        return self.credential.expires_at if isinstance(self.credential, SharedAccess) else None

    def __repr__(self) -> str:
        return f"<Connection {self.resource_id} by {self.kind}>"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("resource_id", self.resource_id), ("kind", self.kind)]


def check_unexpired(connection: Connection, now: int) -> None:
    """Refuse a connection that has ended already."""
    if connection.expires_at is not None and connection.expires_at <= now:
        ended = stamp(connection.expires_at)
        raise InvalidInput(
            "InvalidRequest",
            f"The shared access signature ended at {ended}: make a new one, and check this machine's clock.",
            "connection",
        )


def parameters_of(token: str) -> dict[str, str]:
    """What a shared access signature says, by the names of its parameters."""
    pairs = (part.partition("=") for part in token.split("&"))
    return {name: value.replace("%3A", ":").replace("%3a", ":") for name, _, value in pairs}


def parse_instant(text: str | None) -> int | None:
    """An instant as signatures write it: a date, with or without a time; None if it is neither."""
    try:
        parsed = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return int(parsed.replace(tzinfo=parsed.tzinfo or UTC).timestamp()) * SECOND
