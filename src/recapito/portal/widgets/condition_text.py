"""The values of an advanced filter, one on each line, into the form that the API takes, and back."""

import json
from collections.abc import Mapping
from typing import Any

from recapito.domain.filters.filter import ARITY, Arity, Operator


def hint(operator: Operator) -> str:
    """The text below the field of an operator's values."""
    match ARITY[operator]:
        case Arity.NONE:
            return "No value is needed."
        case Arity.ONE:
            return "One number" if operator.numeric else "true or false"
        case Arity.RANGES:
            return "On each line two numbers: low, high"
        case Arity.MANY:
            return "One number on each line" if operator.numeric else "One text on each line"


def check_values(operator: Operator, given: str) -> str | None:
    """The fault of a condition's values, or None."""
    try:
        read_values(operator, given)
    except ValueError as error:
        return str(error)
    return None


def read_values(operator: Operator, given: str) -> dict[str, Any]:
    """The values as the API takes them; a ValueError names the fault."""
    lines = [line.strip() for line in given.splitlines() if line.strip()]
    match ARITY[operator], lines:
        case Arity.NONE, _:
            return {}
        case _, []:
            raise ValueError("Enter a value.")
        case Arity.ONE, [line]:
            return {"value": _number(line) if operator.numeric else _truth(line)}
        case Arity.ONE, _:
            raise ValueError("Enter one value only.")
        case Arity.RANGES, _:
            return {"values": [_range(line) for line in lines]}
    return {"values": [_number(line) for line in lines] if operator.numeric else lines}


def show_values(condition: Mapping[str, Any]) -> str:
    """The values of a condition of the API, as people type them."""
    if "value" in condition:
        return json.dumps(condition["value"])
    return "\n".join(_line(value) for value in condition.get("values") or [])


def _line(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(str(bound) for bound in value)
    return str(value)


def _truth(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("This must be true or false.")
    return text.lower() == "true"


def _number(text: str) -> int | float:
    try:
        return int(text)
    except ValueError:
        pass
    try:
        value = float(text)
    except ValueError:
        raise ValueError(f"'{text}' is not a number.") from None
    if value != value or value in (float("inf"), float("-inf")):
        raise ValueError(f"'{text}' is not a number.")
    return value


def _range(line: str) -> list[int | float]:
    parts = line.split(",")
    if len(parts) != 2:
        raise ValueError("Each line must be two numbers: low, high.")
    low, high = (_number(part.strip()) for part in parts)
    if low > high:
        raise ValueError("The smaller number comes first.")
    return [low, high]
