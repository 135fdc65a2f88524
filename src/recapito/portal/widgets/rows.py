"""A list of small forms in a form: a row can be added, and each can be removed."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from nicegui import ui

from recapito.portal.widgets.form import Form
from recapito.portal.widgets.pieces import button


class RowFields(Protocol):
    """The fields of one row."""

    def read(self) -> dict[str, Any]:
        """The row as the API takes it."""

    def state(self) -> dict[str, Any]:
        """The contents of the fields, valid or not, to be shown again."""


class Rows:
    """The rows under one name, numbered from 0 as the API numbers them."""

    def __init__(
        self,
        form: Form,
        target: str,
        add: str,
        most: int,
        make: Callable[[str, dict[str, Any]], RowFields],
        current: Sequence[dict[str, Any]],
    ) -> None:
        self._form = form
        self._target = target
        self._most = most
        self._make = make
        self._rows: list[RowFields] = []
        self._values = list(current)
        self._place = ui.element("div")
        self._more = button(add, self._add)
        self._build()

    def read(self) -> list[dict[str, Any]]:
        """All rows as the API takes them."""
        return [row.read() for row in self._rows]

    def _add(self) -> None:
        self._values = [*self._now(), {}]
        self._build()

    def _remove(self, index: int) -> None:
        values = self._now()
        del values[index]
        self._values = values
        self._build()

    def _now(self) -> list[dict[str, Any]]:
        return [row.state() for row in self._rows]

    def _build(self) -> None:
        self._form.forget(f"{self._target}[")
        self._place.clear()
        self._rows = []
        with self._place:
            for index, value in enumerate(self._values):
                with ui.element("div").classes("row-form"):
                    self._rows.append(self._make(f"{self._target}[{index}]", value))
                    button("Remove", lambda index=index: self._remove(index), "quiet")
        self._more.set_enabled(len(self._values) < self._most)
