"""A table that is refreshed often: only the changed cells of rows that stay are sent to the browser."""

from collections.abc import Awaitable, Callable, Container, Sequence
from typing import NamedTuple

from nicegui import ui
from nicegui.element import Element
from nicegui.elements.mixins.text_element import TextElement

from recapito.portal.widgets.pieces import attribute, button, copy_button, set_tone, text


class CellAction(NamedTuple):
    """A button in a cell."""

    name: str
    press: Callable[[], Awaitable[None]]


class Cell(NamedTuple):
    """One cell: its text, where it leads, how it looks; a second line, a text on hover, a text to copy, buttons."""

    text: str
    path: str = ""
    tone: str = ""
    title: str = ""
    below: str = ""
    copy: str = ""
    actions: tuple[CellAction, ...] = ()

    @property
    def is_plain(self) -> bool:
        """Whether the cell is its text, and a text on hover at most."""
        return not (self.path or self.tone or self.below or self.copy or self.actions)

    @property
    def shape(self) -> tuple[object, ...]:
        """Everything that an element has to be made anew for."""
        names = tuple(action.name for action in self.actions)
        return self.path, bool(self.tone), bool(self.below), self.copy, names


class Row(NamedTuple):
    """One row; the key identifies the thing that it shows."""

    key: str
    cells: tuple[Cell, ...]


class MadeCell(NamedTuple):
    """The elements of a cell that change: its text, and its second line."""

    main: TextElement
    below: TextElement | None


class Table:
    """A table, hidden while it has no rows. Columns whose heading ends in # hold numbers.

    A phone does not show the `minor` columns.
    """

    def __init__(self, label: str, columns: Sequence[str], minor: Container[str] = ()) -> None:
        self._columns = [column.rstrip("#") for column in columns]
        self._numbers = [column.endswith("#") for column in columns]
        self._classes = [
            f"{'number' if numeric else ''} {'minor' if column in minor else ''}".strip()
            for column, numeric in zip(self._columns, self._numbers, strict=True)
        ]
        self._shown: list[Row] = []
        self._cells: list[list[MadeCell]] = []
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
                for made, before, after in zip(cells, old.cells, new.cells, strict=True):
                    _change(made, before, after)
        self._shown = rows

    def _rebuild(self, rows: list[Row]) -> None:
        self._box.set_visibility(bool(rows))
        self._body.clear()
        with self._body:
            self._cells = [self._row(row) for row in rows]

    def _row(self, row: Row) -> list[MadeCell]:
        made = []
        with ui.element("tr"):
            for column, classes, cell in zip(self._columns, self._classes, row.cells, strict=True):
                box = text("td", cell.text if cell.is_plain else "", classes)
                attribute(box, data_label=column)
                with box:
                    made.append(MadeCell(box, None) if cell.is_plain else _dress(cell))
                if cell.title:
                    attribute(made[-1].main, title=cell.title)
        return made


def _shape(row: Row) -> tuple[object, ...]:
    return (row.key, *(cell.shape for cell in row.cells))


def _dress(cell: Cell) -> MadeCell:
    below = None
    with ui.element("div").classes("cell"):
        with ui.element("div").classes("line"):
            main = text("a" if cell.path else "span", cell.text)
            if cell.path:
                attribute(main, href=cell.path)
            if cell.tone:
                set_tone(main, cell.tone)
            if cell.copy:
                copy_button(cell.copy)
            for action in cell.actions:
                button(action.name, action.press, "small")
        if cell.below:
            below = text("div", cell.below, "below")
    return MadeCell(main, below)


def _change(made: MadeCell, before: Cell, after: Cell) -> None:
    if before.text != after.text:
        made.main.text = after.text
    if before.title != after.title:
        attribute(made.main, title=after.title)
    if before.tone != after.tone:
        set_tone(made.main, after.tone)
    if made.below is not None and before.below != after.below:
        made.below.text = after.below


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
