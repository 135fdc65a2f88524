"""Probes of Azure resources that take HTTP: requests that reach neither a function nor a listener."""

from collections.abc import Callable

from recapito.azure.access import blame
from recapito.contracts.caller import Caller
from recapito.domain.connections.connection import Connection
from recapito.domain.delivery.outcome import Outcome, Result, answered
from recapito.domain.excerpt import excerpt, secrets_of
from recapito.domain.handshake.http_call import FailureKind, HttpReply, HttpRequest, NoReply
from recapito.domain.resources.destination import AzureFunction, EventGrid, HybridConnection
from recapito.domain.resources.resource_id import ResourceId
from recapito.senders.azure_http import ResourceTarget
from recapito.senders.event_grid import EventGridAdapter
from recapito.senders.function import FunctionAdapter
from recapito.senders.relay import RelayAdapter

_RESULT_OF = {
    FailureKind.NAME_NOT_FOUND: Result.RESOLUTION_ERROR,
    FailureKind.TIMED_OUT: Result.TIMED_OUT,
}
_NO_EVENT = 400  # the answer to a request without an event, once key and place are right


class HttpProbe:
    """Probes hosts of functions and relays. `now` is real time."""

    def __init__(self, caller: Caller, now: Callable[[], int]) -> None:
        self._caller = caller
        self._now = now

    async def function(self, place: ResourceId, connection: Connection) -> Outcome:
        """Post an empty body to a function: its host refuses it, after it has checked the function and the key."""
        adapter, destination = FunctionAdapter(), AzureFunction(resource_id=place.text)
        target = await adapter.target(destination, connection, self._now())
        outcome = _outcome(await self._caller.ask(HttpRequest("POST", target.url)), target)
        if outcome.status == _NO_EVENT or outcome.result is Result.SUCCESS:
            return answered(200)
        return blame(adapter.explain(destination, outcome), connection, self._now())

    async def relay(self, place: ResourceId, connection: Connection) -> Outcome:
        """Send a GET to a hybrid connection; its listener, if there is one, sees it."""
        adapter, destination = RelayAdapter(), HybridConnection(resource_id=place.text)
        target = await adapter.target(destination, connection, self._now())
        headers = tuple((header.name, header.value) for header in target.headers)
        outcome = _outcome(await self._caller.ask(HttpRequest("GET", target.url, headers)), target)
        return blame(adapter.explain(destination, outcome), connection, self._now())


class EventGridProbe:
    """Probes topics of another Event Grid, which take an empty array or refuse it, once the credential is right."""

    def __init__(self, adapter: EventGridAdapter, caller: Caller, now: Callable[[], int]) -> None:
        self._adapter = adapter
        self._caller = caller
        self._now = now

    async def topic(self, place: ResourceId, connection: Connection) -> Outcome:
        """Publish no event."""
        destination = EventGrid(resource_id=place.text)
        target = await self._adapter.target(destination, connection, self._now())
        if isinstance(target, Outcome):
            return target
        headers = (("Content-Type", "application/json"), *((header.name, header.value) for header in target.headers))
        outcome = _outcome(await self._caller.ask(HttpRequest("POST", target.url, headers, b"[]")), target)
        if outcome.status == _NO_EVENT or outcome.result is Result.SUCCESS:
            return answered(200)
        return blame(self._adapter.explain(destination, outcome), connection, self._now())


def _outcome(answer: HttpReply | NoReply, target: ResourceTarget) -> Outcome:
    if isinstance(answer, HttpReply):
        secrets = (*secrets_of(target.url), *(header.value for header in target.headers))
        return answered(answer.status, detail=excerpt(answer.body.decode("utf-8", "replace"), secrets))
    return Outcome(_RESULT_OF.get(answer.trouble, Result.SOCKET_ERROR), detail=answer.detail or answer.trouble)
