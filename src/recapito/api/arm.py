"""What all ARM requests have in common: paths without case, an api-version, pages of lists, JSON answers."""

import re
from collections.abc import Awaitable, Callable, Mapping
from datetime import date
from urllib.parse import urlencode

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from recapito.api.local import admit
from recapito.api.wire import Shown, check_length, check_range, invalid, refuse_unbuilt
from recapito.domain import limits
from recapito.errors import InvalidInput

Handler = Callable[[Request], Awaitable[Response]]

_VERSION = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})(?:-preview)?")
_FIRST_VERSION = date(2018, 1, 1)
_LAST_VERSION = date(2026, 12, 31)
_SKIP = "$skiptoken"


class ArmRoute(Route):
    """A path of ARM with its methods. Its constant parts compare without case, as ARM's do."""

    def __init__(self, path: str, methods: Mapping[str, Handler]) -> None:
        async def endpoint(request: Request) -> Response:
            await admit(request)
            check_api_version(request)
            return await methods["GET" if request.method == "HEAD" else request.method](request)

        super().__init__(path, endpoint, methods=list(methods))
        self.path_regex = re.compile(self.path_regex.pattern, re.IGNORECASE)


def check_api_version(request: Request) -> None:
    """Every known version is served alike, and so is any other that looks like one."""
    version = _query(request, "api-version")
    if not version:
        raise InvalidInput("MissingApiVersionParameter", "The query parameter api-version is required.", "api-version")
    parts = _VERSION.fullmatch(version)
    try:
        known = parts is not None and _FIRST_VERSION <= date.fromisoformat(parts[1]) <= _LAST_VERSION
    except ValueError:
        known = False
    if not known:
        raise InvalidInput(
            "InvalidApiVersionParameter",
            f"The api-version must be a date from {_FIRST_VERSION} to {_LAST_VERSION}, with -preview after it or not.",
            "api-version",
        )


def page_size(request: Request) -> int:
    """How many members of a list the caller wants at most."""
    refuse_unbuilt({"$filter": _query(request, "$filter")})
    top = _query(request, "$top")
    if not top:
        return limits.LIST_PAGE_DEFAULT
    if not (top.isascii() and top.isdigit() and len(top) < 10):
        raise invalid("'$top' must be a number.", "$top")
    return check_range(int(top), limits.LIST_PAGE, "$top")


def page_start(request: Request) -> str:
    """After which member the page starts; empty for the first page."""
    return check_length(_query(request, _SKIP), limits.SKIP_TOKEN_CHARS, _SKIP)


def page(request: Request, members: list[Shown], next_start: object | None) -> Response:
    """One page of a list, with the link to the next one, if any."""
    shown: Shown = {"value": members}
    if next_start is not None:
        query = {"api-version": _query(request, "api-version"), "$top": page_size(request), _SKIP: next_start}
        shown["nextLink"] = str(request.url.replace(query=urlencode(query)))
    return answer(shown)


def answer(shown: Mapping[str, object], status: int = 200, etag: int | None = None) -> Response:
    """A JSON answer."""
    headers = None if etag is None else {"etag": f'"{etag}"'}
    return Response(msgspec.json.encode(shown), status, headers, "application/json; charset=utf-8")


def _query(request: Request, name: str) -> str:
    """A query parameter; ARM's names compare without case."""
    return next((value for key, value in request.query_params.multi_items() if key.lower() == name), "")
