"""The form section of delivery headers: fixed ones, secret ones, and those taken from the event."""

from typing import Any

from recapito.domain import limits
from recapito.domain.delivery.attributes import RESERVED, is_header_name
from recapito.domain.delivery.headers import PREFIX
from recapito.portal.sections.destination import AT as DESTINATION
from recapito.portal.widgets.form import Form
from recapito.portal.widgets.rows import Rows

AT = f"{DESTINATION}.properties.deliveryAttributeMappings"
_KINDS = {"Static": "Static", "Secret": "Static, secret", "Dynamic": "From the event"}


class HeaderSection:
    """The fields of all headers. `current` is as the API shows it: without secrets."""

    def __init__(self, form: Form, current: list[dict[str, Any]]) -> None:
        self._rows = Rows(
            form,
            AT,
            "Add a header",
            limits.DELIVERY_ATTRIBUTES,
            lambda target, value: _Header(form, target, value),
            [_state(one) for one in current],
        )

    def read(self, hidden: dict[str, str]) -> list[dict[str, Any]]:
        """The headers as the API takes them; an empty secret keeps its stored value."""
        headers = self._rows.read()
        for header in headers:
            properties = header["properties"]
            if properties.get("isSecret") and not properties["value"]:
                properties["value"] = hidden.get(header["name"].lower())
        return headers

    @property
    def needs_hidden(self) -> bool:
        """True if a stored secret stays."""
        return any(one["properties"].get("isSecret") and not one["properties"]["value"] for one in self._rows.read())


def _state(shown: dict[str, Any]) -> dict[str, Any]:
    properties = shown.get("properties") or {}
    kind = "Secret" if properties.get("isSecret") else shown["type"]
    value = properties.get("sourceField") if kind == "Dynamic" else properties.get("value")
    return {"name": shown["name"], "kind": kind, "value": value or "", "kept": kind == "Secret"}


class _Header:
    """The fields of one header."""

    def __init__(self, form: Form, target: str, value: dict[str, Any]) -> None:
        self._kept = bool(value.get("kept"))
        self._name = form.text(f"{target}.name", "Header", value.get("name", ""), check=_check_name)
        self._kind = form.choice(f"{target}.type", "Type", _KINDS, value.get("kind", "Static"), on_change=self._switch)
        self._value = form.text(f"{target}.properties.value", "Value", value.get("value", ""), check=self._check_value)
        self._switch()

    def read(self) -> dict[str, Any]:
        """The header as the API takes it."""
        name, value = (self._name.value or "").strip(), (self._value.value or "").strip()
        if self._kind.value == "Dynamic":
            return {"name": name, "type": "Dynamic", "properties": {"sourceField": value}}
        properties = {"value": value, "isSecret": self._kind.value == "Secret"}
        return {"name": name, "type": "Static", "properties": properties}

    def state(self) -> dict[str, Any]:
        """The contents of the fields."""
        return {
            "name": self._name.value or "",
            "kind": self._kind.value,
            "value": self._value.value or "",
            "kept": self._kept,
        }

    def _switch(self) -> None:
        kind = self._kind.value
        hints = {"Dynamic": "A path into the event, such as data.customer", "Static": ""}
        self._value.props["hint"] = hints.get(
            kind, "Empty: the value stays as it is." if self._kept else "Never shown again."
        )
        self._value.props["type"] = "password" if kind == "Secret" else "text"
        self._value.props["autocomplete"] = "off"

    def _check_value(self, given: str) -> str | None:
        if not given:
            return None if self._kind.value == "Secret" and self._kept else "Enter a value."
        return None if len(given) <= limits.ATTRIBUTE_VALUE_BYTES else "This is too long."


def _check_name(given: str) -> str | None:
    if not is_header_name(given):
        return "A header's name has letters, digits and !#$%&'*+.^_`|~- only."
    if given.lower() in RESERVED or given.lower().startswith(PREFIX):
        return "This header is the server's own."
    return None
