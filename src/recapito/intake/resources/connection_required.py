"""Connections that a subscription needs: a resource named by its id must have a usable one before the PUT succeeds."""

from collections.abc import Awaitable, Callable

from recapito.domain.connections.connection import STORAGE_SERVICES, AzureService, Connection, check_usable, command_for
from recapito.domain.resources.destination import AzureResource, service_of
from recapito.domain.resources.resource_id import parse_resource_id
from recapito.domain.resources.subscription import DeadLetterBlobs, DeadLetterDestination
from recapito.errors import InvalidInput, SettingsError

Find = Callable[[str], Awaitable[Connection | None]]
"""The connection to use for a resource id."""


async def nowhere(resource_id: str) -> Connection | None:
    """Finds no connection, on a server without connections."""
    return None


async def check_connected(find: Find, destination: AzureResource, now: int) -> None:
    """Raise InvalidInput, with the command to run, if this destination has no usable connection; `now` is real time."""
    await _check(find, destination.resource_id, service_of(destination), now, "resourceId")


async def check_dead_letters_connected(find: Find, place: DeadLetterDestination | None, now: int) -> None:
    """Raise InvalidInput, with the command to run, if this blob container has no usable connection."""
    if isinstance(place, DeadLetterBlobs):
        await _check(find, place.container, AzureService.BLOB, now, "deadLetterDestination", place.account)


async def _check(find: Find, id: str, service: AzureService, now: int, target: str, top: str = "") -> None:
    top = top or parse_resource_id(id).top.text
    command = command_for(parse_resource_id(top))
    try:
        connection = await find(id)
    except SettingsError as error:
        raise InvalidInput("InvalidRequest", f"The connection to {top} cannot be opened: {error}", target) from None
    if connection is None or service not in connection.endpoints:
        local = "; or serve with --azurite, for an Azurite on this machine" if service in STORAGE_SERVICES else ""
        raise InvalidInput(
            "InvalidRequest",
            f"There is no connection to the {service} service of {top}. Set one first: {command}{local}",
            target,
        )
    check_usable(connection, service, now, target)
