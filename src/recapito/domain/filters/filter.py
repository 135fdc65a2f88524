"""A subscription's filter: the types, subjects and values of the events that it takes. All of its parts must hold.

A filter is a hashable value, so that a segment is matched once for all subscriptions that share one; `matcher` does it.
`ARITY` is the only list of what values an operator takes: the API, the command line and the portal read it.
"""

from enum import Enum, StrEnum

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

    @property
    def numeric(self) -> bool:
        """True when its values are numbers; those of `BoolEquals` are truths, all others strings."""
        return self.startswith("Number")


class Arity(Enum):
    """The values that an operator takes: none, one (`value` on the wire), a list, or a list of pairs (`values`)."""

    NONE = "none"
    ONE = "one"
    MANY = "many"
    RANGES = "ranges"


ARITY: dict[Operator, Arity] = {
    Operator.NUMBER_IN: Arity.MANY,
    Operator.NUMBER_NOT_IN: Arity.MANY,
    Operator.NUMBER_LESS_THAN: Arity.ONE,
    Operator.NUMBER_GREATER_THAN: Arity.ONE,
    Operator.NUMBER_LESS_THAN_OR_EQUALS: Arity.ONE,
    Operator.NUMBER_GREATER_THAN_OR_EQUALS: Arity.ONE,
    Operator.NUMBER_IN_RANGE: Arity.RANGES,
    Operator.NUMBER_NOT_IN_RANGE: Arity.RANGES,
    Operator.BOOL_EQUALS: Arity.ONE,
    Operator.STRING_CONTAINS: Arity.MANY,
    Operator.STRING_NOT_CONTAINS: Arity.MANY,
    Operator.STRING_BEGINS_WITH: Arity.MANY,
    Operator.STRING_NOT_BEGINS_WITH: Arity.MANY,
    Operator.STRING_ENDS_WITH: Arity.MANY,
    Operator.STRING_NOT_ENDS_WITH: Arity.MANY,
    Operator.STRING_IN: Arity.MANY,
    Operator.STRING_NOT_IN: Arity.MANY,
    Operator.IS_NULL_OR_UNDEFINED: Arity.NONE,
    Operator.IS_NOT_NULL: Arity.NONE,
}
assert set(ARITY) == set(Operator), "every operator has its arity"

Number = int | float
Operand = str | bool | Number | tuple[Number, Number]


class Condition(msgspec.Struct, frozen=True, array_like=True):
    """One advanced filter: a key of the event, and the operator and operands that its value must satisfy."""

    operator: Operator
    key: str
    operands: tuple[Operand, ...] = ()


class Filter(msgspec.Struct, frozen=True, omit_defaults=True, cache_hash=True):
    """Event Grid's `filter`. `event_types` None takes all types, an empty tuple none.

    `domain_topic` is the one topic of a domain whose events are taken; None takes all. With `arrays`, conditions look
    into arrays.
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
