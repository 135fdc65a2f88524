"""A destination that is named by its resource id must have a connection when a subscription asks for it."""

from collections.abc import Awaitable, Callable

from recapito.domain.connection import Connection, Service
from recapito.domain.resource_id import parse_resource_id
from recapito.domain.subscription import AzureFunction, AzureResource, HybridConnection, StorageQueue
from recapito.errors import InvalidInput

Find = Callable[[str], Awaitable[Connection | None]]
"""The connection to use for a resource id."""

SERVICE_OF = {
    StorageQueue: Service.QUEUE,
    AzureFunction: Service.FUNCTION,
    HybridConnection: Service.RELAY,
}


async def nowhere(resource_id: str) -> Connection | None:
    """A server without connections."""
    return None


async def check_connected(find: Find, destination: AzureResource) -> None:
    """InvalidInput, naming the command, if nobody has said how this destination is reached."""
    connection, service = await find(destination.resource_id), SERVICE_OF[type(destination)]
    if connection is None or service not in connection.endpoints:
        top = parse_resource_id(destination.resource_id).top.text
        raise InvalidInput(
            "InvalidRequest",
            f"There is no connection to the {service} service of {top}. Set one first: recapito connection set {top}",
            "resourceId",
        )
