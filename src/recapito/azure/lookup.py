"""Looking up how a resource is reached: its connection, or an Outcome that names the remedy."""

from collections.abc import Awaitable, Callable

from recapito.domain.connection import Connection, Service
from recapito.domain.instant import stamp
from recapito.domain.outcome import Outcome, Result
from recapito.domain.resource_id import ResourceId
from recapito.errors import SettingsError, StoreFailed

Find = Callable[[str], Awaitable[Connection | None]]
"""The connection to use for a resource id. SettingsError if it can not be read, StoreFailed if not now."""


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
    """Say it plainly where a signature has ended: services have several words for that."""
    ends_at = connection.expires_at
    if outcome.status not in (401, 403) or ends_at is None or now < ends_at:
        return outcome
    ended = f"the signature of the connection to {connection.resource_id} ended at {stamp(ends_at)}"
    return Outcome(Result.UNAUTHORIZED, 401, detail=f"{ended}: recapito connection set {connection.resource_id}")
