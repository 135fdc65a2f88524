"""Functions with an Event Grid trigger: the host takes their events at one path, with a key of its own."""

from urllib.parse import urlencode

from msgspec.structs import replace

from recapito.domain.connections.connection import AzureService, Connection, FunctionKey
from recapito.domain.connections.parse_host import WEBHOOK_PATH
from recapito.domain.delivery.outcome import Outcome, Result
from recapito.domain.resources.destination import AzureFunction
from recapito.domain.resources.resource_id import parse_resource_id
from recapito.senders.azure_http import ResourceTarget

_NO_TRIGGER = "cannot find function"
"""The beginning of the 404 of a Functions host for a function without an Event Grid trigger."""


class FunctionAdapter:
    """The target of a function, and the meaning of its host's refusals."""

    service = AzureService.FUNCTION

    async def target(self, destination: AzureFunction, connection: Connection, now: int) -> ResourceTarget:
        """The host's path for Event Grid, naming the function; the key is a part of the query, as in Azure."""
        credential, query = connection.credential, {"functionName": parse_resource_id(destination.resource_id).name}
        if isinstance(credential, FunctionKey) and credential.key:
            query["code"] = credential.key
        return ResourceTarget(f"{connection.endpoints[AzureService.FUNCTION]}{WEBHOOK_PATH}?{urlencode(query)}")

    def explain(self, destination: AzureFunction, outcome: Outcome) -> Outcome:
        """The trigger is missing only if the host says so; any other 404 may be temporary."""
        function = parse_resource_id(destination.resource_id)
        where = f"{function.name} of function app {function.top.name}"
        if outcome.status == 404 and outcome.detail.lower().startswith(_NO_TRIGGER):
            detail = (
                f"{where}: its host has no function of that name with an Event Grid trigger:"
                " deploy it, or correct the subscription"
            )
            return replace(outcome, result=Result.INVALID_AZURE_FUNCTION_DESTINATION, detail=detail)
        if outcome.status in (401, 403):
            return replace(
                outcome,
                detail=f"{where}: the host refuses the key of its connection ({outcome.status}):"
                f" recapito connection set {function.top.text}",
            )
        if outcome.status == 404 and not outcome.detail:
            return replace(
                outcome, detail=f"{where}: nothing is there; is it a Functions host, with its functions loaded?"
            )
        return replace(outcome, detail=f"{where}: {outcome.detail}") if outcome.detail else outcome
