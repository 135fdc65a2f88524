"""Connections to Azure resources that subscriptions name: set, checked, listed without their secrets, removed.

`PUT /connections/{resource id}` takes one of five forms; the secrets in it are never shown again.
"""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from recapito.api.arm.routing import answer
from recapito.api.auth.management import admit
from recapito.api.body import BodyReader
from recapito.api.services import Services
from recapito.api.wire.decode import Body, Shown, decode
from recapito.clock import Clock, SystemClock
from recapito.connections.keyring import Keyring, ListedConnection
from recapito.domain import limits
from recapito.domain.connections.choice import Choice, choose
from recapito.domain.connections.connection import Connection
from recapito.domain.instant import stamp
from recapito.errors import InvalidInput

_PATH = "/connections/{resource_id:path}"


class ConnectionBody(Body):
    """One of five forms; `endpoints`, by the names of the services, may come with a default credential."""

    connection_string: str | None = None
    sas_url: str | None = None
    default_credential: bool | None = None
    azurite: bool | None = None
    host_url: str | None = None
    endpoints: dict[str, str] | None = None


class ConnectionManagement:
    """The handlers of connections. Credentials expire by real time, whatever clock the service has."""

    def __init__(self, services: Services, bodies: BodyReader, wall: Clock | None = None) -> None:
        assert services.keyring is not None
        self._keyring: Keyring = services.keyring
        self._examiner = services.examiner
        self._bodies = bodies
        self._wall = wall or SystemClock()

    def routes(self) -> list[Route]:
        return [
            Route("/connections", self._list),
            Route(f"{_PATH}/check", self._check, methods=["POST"]),
            Route(_PATH, self._change, methods=["PUT", "DELETE"]),
        ]

    async def _list(self, request: Request) -> Response:
        await admit(request)
        listed = await self._keyring.list()
        body: Shown = {"value": [_show(connection) for connection in listed]}
        if self._examiner is not None:
            uses = await self._examiner.uses()
            listed_keys = {connection.resource_id.lower() for connection in listed}
            body["azurite"] = sorted(key for key in uses.by_connection if key not in listed_keys)
            body["unconnected"] = uses.unconnected
        return answer(body)

    async def _check(self, request: Request) -> Response:
        """Try a connection, from where deliveries start."""
        await admit(request)
        id = _resource_id(request)
        findings = [] if self._examiner is None else await self._examiner.examine(id)
        return answer({"resourceId": id, "value": [finding._asdict() for finding in findings]})

    async def _change(self, request: Request) -> Response:
        await admit(request)
        return await (self._put(request) if request.method == "PUT" else self._delete(request))

    async def _put(self, request: Request) -> Response:
        headers = dict(request.scope["headers"])
        body = decode(await self._bodies.read(headers, request.receive, limits.MANAGE_BODY_BYTES), ConnectionBody)
        connection = read_connection(_resource_id(request), body)
        await self._keyring.set(connection, self._wall.now())
        listed = next(each for each in await self._keyring.list() if each.resource_id == connection.resource_id)
        return answer(_show(listed), 201)

    async def _delete(self, request: Request) -> Response:
        await self._keyring.remove(_resource_id(request))
        return Response(status_code=204)


def read_connection(resource_id: str, body: ConnectionBody) -> Connection:
    """The connection in a body, or an error that names the field; the resource id comes from the path."""
    choice = Choice(
        body.connection_string,
        body.sas_url,
        body.host_url,
        bool(body.default_credential),
        bool(body.azurite),
        body.endpoints,
    )
    try:
        return choose(resource_id, choice)
    except InvalidInput as error:
        raise InvalidInput(error.code, error.message, None if error.target == "resourceId" else error.target) from None


def _resource_id(request: Request) -> str:
    return f"/{request.path_params['resource_id'].strip('/')}"


def _show(listed: ListedConnection) -> Shown:
    return {
        "resourceId": listed.resource_id,
        "kind": listed.kind,
        "endpoints": dict(listed.endpoints),
        "expiresAt": None if listed.expires_at is None else stamp(listed.expires_at),
        "problem": listed.problem,
        "fromSettings": listed.given,
    }
