"""Which events of a topic a subscription takes: by type, by subject, by what is in them; all parts must hold.

A filter is a hashable value, so that a segment is matched once for all the subscriptions that share one. How events
are held against it is in `match`.
"""

from enum import StrEnum

import msgspec


class Operator(StrEnum):
    """The operators of advanced filters (spec §5)."""

    NUMBER_IN = "NumberIn"
    NUMBER_NOT_IN = "NumberNotIn"
    NUMBER_LESS_THAN = "NumberLessThan"
    NUMBER_GREATER_THAN = "NumberGreaterThan"
    NUMBER_LESS_THAN_OR_EQUALS = "NumberLessThanOrEquals"
    NUMBER_GREATER_THAN_OR_EQUALS = "NumberGreaterThanOrEquals"
    NUMBER_IN_RANGE = "NumberInRange"
    NUMBER_NOT_IN_RANGE = "NumberNotInRange"
    BOOL_EQUALS = "BoolEquals"
    STRING_CONTAINS = "StringContains"
    STRING_NOT_CONTAINS = "StringNotContains"
    STRING_BEGINS_WITH = "StringBeginsWith"
    STRING_NOT_BEGINS_WITH = "StringNotBeginsWith"
    STRING_ENDS_WITH = "StringEndsWith"
    STRING_NOT_ENDS_WITH = "StringNotEndsWith"
    STRING_IN = "StringIn"
    STRING_NOT_IN = "StringNotIn"
    IS_NULL_OR_UNDEFINED = "IsNullOrUndefined"
    IS_NOT_NULL = "IsNotNull"


Number = int | float
Operand = str | bool | Number | tuple[Number, Number]


class Condition(msgspec.Struct, frozen=True, array_like=True):
    """One advanced filter: what a key of the event must be. An operator with one `value` has one operand."""

    operator: Operator
    key: str
    operands: tuple[Operand, ...] = ()


class Filter(msgspec.Struct, frozen=True, omit_defaults=True, cache_hash=True):
    """Event Grid's `filter`. No `event_types` means all of them, an empty tuple none.

    `domain_topic` is the one topic of a domain whose events are taken; None is all. `arrays` says whether conditions
    look into arrays.
    """

    event_types: tuple[str, ...] | None = None
    subject_begins_with: str = ""
    subject_ends_with: str = ""
    subject_case_sensitive: bool = False
    conditions: tuple[Condition, ...] = ()
    arrays: bool = False
    domain_topic: str | None = None

    @property
    def takes_all(self) -> bool:
        """True when no event can fail this filter."""
        return self == TAKE_ALL


TAKE_ALL = Filter()
TAKE_NONE = Filter(event_types=())
