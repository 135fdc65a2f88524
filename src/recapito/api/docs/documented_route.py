"""Paths of our own, beside ARM's: their description, and the reading of their queries.

A query is a flat object: its names compare without case, and an error names the field.
"""

from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from recapito.api.wire.decode import Body, convert, invalid
from recapito.domain.instant import SECOND

B = TypeVar("B", bound=Body)


class DocumentedRoute(Route):
    """A path with the type of its body and the names in its query; with a body it is a POST, otherwise a GET."""

    def __init__(
        self,
        path: str,
        endpoint: Callable[[Request], Awaitable[Response]],
        body: type[msgspec.Struct] | None = None,
        queries: Sequence[str] = (),
    ) -> None:
        self.bodies = {} if body is None else {"POST": body}
        self.queries = queries
        super().__init__(path, endpoint, methods=["GET" if body is None else "POST"])


def names_in(query: type[msgspec.Struct]) -> list[str]:
    """The names that a query of this type may have."""
    return [field.encode_name for field in msgspec.structs.fields(query)]


def read_query(request: Request, type: type[B]) -> B:
    """The query as a value of this type; whole numbers and booleans are converted."""
    given: dict[str, Any] = dict(request.query_params)
    for field in msgspec.structs.fields(type):
        text = given.get(field.encode_name)
        if text is not None and field.type is int:
            given[field.encode_name] = int(text) if text.isascii() and text.isdigit() and len(text) < 19 else text
        if text is not None and field.type in (bool, bool | None):
            given[field.encode_name] = {"true": True, "false": False}.get(text.lower(), text)
    return convert(given, type)


def read_instant(text: str | None, target: str) -> int | None:
    """The instant in an ISO 8601 text, by default in UTC; None stays None."""
    if text is None:
        return None
    try:
        parsed = datetime.fromisoformat(text)
        whole = parsed.replace(tzinfo=parsed.tzinfo or UTC)
        return int(whole.replace(microsecond=0).timestamp()) * SECOND + whole.microsecond * 1000
    except (ValueError, OverflowError):
        raise invalid(f"'{target}' must be a date, with or without a time, in ISO 8601 form.", target) from None
