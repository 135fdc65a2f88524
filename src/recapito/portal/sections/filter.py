"""The form section of a filter: types, subjects and advanced filters."""

from typing import Any

from nicegui import ui

from recapito.domain import limits
from recapito.domain.filters.filter import ARITY, Arity, Operator
from recapito.portal.widgets.condition_text import check_values, hint, read_values, show_values
from recapito.portal.widgets.form import Form, check_required
from recapito.portal.widgets.pieces import text
from recapito.portal.widgets.rows import Rows

AT = "properties.filter"
_OPERATORS = {operator.value: operator.value for operator in Operator}


class FilterSection:
    """The fields of a filter."""

    def __init__(self, form: Form, current: dict[str, Any]) -> None:
        types = current.get("includedEventTypes") or []
        with ui.element("div").classes("form"):
            self._types = form.text(
                f"{AT}.includedEventTypes",
                "Event types",
                "\n".join(types),
                lines=True,
                hint="One on each line. Empty: all types.",
                check=_check_types,
            ).classes("wide")
            self._begins = form.text(
                f"{AT}.subjectBeginsWith", "Subject begins with", current.get("subjectBeginsWith") or ""
            )
            self._ends = form.text(f"{AT}.subjectEndsWith", "Subject ends with", current.get("subjectEndsWith") or "")
        self._case = ui.checkbox("Match upper and lower case", value=bool(current.get("isSubjectCaseSensitive")))
        text("h3", "Advanced filters")
        text("p", "All of them must hold. A key is a path such as data.total or subject.", "muted")
        conditions = [{**one, "text": show_values(one)} for one in current.get("advancedFilters") or []]
        self._conditions = Rows(
            form,
            f"{AT}.advancedFilters",
            "Add a filter",
            limits.FILTER_CONDITIONS,
            lambda target, value: _Condition(form, target, value),
            conditions,
        )
        self._arrays = ui.checkbox("Look into arrays", value=bool(current.get("enableAdvancedFilteringOnArrays")))

    def read(self) -> dict[str, Any]:
        """The filter as the API takes it."""
        types = _lines(self._types.value)
        return {
            "includedEventTypes": types or None,
            "subjectBeginsWith": self._begins.value or "",
            "subjectEndsWith": self._ends.value or "",
            "isSubjectCaseSensitive": self._case.value,
            "enableAdvancedFilteringOnArrays": self._arrays.value,
            "advancedFilters": self._conditions.read(),
        }


class _Condition:
    """The fields of one advanced filter."""

    def __init__(self, form: Form, target: str, value: dict[str, Any]) -> None:
        self._key = form.text(f"{target}.key", "Key", value.get("key", ""), check=check_required)
        operator = value.get("operatorType", Operator.STRING_IN.value)
        self._operator = form.choice(f"{target}.operatorType", "Operator", _OPERATORS, operator, on_change=self._switch)
        self._values = form.text(
            f"{target}.value",
            "Values",
            value.get("text", ""),
            lines=True,
            check=lambda given: check_values(self._chosen, given),
        ).props("autogrow")
        self._switch()

    @property
    def _chosen(self) -> Operator:
        return Operator(self._operator.value)

    def read(self) -> dict[str, Any]:
        """The condition as the API takes it."""
        return {
            "operatorType": self._operator.value,
            "key": (self._key.value or "").strip(),
            **read_values(self._chosen, self._values.value or ""),
        }

    def state(self) -> dict[str, Any]:
        """The contents of the fields."""
        return {"operatorType": self._operator.value, "key": self._key.value or "", "text": self._values.value or ""}

    def _switch(self) -> None:
        self._values.props["hint"] = hint(self._chosen)
        self._values.set_visibility(ARITY[self._chosen] is not Arity.NONE)


def _lines(given: str | None) -> list[str]:
    return [line.strip() for line in (given or "").splitlines() if line.strip()]


def _check_types(given: str) -> str | None:
    most = limits.FILTER_EVENT_TYPES
    return None if len(_lines(given)) <= most else f"There may be {most} event types at most."
