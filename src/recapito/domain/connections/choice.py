"""The five forms of a connection, of which the caller chooses one, over HTTP and in settings alike."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from recapito.domain.connections import parse_event_grid, parse_host, parse_storage
from recapito.domain.connections.connection import STORAGE_SERVICES, AzureService, Connection
from recapito.domain.resources.resource_id import RELAY_NAMESPACE, parse_resource_id
from recapito.errors import InvalidInput


class Choice(NamedTuple):
    """The parameters as given. `endpoints`, by service name, may accompany a default credential."""

    connection_string: str | None = None
    sas_url: str | None = None
    host_url: str | None = None
    default_credential: bool = False
    azurite: bool = False
    endpoints: Mapping[str, str] | None = None

    def __repr__(self) -> str:
        return "<Choice>"


def choose(resource_id: str, choice: Choice) -> Connection:
    """Parse the one form that was given; the target of an InvalidInput is its name over HTTP."""
    forms: dict[str, Callable[[], Connection]] = {}
    if (text := choice.connection_string) is not None:
        forms["connectionString"] = lambda: _from_string(resource_id, text)
    if (url := choice.sas_url) is not None:
        forms["sasUrl"] = lambda: parse_storage.from_sas_url(resource_id, url)
    if (host := choice.host_url) is not None:
        forms["hostUrl"] = lambda: parse_host.from_function_host(resource_id, host)
    if choice.default_credential:
        forms["defaultCredential"] = lambda: _by_own_identity(resource_id, _endpoints(choice))
    if choice.azurite:
        forms["azurite"] = lambda: parse_storage.azurite(resource_id)
    if len(forms) != 1:
        raise _invalid(
            "Give exactly one of 'connectionString', 'sasUrl', 'hostUrl', 'defaultCredential' and 'azurite'.", None
        )
    if choice.endpoints is not None and not choice.default_credential:
        raise _invalid("'endpoints' is allowed with 'defaultCredential' only.", "endpoints")
    return next(iter(forms.values()))()


def _from_string(resource_id: str, text: str) -> Connection:
    resource = parse_resource_id(resource_id)
    if resource.top.kind == RELAY_NAMESPACE:
        return parse_host.from_relay_string(resource_id, text)
    if parse_event_grid.is_event_grid(resource):
        return parse_event_grid.from_connection_string(resource, text)
    return parse_storage.from_connection_string(resource_id, text)


def _by_own_identity(resource_id: str, endpoints: dict[AzureService, str] | None) -> Connection:
    resource = parse_resource_id(resource_id)
    if parse_event_grid.is_event_grid(resource):
        return parse_event_grid.from_default_credential(resource, endpoints)
    return parse_storage.from_default_credential(resource_id, endpoints)


def _endpoints(choice: Choice) -> dict[AzureService, str] | None:
    if choice.endpoints is None:
        return None
    services = (*STORAGE_SERVICES, AzureService.MESSAGING, AzureService.EVENT_GRID)
    for name in choice.endpoints:
        if name not in services:
            raise _invalid(f"The names in 'endpoints' must be among {', '.join(services)}.", "endpoints")
    return {AzureService(name): url for name, url in choice.endpoints.items()}


def _invalid(message: str, target: str | None) -> InvalidInput:
    return InvalidInput("InvalidRequest", message, target)
