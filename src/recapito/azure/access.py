"""The way to Azure's resources, before any of Microsoft's libraries is loaded: connection, name service, egress.

A connection that is missing or wrong is an Outcome that names the remedy.
"""

import asyncio
import os
import re
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol

from msgspec.structs import replace

from recapito.domain.access.egress import Egress
from recapito.domain.connections.connection import AzureService, Connection
from recapito.domain.delivery.outcome import Outcome, Result
from recapito.domain.instant import stamp
from recapito.domain.resources.resource_id import ResourceId
from recapito.errors import SettingsError, StoreFailed

if TYPE_CHECKING:
    from azure.core.credentials_async import AsyncTokenCredential

Find = Callable[[str], Awaitable[Connection | None]]
"""The connection to use for a resource id. SettingsError if it cannot be read, StoreFailed if it cannot be read now."""

_COMMAND = re.compile(r"recapito connection set \S+")


class ResolvedHost(Protocol):
    """The addresses of a host name, or none and the reason."""

    @property
    def addresses(self) -> tuple[str, ...]:
        """The addresses, as texts."""

    @property
    def problem(self) -> str:
        """The reason why there are none."""


class NameService(Protocol):
    """A name service that answers in bounded time. Its owner closes it."""

    def known(self, host: str) -> ResolvedHost | None:
        """The result that is known now."""

    def ask(self, host: str, answer: Callable[[ResolvedHost], None]) -> None:
        """Resolve a name, and call `answer` later."""


async def resolve(names: NameService, host: str) -> ResolvedHost:
    """Resolve a name, unless its result is known already."""
    known = names.known(host)
    if known is not None:
        return known
    result: asyncio.Future[ResolvedHost] = asyncio.get_running_loop().create_future()

    def answer(resolved: ResolvedHost) -> None:
        if not result.done():  # the caller may have gone
            result.set_result(resolved)

    names.ask(host, answer)
    return await result


def default_credential() -> "AsyncTokenCredential":
    """The server's own identity at Azure: its environment, its managed identity, or a developer who is signed in."""
    from azure.identity.aio import DefaultAzureCredential

    return DefaultAzureCredential()


class AzureAccess(NamedTuple):
    """Everything that a client needs to reach Azure.

    find: looks up the connection of a resource.
    names: resolves host names.
    egress: judges every address that is dialled.
    ca_file: the authority to trust instead of the system's.
    credential: makes the server's own identity, for connections without a secret.
    now: real time, by which signatures end.
    """

    find: Find
    names: NameService
    egress: Egress
    ca_file: str | None = None
    credential: "Callable[[], AsyncTokenCredential]" = default_credential
    now: Callable[[], int] = time.time_ns

    async def connection(self, service: AzureService, resource: ResourceId) -> Connection | Outcome:
        """The connection that leads to a service of a resource."""
        return await look_up(self.find, service, resource)

    def blame(self, outcome: Outcome, connection: Connection) -> Outcome:
        """The same outcome, with the remedy for this connection; see `blame`."""
        return blame(outcome, connection, self.now())


class OwnCredential:
    """The server's own identity at Azure, made when it is first needed."""

    def __init__(self, make: "Callable[[], AsyncTokenCredential]") -> None:
        self._make = make
        self._credential: AsyncTokenCredential | None = None

    def __repr__(self) -> str:
        return f"<OwnCredential, {'not ' if self._credential is None else ''}made>"

    def get(self) -> "AsyncTokenCredential":
        if self._credential is None:
            self._credential = self._make()
        return self._credential

    async def close(self) -> None:
        if self._credential is not None:
            await self._credential.close()


async def look_up(find: Find, service: AzureService, resource: ResourceId) -> Connection | Outcome:
    """The connection that leads to a service of a resource, or an Outcome with the remedy."""
    try:
        connection = await find(resource.text)
    except SettingsError as error:
        return Outcome(Result.UNAUTHORIZED, 401, detail=str(error))
    except StoreFailed as error:
        return Outcome(Result.GENERIC_ERROR, detail=f"The connection to {resource.text} cannot be read: {error}")
    if connection is None or service not in connection.endpoints:
        return Outcome(
            Result.UNAUTHORIZED,
            401,
            detail=f"There is no connection to the {service} service of {resource.top.text}:"
            f" recapito connection set {resource.top.text}",
        )
    return connection


def blame(outcome: Outcome, connection: Connection, now: int) -> Outcome:
    """Name the cause if a signature has ended or not begun: services report that in several ways.

    A remedy names the connection that was used, which may be that of the resource or of the account that it is in.
    """
    name = connection.resource_id
    starts_at, ends_at = connection.starts_at, connection.expires_at
    if outcome.status in (401, 403) and ends_at is not None and now >= ends_at:
        ended = f"the signature of the connection to {name} ended at {stamp(ends_at)}"
        return Outcome(Result.UNAUTHORIZED, 401, detail=f"{ended}: recapito connection set {name}")
    if outcome.status in (401, 403) and starts_at is not None and now < starts_at:
        begun = f"the signature of the connection to {name} begins at {stamp(starts_at)}"
        return Outcome(Result.UNAUTHORIZED, 401, detail=f"{begun}: wait, or recapito connection set {name}")
    return replace(outcome, detail=_COMMAND.sub(lambda _: f"recapito connection set {name}", outcome.detail))


def reason_of(error: OSError) -> str:
    """The reason why a socket could not be opened, in the system's words: asyncio's own name only the address."""
    reason = error.strerror or ""
    return os.strerror(error.errno) if error.errno and reason.startswith("Connect call failed") else reason
