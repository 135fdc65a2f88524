"""The pages, one a file, and the paths that they are at. A resource's page has its resource id for a path."""

from collections.abc import Awaitable, Callable

from recapito.portal.pages import overview
from recapito.portal.visit import Visit

PAGES: dict[str, Callable[[Visit], Awaitable[None]]] = {
    "/": overview.build,
}
