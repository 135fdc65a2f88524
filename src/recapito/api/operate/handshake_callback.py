"""The URL by which an endpoint consents to its subscription: open to every caller that knows the code in it.

A GET or POST is enough, so that it can be opened in a browser; a HEAD is not.
"""

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from recapito.api.services import Services
from recapito.domain import limits
from recapito.domain.handshake.handshake import read_token
from recapito.errors import InvalidInput

_THANKS = "Thank you. The endpoint is validated: its event subscription gets events from now on.\n"


class HandshakeCallback:
    def __init__(self, services: Services) -> None:
        self._subscriptions = services.subscriptions

    def routes(self) -> list[Route]:
        route = Route("/eventsubscriptions/{name}/validate", self._validate, methods=["GET", "POST"])
        route.methods = {"GET", "POST"}  # Starlette adds HEAD, which link checkers send
        return [route]

    async def _validate(self, request: Request) -> Response:
        code, token = request.query_params.get("id", ""), request.query_params.get("token", "")
        target = read_token(token) if max(len(code), len(token)) <= limits.CALLBACK_CHARS else None
        if not code or target is None:
            raise InvalidInput(
                "InvalidRequest", "The URL is incomplete. Open it exactly as it is in the validation event.", "token"
            )
        await self._subscriptions.give_consent(target, request.path_params["name"], code)
        return PlainTextResponse(_THANKS)
