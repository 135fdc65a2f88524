"""A list that the server pages: the page that is shown, the one before, the next, and the first for a new search."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from recapito.portal.page import Page
from recapito.portal.widgets.pieces import bar, button
from recapito.portal.widgets.table import Pager

T = TypeVar("T")


class PagedList:
    """Loads a page and shows it. `show` gives back where the next page starts."""

    def __init__(
        self,
        page: Page,
        load: Callable[[str | None], Awaitable[T]],
        show: Callable[[T], Awaitable[str | None]],
    ) -> None:
        self._pager = Pager()
        self._turn = page.doing(self._load_and_show)
        self._load: Callable[[str | None], Awaitable[Any]] = load
        self._show: Callable[[Any], Awaitable[str | None]] = show
        with bar("end") as self._bar:
            self._before = button("Previous", self._go_back)
            self._next = button("Next", self._go_forward)
        self._bar.set_visibility(False)

    async def refresh(self) -> None:
        """Load this page again."""
        await self._load_and_show()

    async def restart(self) -> None:
        """Begin at the first page: something else is asked for."""
        self._pager.first()
        await self._turn()

    async def _load_and_show(self) -> None:
        self._pager.follow(await self._show(await self._load(self._pager.start)))
        self._bar.set_visibility(self._pager.has_before or self._pager.has_next)
        self._before.set_enabled(self._pager.has_before)
        self._next.set_enabled(self._pager.has_next)

    async def _go_back(self) -> None:
        self._pager.back()
        await self._turn()

    async def _go_forward(self) -> None:
        self._pager.forward()
        await self._turn()
