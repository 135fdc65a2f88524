"""Looking up how a resource is reached: its connection, or an Outcome that names the remedy; and whom to blame."""

import os
import re
from collections.abc import Awaitable, Callable

from msgspec.structs import replace

from recapito.domain.connections.connection import Connection, Service
from recapito.domain.delivery.outcome import Outcome, Result
from recapito.domain.instant import stamp
from recapito.domain.resources.resource_id import ResourceId
from recapito.errors import SettingsError, StoreFailed

Find = Callable[[str], Awaitable[Connection | None]]
"""The connection to use for a resource id. SettingsError if it can not be read, StoreFailed if not now."""

_COMMAND = re.compile(r"recapito connection set \S+")


async def look_up(find: Find, service: Service, resource: ResourceId) -> Connection | Outcome:
    """The connection that leads to a service of a resource."""
    try:
        connection = await find(resource.text)
    except SettingsError as error:
        return Outcome(Result.UNAUTHORIZED, 401, detail=str(error))
    except StoreFailed as error:
        return Outcome(Result.GENERIC_ERROR, detail=f"The connection to {resource.text} can not be read: {error}")
    if connection is None or service not in connection.endpoints:
        return Outcome(
            Result.UNAUTHORIZED,
            401,
            detail=f"There is no connection to the {service} service of {resource.top.text}:"
            f" recapito connection set {resource.top.text}",
        )
    return connection


def blame(outcome: Outcome, connection: Connection, now: int) -> Outcome:
    """Say it plainly where a signature has ended or not begun: services have several words for that.

    A remedy names the connection that was used, be it of the resource itself or of the account that it is in.
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
    """Why a socket could not be opened, in the system's words: asyncio's own name only the address."""
    said = error.strerror or ""
    return os.strerror(error.errno) if error.errno and said.startswith("Connect call failed") else said
