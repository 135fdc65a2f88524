"""Common parts of all ARM requests: paths without case, an api-version, preconditions, JSON answers."""

import re
from collections.abc import Awaitable, Callable, Mapping
from datetime import date

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from recapito.api.auth.management import admit
from recapito.errors import InvalidInput
from recapito.intake.resources.validation import Precondition

Handler = Callable[[Request], Awaitable[Response]]

PROVIDER = "/providers/Microsoft.EventGrid"

_VERSION = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})(?:-preview)?")
_FIRST_VERSION = date(2018, 1, 1)
_FIRST_VERSION_AROUND = date(2014, 1, 1)  # groups, subscriptions and the like are older than Event Grid
_LAST_VERSION = date(2026, 12, 31)


class ArmRoute(Route):
    """A path of ARM with its methods. Its constant parts compare without case, as ARM's do.

    `bodies` maps methods to the types of their bodies, for the description of the API.
    """

    def __init__(
        self, path: str, methods: Mapping[str, Handler], bodies: Mapping[str, type[msgspec.Struct]] | None = None
    ) -> None:
        self.bodies = bodies or {}

        async def endpoint(request: Request) -> Response:
            await admit(request)
            check_api_version(request)
            return await (methods.get(request.method) or methods["GET"])(request)

        super().__init__(path, endpoint, methods=list(methods))
        self.path_regex = re.compile(self.path_regex.pattern, re.IGNORECASE)


def in_subscription(path: str) -> str:
    return "/subscriptions/{subscription}" + path


def in_group(path: str) -> str:
    return "/subscriptions/{subscription}/resourceGroups/{group}" + path


def check_api_version(request: Request) -> None:
    """Accept every known version, and any other date in the range: all are served alike."""
    version = query(request, "api-version")
    if not version:
        raise InvalidInput("MissingApiVersionParameter", "The query parameter api-version is required.", "api-version")
    parts = _VERSION.fullmatch(version)
    first = _FIRST_VERSION if PROVIDER.lower() in request.url.path.lower() else _FIRST_VERSION_AROUND
    try:
        known = parts is not None and first <= date.fromisoformat(parts[1]) <= _LAST_VERSION
    except ValueError:
        known = False
    if not known:
        raise InvalidInput(
            "InvalidApiVersionParameter",
            f"The api-version must be a date from {first} to {_LAST_VERSION}, optionally followed by -preview.",
            "api-version",
        )


def answer(body: Mapping[str, object], status: int = 200, etag: int | None = None) -> Response:
    headers = None if etag is None else {"etag": f'"{etag}"'}
    return Response(msgspec.json.encode(body), status, headers, "application/json; charset=utf-8")


def accepted(body: Mapping[str, object], etag: int | None = None) -> Response:
    """The answer to a PUT or a PATCH that clients take for a long-running operation: they ask again at once.

    `body` is not in its final state, so that they do. Otherwise az prints none of the types in the resource.
    """
    response = answer(body, 201, etag)
    response.headers["retry-after"] = "0"
    return response


def gone(found: bool = True) -> Response:
    """The answer to a DELETE; 204 if there was nothing to delete."""
    return Response(status_code=200 if found else 204)


def precondition_of(request: Request) -> Precondition:
    """The `If-Match` and `If-None-Match` of a request."""
    return Precondition(_tags(request, "if-match"), _tags(request, "if-none-match"))


def _tags(request: Request, header: str) -> tuple[str, ...]:
    tags = (tag.strip() for value in request.headers.getlist(header) for tag in value.split(","))
    return tuple(tag.removeprefix("W/").strip('"') for tag in tags if tag)


def query(request: Request, name: str) -> str:
    """A query parameter, empty if it is missing; ARM's names compare without case."""
    return next((value for key, value in request.query_params.multi_items() if key.lower() == name), "")
