"""Lists of ARM, page by page: `$filter`, `$top`, `$skiptoken` and the link to the next page.

A list is walked, never held: the cost of a page does not grow with the list.
"""

from collections.abc import AsyncIterator, Callable
from typing import TypeVar
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from recapito.api.arm.routing import answer, query
from recapito.api.wire.decode import Shown, check_length, check_range, invalid
from recapito.domain import limits
from recapito.domain.filters import name_filter

T = TypeVar("T")
_SKIP = "$skiptoken"


def page_start(request: Request) -> str:
    """The key after which the page starts; empty for the first page."""
    return check_length(query(request, _SKIP), limits.SKIP_TOKEN_CHARS, _SKIP)


def page_start_id(request: Request) -> int:
    """The number after which the page starts; 0 for the first page."""
    start = page_start(request) or "0"
    if not (start.isascii() and start.isdigit() and len(start) < 19):
        raise invalid(f"'{_SKIP}' must be taken from the nextLink of an earlier page.", _SKIP)
    return int(start)


async def show_page(
    request: Request,
    members: AsyncIterator[T],
    name_of: Callable[[T], str],
    key_of: Callable[[T], object],
    show: Callable[[T], Shown],
) -> Response:
    """One page of a list. `key_of` returns the key after which the next page starts, in the order of the walk."""
    size = _page_size(request)
    takes = name_filter.parse(query(request, "$filter"))
    page: list[T] = []
    more = False
    async for member in members:
        if takes(name_of(member)):
            if len(page) == size:
                more = True
                break
            page.append(member)
    body: Shown = {"value": [show(member) for member in page]}
    if more:
        body["nextLink"] = _next_link(request, size, key_of(page[-1]))
    return answer(body)


def _page_size(request: Request) -> int:
    top = query(request, "$top")
    if not top:
        return limits.LIST_PAGE_DEFAULT
    if not (top.isascii() and top.isdigit() and len(top) < 10):
        raise invalid("'$top' must be a number.", "$top")
    return check_range(int(top), limits.LIST_PAGE, "$top")


def _next_link(request: Request, size: int, start: object) -> str:
    again = {"api-version": query(request, "api-version"), "$top": size, _SKIP: start}
    if query(request, "$filter"):
        again["$filter"] = query(request, "$filter")
    return str(request.url.replace(query=urlencode(again)))
