"""An event subscription's filter on the wire: types, subjects and advanced filters, within Event Grid's limits (§5)."""

from typing import Any

from recapito.api.wire.decode import Body, Shown, check_choice, check_length, invalid
from recapito.domain import limits
from recapito.domain.filters.filter import ARITY, Arity, Condition, Filter, Number, Operand, Operator

_LARGEST = 2**63 - 1  # a larger integer is compared as the double that JSON makes of it


class AdvancedFilter(Body):
    """One advanced filter as sent; the oldest clients send `operator` for `operatorType`."""

    operator_type: str | None = None
    operator: str | None = None
    key: str | None = None
    value: Any = None
    values: list[Any] | None = None


class FilterBody(Body):
    """The filter as sent."""

    included_event_types: list[str] | None = None
    subject_begins_with: str | None = None
    subject_ends_with: str | None = None
    is_subject_case_sensitive: bool | None = None
    enable_advanced_filtering_on_arrays: bool | None = None
    advanced_filters: list[AdvancedFilter] | None = None


def read_filter(sent: FilterBody, within: str) -> Filter:
    """The filter, or an error that names the field; `within` is its path in the request."""
    types = sent.included_event_types or []
    target = f"{within}.includedEventTypes"
    if len(types) > limits.FILTER_EVENT_TYPES:
        raise invalid(f"'{target}' may name {limits.FILTER_EVENT_TYPES} event types at most.", target)
    for name in types:
        check_length(name, limits.FILTER_CHARS, target, 1)
    takes_all = not types or any(name.lower() == "all" for name in types)
    begins, ends = sent.subject_begins_with or "", sent.subject_ends_with or ""
    return Filter(
        event_types=None if takes_all else tuple(types),
        subject_begins_with=check_length(begins, limits.FILTER_CHARS, f"{within}.subjectBeginsWith"),
        subject_ends_with=check_length(ends, limits.FILTER_CHARS, f"{within}.subjectEndsWith"),
        subject_case_sensitive=bool(sent.is_subject_case_sensitive),
        conditions=_read_conditions(sent.advanced_filters or [], f"{within}.advancedFilters"),
        arrays=bool(sent.enable_advanced_filtering_on_arrays),
    )


def _read_conditions(sent: list[AdvancedFilter], within: str) -> tuple[Condition, ...]:
    if len(sent) > limits.FILTER_CONDITIONS:
        raise invalid(f"'{within}' may have {limits.FILTER_CONDITIONS} members at most.", within)
    conditions = tuple(_read_condition(condition, f"{within}[{n}]") for n, condition in enumerate(sent))
    if sum(len(condition.operands) for condition in conditions) > limits.FILTER_VALUES:
        raise invalid(f"'{within}' may have {limits.FILTER_VALUES} values at most, all filters together.", within)
    return conditions


def _read_condition(sent: AdvancedFilter, within: str) -> Condition:
    named = sent.operator_type or sent.operator
    if named is None:
        raise invalid(f"'{within}.operatorType' is required.", f"{within}.operatorType")
    operator = Operator(check_choice(named, tuple(Operator), f"{within}.operatorType"))
    if not sent.key:
        raise invalid(f"'{within}.key' is required.", f"{within}.key")
    key = check_length(sent.key, limits.FILTER_CHARS, f"{within}.key")
    return Condition(operator, key, _read_operands(operator, sent, within))


def _read_operands(operator: Operator, sent: AdvancedFilter, within: str) -> tuple[Operand, ...]:
    arity = ARITY[operator]
    if arity is Arity.NONE:
        if sent.value is not None or sent.values:
            raise invalid(f"'{within}' has a value, which {operator} does not take.", within)
        return ()
    if arity is Arity.ONE:
        target = f"{within}.value"
        if sent.value is None:
            raise invalid(f"'{target}' is required by {operator}.", target)
        return (_read_operand(operator, sent.value, target),)
    target = f"{within}.values"
    if not sent.values:
        raise invalid(f"'{target}' is required by {operator} and must not be empty.", target)
    return tuple(_read_operand(operator, value, f"{target}[{n}]") for n, value in enumerate(sent.values))


def _read_operand(operator: Operator, value: object, target: str) -> Operand:
    if ARITY[operator] is Arity.RANGES:
        return _read_range(value, target)
    if operator.numeric:
        return _read_number(value, target)
    if operator is Operator.BOOL_EQUALS:
        if not isinstance(value, bool):
            raise invalid(f"'{target}' must be true or false.", target)
        return value
    if not isinstance(value, str):
        raise invalid(f"'{target}' must be a string.", target)
    return check_length(value, limits.FILTER_CHARS, target)


def _read_range(value: object, target: str) -> tuple[Number, Number]:
    if not (isinstance(value, list) and len(value) == 2):
        raise invalid(f"'{target}' must be a list of two numbers.", target)
    low, high = (_read_number(bound, target) for bound in value)
    if low > high:
        raise invalid(f"'{target}' must have its smaller number first.", target)
    return low, high


def _read_number(value: object, target: str) -> Number:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise invalid(f"'{target}' must be a number.", target)
    try:
        return value if abs(value) <= _LARGEST else float(value)
    except OverflowError:
        raise invalid(f"'{target}' is too large a number.", target) from None


def show_filter(filter: Filter) -> Shown:
    """A filter as ARM shows it."""
    return {
        "subjectBeginsWith": filter.subject_begins_with,
        "subjectEndsWith": filter.subject_ends_with,
        "includedEventTypes": None if filter.event_types is None else list(filter.event_types),
        "isSubjectCaseSensitive": filter.subject_case_sensitive,
        "enableAdvancedFilteringOnArrays": filter.arrays,
        "advancedFilters": [_show_condition(condition) for condition in filter.conditions],
    }


def _show_condition(condition: Condition) -> Shown:
    head: Shown = {"operatorType": condition.operator.value, "key": condition.key}
    match ARITY[condition.operator]:
        case Arity.NONE:
            return head
        case Arity.ONE:
            return {**head, "value": condition.operands[0]}
        case Arity.MANY | Arity.RANGES:
            return {**head, "values": list(condition.operands)}
