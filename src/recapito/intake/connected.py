"""A destination that is named by its resource id must have a connection when a subscription asks for it."""

from collections.abc import Awaitable, Callable

from recapito.domain.connection import Connection, Service
from recapito.domain.subscription import StorageQueue
from recapito.errors import InvalidInput

Find = Callable[[str], Awaitable[Connection | None]]
"""The connection to use for a resource id."""


async def nowhere(resource_id: str) -> Connection | None:
    """A server without connections."""
    return None


async def check_connected(find: Find, destination: StorageQueue) -> None:
    """InvalidInput, naming the command, if nobody has said how this destination is reached."""
    connection = await find(destination.resource_id)
    if connection is None or Service.QUEUE not in connection.endpoints:
        raise InvalidInput(
            "InvalidRequest",
            f"There is no connection to the queue service of {destination.account}. Set one first:"
            f" recapito connection set {destination.account}",
            "resourceId",
        )
