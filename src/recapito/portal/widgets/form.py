"""A form: fields by the names that the API has for them, checked before anything is sent.

An error is shown beside its field, whether the form or the server finds it.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from nicegui import ui
from nicegui.elements.mixins.validation_element import ValidationElement

from recapito.portal.client import RequestRefused
from recapito.portal.widgets.pieces import text

Check = Callable[[str], str | None]
_LOOK = "outlined dense"
F = TypeVar("F", bound=ValidationElement[Any])


class Form:
    """The fields of one form. Fields that are not shown are neither checked nor blamed."""

    def __init__(self) -> None:
        self._fields: dict[str, ValidationElement[Any]] = {}
        self._said = text("p", "", "note bad")
        self._said.props["role"] = "alert"
        self._said.set_visibility(False)

    def __repr__(self) -> str:
        return f"<Form of {len(self._fields)} fields>"

    def text(
        self,
        target: str,
        label: str,
        value: str = "",
        *,
        hint: str = "",
        check: Check | None = None,
        lines: bool = False,
    ) -> ui.input | ui.textarea:
        """A field for text, on one line or on many."""
        make = ui.textarea if lines else ui.input
        field = make(label, value=value, validation=lambda given: check((given or "").strip()) if check else None)
        return self._add(target, field, hint)

    def secret(self, target: str, label: str, *, hint: str = "") -> ui.input:
        """A field for a secret."""
        field = ui.input(label, password=True, password_toggle_button=True, validation=lambda given: None)
        field.props["autocomplete"] = "new-password"
        return self._add(target, field, hint)

    def number(
        self, target: str, label: str, allowed: tuple[int, int], value: int | None, *, hint: str = ""
    ) -> ui.input:
        """A field for a whole number within a range, both ends included."""
        field = ui.input(
            label,
            value="" if value is None else str(value),
            validation=lambda given: check_number(given or "", allowed),
        )
        field.props["inputmode"] = "numeric"
        least, most = allowed
        return self._add(target, field, hint or f"{least} to {most}")

    def choice(
        self,
        target: str,
        label: str,
        options: Mapping[str, str],
        value: str,
        *,
        on_change: Callable[..., Any] | None = None,
    ) -> ui.select:
        """A field with a list of choices."""
        field = ui.select(dict(options), label=label, value=value, on_change=on_change, validation=lambda given: None)
        return self._add(target, field, "")

    def add(self, target: str, field: ValidationElement[Any]) -> None:
        """Register a field that was made elsewhere."""
        self._fields[target] = field

    def forget(self, prefix: str) -> None:
        """Forget the fields whose names begin with this."""
        self._fields = {target: field for target, field in self._fields.items() if not target.startswith(prefix)}

    def _add(self, target: str, field: F, hint: str) -> F:
        field.props(_LOOK)
        if hint:
            field.props["hint"] = hint
        self._fields[target] = field
        return field

    @property
    def is_valid(self) -> bool:
        """True if every visible field holds a valid value; each of the others shows its error."""
        self._said.set_visibility(False)
        shown = [field for field in self._fields.values() if _is_shown(field)]
        found = [field for field in shown if not field.validate()]
        if found:
            self._say("Some fields need another value; see the messages beside them.")
            found[0].run_method("focus")
        return not found

    def blame(self, refused: RequestRefused) -> None:
        """Show the server's refusal beside the field that it names, else above the form."""
        field = self._find(refused.target or "")
        if field is None:
            self._say(refused.message)
            return
        field.error = refused.message
        field.run_method("focus")
        self._say(f"The server refused it: {refused.message}")

    def _find(self, target: str) -> ValidationElement[Any] | None:
        """The field of that name, or the one that the name leads into or out of."""
        for known, field in self._fields.items():
            if _is_shown(field) and target and known.lower() == target.lower():
                return field
        close = [
            (len(known), field)
            for known, field in self._fields.items()
            if _is_shown(field) and target and (target.lower().startswith(known.lower()))
        ]
        return max(close, key=lambda pair: pair[0])[1] if close else None

    def _say(self, what: str) -> None:
        self._said.text = what
        self._said.set_visibility(True)
        self._said.run_method("scrollIntoView", {"block": "center"})  # the button is below, and a focus does not scroll


def _is_shown(field: ValidationElement[Any]) -> bool:
    if field.is_deleted or not field.visible:
        return False
    return all(parent.visible for parent in field.ancestors())


def check_number(given: str, allowed: tuple[int, int]) -> str | None:
    """The fault of a number, or None."""
    least, most = allowed
    text = given.strip()
    if not text:
        return f"A number from {least} to {most} is needed."
    if not (text.removeprefix("-").isascii() and text.removeprefix("-").isdigit()):
        return f"This must be a whole number from {least} to {most}."
    return None if least <= int(text[:20]) <= most else f"This must be from {least} to {most}."


def check_required(given: str) -> str | None:
    """The fault of a required text, or None."""
    return None if given else "Enter a value."
