"""The functions of template expressions that need nothing but their arguments. Names are in lower case.

Each takes its arguments evaluated. A `ValueError` or a `TypeError` becomes an error at the place of the expression.
"""

import base64
import hashlib
import json
import re
import uuid
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote, unquote, urljoin

from recapito.domain import limits

_GUIDS = uuid.UUID("11fb06fb-712d-4ddd-98c7-e71bbd588830")  # the namespace of Azure's `guid`
_LETTERS = "abcdefghijklmnopqrstuvwxyz234567"
_UNIQUE_CHARS = 13
_HOLE = re.compile(r"\{\{|\}\}|\{(\d+)(?:,(-?\d+))?(?::([^{}]*))?\}")

Function = Callable[..., Any]


def _text(value: Any) -> str:
    """A value as `string` and `concat` write it."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "True" if value else "False"
    if value is None:
        return ""
    return str(value) if isinstance(value, int | float) else json.dumps(value, separators=(",", ":"))


def _strings(*values: Any) -> None:
    for value in values:
        if not isinstance(value, str):
            raise ValueError(f"a text is needed, not {_kind(value)}")


def _kind(value: Any) -> str:
    kinds = {bool: "a boolean", int: "a number", float: "a number", list: "an array", dict: "an object"}
    return kinds.get(type(value), "null" if value is None else "a text")


def concat(*values: Any) -> Any:
    if values and all(isinstance(value, list) for value in values):
        return [item for value in values for item in value]
    if any(isinstance(value, list | dict) for value in values):
        raise ValueError("it takes texts or arrays, not both")
    return "".join(map(_text, values))


def format_text(pattern: str, *values: Any) -> str:
    """.NET's composite format, with the forms that templates use: `{0}`, `{0,5}`, `{0:D3}`, `{0:X4}`, `{0:N0}`."""
    _strings(pattern)

    def fill(hole: re.Match[str]) -> str:
        if hole[0] in ("{{", "}}"):
            return hole[0][0]
        index = int(hole[1])
        if index >= len(values):
            raise ValueError(f"there is no value for {{{index}}}")
        shown = _formatted(values[index], hole[3] or "")
        width = int(hole[2] or 0)
        if abs(width) > limits.EXPRESSION_TEXT_CHARS:
            raise ValueError("the width is too large")
        return shown.rjust(width) if width >= 0 else shown.ljust(-width)

    return _HOLE.sub(fill, pattern)


def _formatted(value: Any, form: str) -> str:
    if not form:
        return _text(value)
    letter, digits = form[:1].upper(), form[1:]
    if not isinstance(value, int) or isinstance(value, bool) or (digits and not digits.isdigit()) or len(digits) > 2:
        raise ValueError(f"the form '{form}' is not built")
    count = int(digits or 0)
    match letter:
        case "D":
            return f"{value:0{count}d}" if count else str(value)
        case "X":
            shown = f"{value:0{count}x}" if count else f"{value:x}"
            return shown.upper() if form[0] == "X" else shown
        case "N":
            return f"{value:,.{count if digits else 2}f}"
    raise ValueError(f"the form '{form}' is not built")


def contains(of: Any, wanted: Any) -> bool:
    if isinstance(of, str):
        return _text(wanted) in of
    if isinstance(of, dict):
        return any(name.lower() == _text(wanted).lower() for name in of)
    return any(equals(item, wanted) for item in of)


def equals(one: Any, other: Any) -> bool:
    return type(one) is type(other) and bool(one == other)


def unique_string(*values: Any) -> str:
    """Thirteen letters and digits that depend on the arguments alone; Azure makes other ones, by a secret method."""
    _strings(*values)
    number = int.from_bytes(hashlib.sha256("\0".join(values).encode()).digest()[:9], "big")
    return "".join(_LETTERS[number >> 5 * place & 31] for place in range(_UNIQUE_CHARS))


def union(*values: Any) -> Any:
    if all(isinstance(value, dict) for value in values):
        merged: dict[str, Any] = {}
        for value in values:
            for name, member in value.items():
                old = merged.get(name)
                merged[name] = union(old, member) if isinstance(old, dict) and isinstance(member, dict) else member
        return merged
    found: list[Any] = []
    for value in values:
        if not isinstance(value, list):
            raise ValueError("it takes arrays or objects, not both")
        found += [item for item in value if not any(equals(item, one) for one in found)]
    return found


def intersection(*values: Any) -> Any:
    first, *rest = values
    if isinstance(first, dict):
        return {name: one for name, one in first.items() if all(name in more and more[name] == one for more in rest)}
    return [item for item in first if all(any(equals(item, one) for one in more) for more in rest)]


def create_object(*values: Any) -> dict[str, Any]:
    if len(values) % 2:
        raise ValueError("it takes pairs of a name and a value")
    return dict(zip(map(_text, values[::2]), values[1::2], strict=True))


def split(text: str, marks: Any) -> list[str]:
    marks = [marks] if isinstance(marks, str) else marks
    _strings(text, *marks)
    return re.split("|".join(map(re.escape, marks)), text) if any(marks) else [text]


