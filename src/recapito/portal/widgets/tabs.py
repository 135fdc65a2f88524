"""Tabs: one part of a page is shown at a time, and its name is in the address, so that a link leads to it."""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager

from nicegui import ui
from nicegui.element import Element
from nicegui.elements.mixins.text_element import TextElement

from recapito.portal.widgets.pieces import attribute, text

_KEEP = "history.replaceState(null, '', '?tab=%s')"


class Tabs:
    """The row of tabs and their parts. `opened` is called after a tab is chosen."""

    def __init__(self, names: Mapping[str, str], chosen: str, opened: Callable[[], Awaitable[None]]) -> None:
        self._names = dict(names)
        self.chosen = chosen if chosen in names else next(iter(names))
        self._opened = opened
        self._parts: dict[str, Element] = {}
        self._heads: dict[str, TextElement] = {}
        with attribute(ui.element("div").classes("tabs"), role="tablist"):
            for key, name in names.items():
                head = text("button", name, "tab")
                attribute(head, role="tab", type="button", data_tab=key)
                head.on("click", lambda key=key: self._choose(key))
                self._heads[key] = head
        self._mark()

    @contextmanager
    def part(self, key: str) -> Iterator[Element]:
        """The place of a tab's contents."""
        with attribute(ui.element("div"), role="tabpanel", aria_label=self._names[key]) as place:
            self._parts[key] = place
            place.set_visibility(key == self.chosen)
            yield place

    def count(self, key: str, number: str) -> None:
        """Show a number beside the name of a tab; nothing for an empty text."""
        self._heads[key].text = f"{self._names[key]} {number}".rstrip()

    async def _choose(self, key: str) -> None:
        self.chosen = key
        self._mark()
        ui.run_javascript(_KEEP % key)
        await self._opened()

    def _mark(self) -> None:
        for key, head in self._heads.items():
            attribute(head, aria_selected="true" if key == self.chosen else "false")
        for key, part in self._parts.items():
            part.set_visibility(key == self.chosen)
