"""A Functions host that records its requests."""

import json
from urllib.parse import parse_qs, urlsplit

from recapito.domain.resources.destination import AzureFunction
from tests.senders.receiver import Connection, Request, status

APP = "/subscriptions/s-1/resourceGroups/shop/providers/Microsoft.Web/sites/shop-app"
ORDERS = AzureFunction(resource_id=f"{APP}/functions/OnOrder")


class FunctionsHost:
    """Answers requests to webhooks as a Functions host does: one function has an Event Grid trigger."""

    def __init__(self, key: str = "", function: str = "OnOrder") -> None:
        self.key = key
        self.function = function
        self.events: list[object] = []

    async def __call__(self, connection: Connection) -> None:
        while (request := await connection.request()) is not None:
            await connection.write(self._answer(request))

    def _answer(self, request: Request) -> bytes:
        method, target, _ = request.line.split()
        url = urlsplit(target)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        if (method, url.path) != ("POST", "/runtime/webhooks/eventgrid"):
            return status(404)
        if self.key and query.get("code") != self.key:
            return status(401)
        if query.get("functionName") != self.function:
            return status(404, body=f"cannot find function: '{query.get('functionName')}'".encode())
        if request.headers.get("aeg-event-type") != "Notification":
            return status(400)
        body = json.loads(request.body)
        self.events += body if isinstance(body, list) else [body]
        return status(202)