def substring(text: str, start: int, length: int | None = None) -> str:
    _strings(text)
    end = len(text) if length is None else start + length
    if not 0 <= start <= end <= len(text):
        raise ValueError("the part lies outside of the text")
    return text[start:end]


def replace(text: str, old: str, new: str) -> str:
    _strings(text, old, new)
    if not old:
        raise ValueError("the text to replace is empty")
    if len(text) // len(old) * len(new) > limits.EXPRESSION_TEXT_CHARS:
        raise ValueError(f"it makes a text above {limits.EXPRESSION_TEXT_CHARS} characters")
    return text.replace(old, new)


def pad_left(text: Any, length: int, mark: str = " ") -> str:
    if length > limits.EXPRESSION_TEXT_CHARS:
        raise ValueError(f"it makes a text above {limits.EXPRESSION_TEXT_CHARS} characters")
    return _text(text).rjust(length, mark)


def number_range(start: int, count: int) -> list[int]:
    if not 0 <= count <= limits.EXPRESSION_ITEMS:
        raise ValueError(f"it may have {limits.EXPRESSION_ITEMS} items at most")
    return list(range(start, start + count))


def first(of: Any) -> Any:
    return of[0] if of else ("" if isinstance(of, str) else None)


def last(of: Any) -> Any:
    return of[-1] if of else ("" if isinstance(of, str) else None)


def boolean(value: Any) -> bool:
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    if isinstance(value, bool | int):
        return bool(value)
    raise ValueError("it takes true, false or a number")


def integer(value: Any) -> int:
    if isinstance(value, str) and len(value) > limits.NUMBER_DIGITS:
        raise ValueError("the number is too large")
    return int(value)


def divide(one: int, other: int) -> int:
    """The quotient, cut towards zero as .NET does."""
    if other == 0:
        raise ValueError("it divides by zero")
    return abs(one) // abs(other) * (1 if (one < 0) == (other < 0) else -1)


def modulo(one: int, other: int) -> int:
    return one - other * divide(one, other)


def coalesce(*values: Any) -> Any:
    return next((value for value in values if value is not None), None)


def extreme(pick: Callable[[Any], Any]) -> Function:
    return lambda *values: pick(values[0] if len(values) == 1 and isinstance(values[0], list) else values)


def items(of: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"key": name, "value": of[name]} for name in sorted(of)]


def index_of(text: str, part: str) -> int:
    return text.lower().find(part.lower()) if isinstance(text, str) else text.index(part) if part in text else -1


def lower(value: str) -> str:
    _strings(value)
    return value.lower()


def upper(value: str) -> str:
    _strings(value)
    return value.upper()


FUNCTIONS: dict[str, Function] = {
    "add": lambda one, other: one + other,
    "and": lambda *values: all(map(boolean, values)),
    "array": lambda value: value if isinstance(value, list) else [value],
    "base64": lambda text: base64.b64encode(text.encode()).decode(),
    "base64tojson": lambda text: json.loads(base64.b64decode(text)),
    "base64tostring": lambda text: base64.b64decode(text).decode(),
    "bool": boolean,
    "coalesce": coalesce,
    "concat": concat,
    "contains": contains,
    "createarray": lambda *values: list(values),
    "createobject": create_object,
    "div": divide,
    "empty": lambda value: not value and value is not False and value != 0,
    "endswith": lambda text, end: text.lower().endswith(end.lower()),
    "equals": equals,
    "false": lambda: False,
    "first": first,
    "flatten": lambda lists: [item for one in lists for item in one],
    "float": lambda value: float(value),
    "format": format_text,
    "greater": lambda one, other: one > other,
    "greaterorequals": lambda one, other: one >= other,
    "guid": lambda *values: str(uuid.uuid5(_GUIDS, "-".join(values))),
    "indexof": index_of,
    "int": integer,
    "intersection": intersection,
    "items": items,
    "join": lambda values, mark: mark.join(map(_text, values)),
    "json": json.loads,
    "last": last,
    "lastindexof": lambda text, part: text.lower().rfind(part.lower()),
    "length": len,
    "less": lambda one, other: one < other,
    "lessorequals": lambda one, other: one <= other,
    "max": extreme(max),
    "min": extreme(min),
    "mod": modulo,
    "mul": lambda one, other: int(one) * int(other),
    "not": lambda value: not boolean(value),
    "null": lambda: None,
    "objectkeys": lambda of: sorted(of),
    "or": lambda *values: any(map(boolean, values)),
    "padleft": pad_left,
    "range": number_range,
    "replace": replace,
    "shallowmerge": lambda objects: {name: value for one in objects for name, value in one.items()},
    "skip": lambda of, count: of[max(count, 0) :],
    "split": split,
    "startswith": lambda text, start: text.lower().startswith(start.lower()),
    "string": _text,
    "sub": lambda one, other: one - other,
    "substring": substring,
    "take": lambda of, count: of[: max(count, 0)],
    "tolower": lower,
    "toupper": upper,
    "trim": lambda text: text.strip(),
    "true": lambda: True,
    "union": union,
    "uniquestring": unique_string,
    "uri": urljoin,
    "uricomponent": lambda text: quote(text, safe=""),
    "uricomponenttostring": unquote,
}
