"""A table that is refreshed often: only the changed cells of rows that stay are sent to the browser."""

from collections.abc import Sequence
from typing import NamedTuple

from nicegui import ui
from nicegui.element import Element
from nicegui.elements.mixins.text_element import TextElement

from recapito.portal.widgets.pieces import attribute, set_tone, text


class Cell(NamedTuple):
    """One cell: its text, where it leads, how it looks."""

    text: str
    path: str = ""
    tone: str = ""


class Row(NamedTuple):
    """One row; the key identifies the thing that it shows."""

    key: str
    cells: tuple[Cell, ...]


class Table:
    """A table, hidden while it has no rows. Columns whose heading ends in # hold numbers."""

    def __init__(self, label: str, columns: Sequence[str]) -> None:
        self._columns = [column.rstrip("#") for column in columns]
        self._numbers = [column.endswith("#") for column in columns]
        self._shown: list[Row] = []
        self._cells: list[list[TextElement]] = []
        with ui.element("div").classes("table") as self._box, ui.element("table") as table:
            attribute(table, aria_label=label)
            with ui.element("thead"), ui.element("tr"):
                for column, numeric in zip(self._columns, self._numbers, strict=True):
                    attribute(text("th", column, "number" if numeric else ""), scope="col")
            self._body: Element = ui.element("tbody")
        self._box.set_visibility(False)

    def show(self, rows: Sequence[Row]) -> None:
        """Show these rows, and no others."""
        rows = list(rows)
        if [_shape(row) for row in rows] != [_shape(row) for row in self._shown]:
            self._rebuild(rows)
        else:
            for cells, old, new in zip(self._cells, self._shown, rows, strict=True):
                for element, before, after in zip(cells, old.cells, new.cells, strict=True):
                    _change(element, before, after)
        self._shown = rows

    def _rebuild(self, rows: list[Row]) -> None:
        self._box.set_visibility(bool(rows))
        self._body.clear()
        with self._body:
            self._cells = [self._row(row) for row in rows]

    def _row(self, row: Row) -> list[TextElement]:
        made = []
        with ui.element("tr"):
            for column, numeric, cell in zip(self._columns, self._numbers, row.cells, strict=True):
                box = text("td", "" if _is_dressed(cell) else cell.text, "number" if numeric else "")
                attribute(box, data_label=column)
                with box:
                    made.append(_dress(cell) if _is_dressed(cell) else box)
        return made


def _shape(row: Row) -> tuple[tuple[str, bool] | str, ...]:
    return (row.key, *((cell.path, bool(cell.tone)) for cell in row.cells))


def _is_dressed(cell: Cell) -> bool:
    """Whether a cell is more than its text."""
    return bool(cell.path or cell.tone)


def _dress(cell: Cell) -> TextElement:
    element = text("a" if cell.path else "span", cell.text)
    if cell.path:
        attribute(element, href=cell.path)
    if cell.tone:
        set_tone(element, cell.tone)
    return element


def _change(element: TextElement, before: Cell, after: Cell) -> None:
    if before.text != after.text:
        element.text = after.text
    if before.tone != after.tone:
        set_tone(element, after.tone)


class Pager:
    """The pages of a long list: the start of each, as the server names it."""

    def __init__(self) -> None:
        self._starts: list[str | None] = [None]
        self._next: str | None = None

    @property
    def start(self) -> str | None:
        """Where the page that is shown begins; None is the beginning."""
        return self._starts[-1]

    @property
    def has_next(self) -> bool:
        """Whether there is more."""
        return self._next is not None

    @property
    def has_before(self) -> bool:
        """Whether this is not the first page."""
        return len(self._starts) > 1

    def follow(self, following: str | None) -> None:
        """Learn where the next page begins."""
        self._next = following

    def forward(self) -> None:
        """Go to the next page."""
        if self._next is not None:
            self._starts.append(self._next)

    def back(self) -> None:
        """Go to the page before."""
        if self.has_before:
            self._starts.pop()

    def first(self) -> None:
        """Go to the first page."""
        self._starts = [None]
