"""Advanced filters as people type them: the values of a condition, one on each line, into what the API takes."""

import json
from collections.abc import Mapping
from typing import Any

from recapito.domain.filters.filter import Operator

BARE = (Operator.IS_NULL_OR_UNDEFINED, Operator.IS_NOT_NULL)
_RANGES = (Operator.NUMBER_IN_RANGE, Operator.NUMBER_NOT_IN_RANGE)
_NUMBERS = (Operator.NUMBER_IN, Operator.NUMBER_NOT_IN)
_ONE = (
    Operator.NUMBER_LESS_THAN,
    Operator.NUMBER_GREATER_THAN,
    Operator.NUMBER_LESS_THAN_OR_EQUALS,
    Operator.NUMBER_GREATER_THAN_OR_EQUALS,
    Operator.BOOL_EQUALS,
)


def hint(operator: Operator) -> str:
    """What is to be typed."""
    if operator in BARE:
        return "No value is needed."
    if operator is Operator.BOOL_EQUALS:
        return "true or false"
    if operator in _ONE:
        return "One number"
    if operator in _RANGES:
        return "Each line two numbers: low, high"
    return "One number on each line" if operator in _NUMBERS else "One text on each line"


def check_values(operator: Operator, given: str) -> str | None:
    """What is wrong with the values of a condition."""
    try:
        read_values(operator, given)
    except ValueError as error:
        return str(error)
    return None


def read_values(operator: Operator, given: str) -> dict[str, Any]:
    """The values as the API takes them; a ValueError says what is wrong."""
    lines = [line.strip() for line in given.splitlines() if line.strip()]
    if operator in BARE:
        return {}
    if not lines:
        raise ValueError("A value is needed.")
    if operator in _ONE:
        if len(lines) > 1:
            raise ValueError("There is one value only.")
        return {"value": _truth(lines[0]) if operator is Operator.BOOL_EQUALS else _number(lines[0])}
    if operator in _RANGES:
        return {"values": [_range(line) for line in lines]}
    return {"values": [_number(line) for line in lines] if operator in _NUMBERS else lines}


def show_values(condition: Mapping[str, Any]) -> str:
    """The values of a condition of the API, as people type them."""
    if "value" in condition:
        return json.dumps(condition["value"])
    return "\n".join(_line(value) for value in condition.get("values") or [])


def _line(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(str(one) for one in value)
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
