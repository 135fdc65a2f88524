"""A path of our own API, beside ARM's, with what describes it."""

from collections.abc import Awaitable, Callable, Sequence

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route


class DescribedRoute(Route):
    """A path with the type of its body and the names in its query; with a body it is posted to, else it is got."""

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
    """The names that a query may have, by the type that it is read into."""
    return [field.encode_name for field in msgspec.structs.fields(query)]
