"""Tests values of events against conditions (spec §5).

The law: a value that is missing, null or of another type is treated alike, and so is an array without an element of the
type. A negative operator fails when any element of an array is hit; a positive one holds when any is. The result for a
missing key is a table, because Event Grid's results follow no rule.
"""

from collections.abc import Callable
from typing import Any

from msgspec import UNSET

from recapito.domain.filters.filter import Condition, Operator

Value = Any  # a JSON value: None or UNSET, bool, int, float, str, a list of these, or a struct for an object
Test = Callable[[Value], bool]

# By exact type: to Python a bool is an int.
_KINDS = {"number": frozenset({int, float}), "boolean": frozenset({bool}), "string": frozenset({str})}

_NEGATIVE = {
    Operator.NUMBER_NOT_IN: Operator.NUMBER_IN,
    Operator.NUMBER_NOT_IN_RANGE: Operator.NUMBER_IN_RANGE,
    Operator.STRING_NOT_CONTAINS: Operator.STRING_CONTAINS,
    Operator.STRING_NOT_BEGINS_WITH: Operator.STRING_BEGINS_WITH,
    Operator.STRING_NOT_ENDS_WITH: Operator.STRING_ENDS_WITH,
    Operator.STRING_NOT_IN: Operator.STRING_IN,
}
_MISSING_MATCHES = frozenset({Operator.NUMBER_NOT_IN, Operator.NUMBER_NOT_IN_RANGE, Operator.STRING_NOT_IN})


def compile_condition(condition: Condition, arrays: bool, integers_as_text: bool = False) -> Test:
    """The test of a condition. String operators may compare integers by their canonical text (spec §5)."""
    match condition.operator:
        case Operator.IS_NULL_OR_UNDEFINED:
            return lambda value: value is None or value is UNSET
        case Operator.IS_NOT_NULL:
            return lambda value: value is not None and value is not UNSET
    positive = _NEGATIVE.get(condition.operator, condition.operator)
    kinds, hit = _KINDS[kind_of(positive)], _hit(positive, condition.operands)
    negative = positive is not condition.operator
    missing = condition.operator in _MISSING_MATCHES
    as_text = integers_as_text and kinds is _KINDS["string"]

    def test(value: Value) -> bool:
        kind = type(value)
        if kind in kinds:
            return hit(value) is not negative
        if kind is list and arrays:
            elements = [element for element in value if type(element) in kinds]
            return any(map(hit, elements)) is not negative if elements else missing
        if kind is int and as_text:
            return hit(str(value)) is not negative
        return missing

    return test


def kind_of(operator: Operator) -> str:
    """The kind of values that an operator compares."""
    return "number" if operator.startswith("Number") else "boolean" if operator is Operator.BOOL_EQUALS else "string"


def compares(operator: Operator, value: Value) -> bool:
    """Whether a value is of the kind that an operator compares, or an array with an element of it."""
    elements = value if isinstance(value, list) else [value]
    return any(type(element) in _KINDS[kind_of(operator)] for element in elements)


def _hit(operator: Operator, operands: tuple[Any, ...]) -> Test:
    """The test whether any operand of a positive operator hits a value of its kind."""
    match kind_of(operator):
        case "number":
            return _hit_number(operator, operands)
        case "boolean":
            return lambda value: bool(value is operands[0])
    return _hit_string(operator, tuple(operand.casefold() for operand in operands))


def _hit_number(operator: Operator, operands: tuple[Any, ...]) -> Test:
    """Python compares integers and floats exactly, however large they are."""
    match operator:
        case Operator.NUMBER_IN:
            numbers = frozenset(operands)
            return lambda value: value in numbers
        case Operator.NUMBER_IN_RANGE:
            return lambda value: any(low <= value <= high for low, high in operands)
        case Operator.NUMBER_LESS_THAN:
            return lambda value: bool(value < operands[0])
        case Operator.NUMBER_LESS_THAN_OR_EQUALS:
            return lambda value: bool(value <= operands[0])
        case Operator.NUMBER_GREATER_THAN:
            return lambda value: bool(value > operands[0])
        case Operator.NUMBER_GREATER_THAN_OR_EQUALS:
            return lambda value: bool(value >= operands[0])
    raise AssertionError(operator)


def _holds_any(text: str, parts: tuple[str, ...]) -> bool:
    for part in parts:  # noqa: SIM110 — any() would make a generator for each event
        if part in text:
            return True
    return False


def _hit_string(operator: Operator, operands: tuple[str, ...]) -> Test:
    """Strings always compare without case."""
    match operator:
        case Operator.STRING_IN:
            texts = frozenset(operands)
            return lambda value: value.casefold() in texts
        case Operator.STRING_BEGINS_WITH:
            return lambda value: bool(value.casefold().startswith(operands))
        case Operator.STRING_ENDS_WITH:
            return lambda value: bool(value.casefold().endswith(operands))
        case Operator.STRING_CONTAINS:
            return lambda value: _holds_any(value.casefold(), operands)
    raise AssertionError(operator)
