"""Bodies of management requests into typed values; whatever is wrong is an ARM error that names the field."""

import re
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from recapito.errors import InvalidInput

T = TypeVar("T")
Shown = dict[str, Any]

# Fields that rules below the wire speak of by their short names.
_TARGETS = {
    "endpointUrl": "properties.destination.properties.endpointUrl",
    "maxEventsPerBatch": "properties.destination.properties.maxEventsPerBatch",
    "preferredBatchSizeInKilobytes": "properties.destination.properties.preferredBatchSizeInKilobytes",
    "profile": "tags.recapito-profile",
}
_PLACE = re.compile(r" - at `\$\.?([^`]*)`$")
_FIELD = re.compile(r"Object (contains unknown|missing required) field `(.*)`", re.DOTALL)
_NAME_CHARS = 100


class Body(msgspec.Struct, forbid_unknown_fields=True, rename="camel", kw_only=True):
    """A JSON object of a management request; a field that Event Grid does not know is refused."""


class Typed(Body):
    """An object whose `properties` depend on its `endpointType`."""

    endpoint_type: str
    properties: msgspec.Raw = msgspec.Raw(b"{}")


def decode(body: bytes | msgspec.Raw, type: type[T], within: str = "") -> T:
    """The body as a value of this type; `within` is where in the request it lies."""
    try:
        return msgspec.json.decode(body, type=type)
    except msgspec.ValidationError as error:
        raise _explain(str(error), within) from None
    except (ValueError, RecursionError) as error:
        what = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise InvalidInput("InvalidRequestContent", f"The request body is not valid JSON: {what}.") from None


def _explain(error: str, within: str) -> InvalidInput:
    place = _PLACE.search(error)
    said = error[: place.start()] if place else error
    path = ".".join(part for part in (within, place[1] if place else "") if part)
    if field := _FIELD.fullmatch(said):
        target = f"{path}.{shorten(field[2])}" if path else shorten(field[2])
        fault = "is not a property that is known here" if "unknown" in field[1] else "is required"
        return invalid(f"'{target}' {fault}.", target)
    said = said.replace(" | null", "").replace("`", "")
    return invalid(f"'{path or 'the body'}' has the wrong type: {said}.", path or None)


def invalid(message: str, target: str | None) -> InvalidInput:
    """A field has a value that can not be."""
    return InvalidInput("InvalidRequest", message, target)


def check_range(value: int, allowed: tuple[int, int], target: str) -> int:
    """The value, if it lies within its range, both ends included."""
    least, most = allowed
    if not least <= value <= most:
        raise invalid(f"'{target}' must be between {least} and {most}.", target)
    return value


def check_length(value: str, most: int, target: str, least: int = 0) -> str:
    """The string, if it is neither too short nor too long."""
    if not least <= len(value) <= most:
        raise invalid(f"'{target}' must have {least} to {most} characters.", target)
    return value


def check_choice(value: str, choices: tuple[str, ...], target: str) -> str:
    """The choice in its proper spelling; case does not matter."""
    chosen = next((choice for choice in choices if choice.lower() == value.lower()), None)
    if chosen is None:
        raise invalid(f"'{target}' must be one of {', '.join(choices)}.", target)
    return chosen


def refuse_unbuilt(fields: Mapping[str, object]) -> None:
    """Refuse what Event Grid has and we have not yet, instead of taking it and not doing it."""
    for target, value in fields.items():
        if value:
            raise InvalidInput("NotSupported", f"'{target}' is not supported yet by this version of Recapito.", target)


def full_target(target: str | None) -> str | None:
    """Where in the request a field lies that a rule named by its short name."""
    return None if target is None else _TARGETS.get(target, target)


def shorten(name: str) -> str:
    """A name from outside, fit to be shown."""
    printable = "".join(char if char.isprintable() else "?" for char in name[:_NAME_CHARS])
    return printable if len(name) <= _NAME_CHARS else f"{printable}…"
