"""Advanced filters: each operator against each type, missing keys, nulls and arrays; and where keys lead to."""

import json
from typing import Any

import pytest

from recapito.domain import limits
from recapito.domain.events.segment import Publish, Segment, StampedEvent, pack
from recapito.domain.filters.filter import Condition, Filter, Operand, Operator
from recapito.domain.filters.matcher import matches, select

MISSING = object()
O = Operator  # noqa: E741 (the tables below are read by column)


def event(value: object) -> bytes:
    """An event in the Event Grid schema, with this value under data.x."""
    data = {} if value is MISSING else {"x": value}
    return json.dumps({"id": "1", "eventType": "T", "subject": "s", "data": data}).encode()


def takes(body: bytes, operator: Operator, key: str, *operands: Operand, arrays: bool = False) -> bool:
    """Whether a filter with this one condition takes an event, by itself and out of a segment."""
    filter = Filter(conditions=(Condition(operator, key, operands),), arrays=arrays)
    segment = Segment(*pack([Publish(0, [StampedEvent(body, "T", "s", "")])]))
    taken = matches(filter, "T", "s", body)
    assert list(select(filter, segment).chosen) == ([0] if taken else [])
    return taken


# A condition, and what it says of a value that hits it, of one that does not, and of a missing key.
OPERATORS: list[tuple[Operator, tuple[Operand, ...], object, object, tuple[bool, bool, bool]]] = [
    (O.NUMBER_IN, (3, 5.5), 5.5, 4, (True, False, False)),
    (O.NUMBER_NOT_IN, (3, 5.5), 3, 4, (False, True, True)),
    (O.NUMBER_LESS_THAN, (10,), 9.99, 10, (True, False, False)),
    (O.NUMBER_GREATER_THAN, (10,), 10.01, 10, (True, False, False)),
    (O.NUMBER_LESS_THAN_OR_EQUALS, (10,), 10.0, 11, (True, False, False)),
    (O.NUMBER_GREATER_THAN_OR_EQUALS, (10,), 10, 9, (True, False, False)),
    (O.NUMBER_IN_RANGE, ((1, 2), (5, 6.5)), 6.5, 3, (True, False, False)),
    (O.NUMBER_NOT_IN_RANGE, ((1, 2), (5, 6.5)), 1, 3, (False, True, True)),
    (O.BOOL_EQUALS, (True,), True, False, (True, False, False)),
    (O.BOOL_EQUALS, (False,), False, True, (True, False, False)),
    (O.STRING_CONTAINS, ("LL", "zz"), "hello", "help", (True, False, False)),
    (O.STRING_NOT_CONTAINS, ("LL", "zz"), "hello", "help", (False, True, False)),
    (O.STRING_BEGINS_WITH, ("he", "zz"), "HELLO", "oh hello", (True, False, False)),
    (O.STRING_NOT_BEGINS_WITH, ("he", "zz"), "HELLO", "oh hello", (False, True, False)),
    (O.STRING_ENDS_WITH, ("zz", "LO"), "hello", "hello!", (True, False, False)),
    (O.STRING_NOT_ENDS_WITH, ("zz", "LO"), "hello", "hello!", (False, True, False)),
    (O.STRING_IN, ("a", "Hello"), "hELLO", "hello!", (True, False, False)),
    (O.STRING_NOT_IN, ("a", "Hello"), "hELLO", "hello!", (False, True, True)),
]
IDS = [f"{row[0].value}-{row[2]}" for row in OPERATORS]
KINDS: dict[type, tuple[object, ...]] = {
    int: (0, 7, -1),
    bool: (True, False),
    str: ("", "3", "true"),
    dict: ({}, {"y": 3}),
}


def foreign(operator: Operator) -> list[object]:
    """Values of all types that an operator does not look at."""
    own = {"Nu": int, "Bo": bool, "St": str}[operator.value[:2]]
    return [value for kind, values in KINDS.items() if kind is not own for value in values]


@pytest.mark.parametrize(("operator", "operands", "hit", "other", "verdicts"), OPERATORS, ids=IDS)
def test_every_operator_and_type(
    operator: Operator, operands: tuple[Operand, ...], hit: object, other: object, verdicts: tuple[bool, bool, bool]
) -> None:
    """A value is compared if it has the operator's type; otherwise, and if it is null, it is as if it were missing."""
    for value, verdict in zip((hit, other, MISSING), verdicts, strict=True):
        assert takes(event(value), operator, "data.x", *operands) is verdict
    for value in (None, *foreign(operator)):
        assert takes(event(value), operator, "data.x", *operands) is verdicts[2], value


@pytest.mark.parametrize(("operator", "operands", "hit", "other", "verdicts"), OPERATORS, ids=IDS)
def test_every_operator_on_arrays(
    operator: Operator, operands: tuple[Operand, ...], hit: object, other: object, verdicts: tuple[bool, bool, bool]
) -> None:
    """Any element that is hit decides; elements of another type are ignored; arrays must be asked for.

    An array without an element of the operator's type is as if it were missing.
    """
    any_hit, none_hit, missing = verdicts
    ignored = [*foreign(operator), None, [hit]]
    for array, verdict in (
        ([hit], any_hit),
        ([other, hit, other], any_hit),
        ([*ignored, hit], any_hit),
        ([other], none_hit),
        ([other, *ignored], none_hit),
        (ignored, missing),
        ([], missing),
    ):
        assert takes(event(array), operator, "data.x", *operands, arrays=True) is verdict, array
        assert takes(event(array), operator, "data.x", *operands) is missing, array


@pytest.mark.parametrize("arrays", [False, True])
@pytest.mark.parametrize(
    ("value", "null"),
    [(MISSING, True), (None, True)]
    + [(value, False) for value in (0, 0.0, False, "", "x", [], [None], {}, {"y": None})],
)
def test_null(value: object, null: bool, arrays: bool) -> None:
    """Null is what is missing or null; whatever else is there is not, be it empty, an array or an object."""
    assert takes(event(value), O.IS_NULL_OR_UNDEFINED, "data.x", arrays=arrays) is null
    assert takes(event(value), O.IS_NOT_NULL, "data.x", arrays=arrays) is not null


@pytest.mark.parametrize(
    ("json_number", "operator", "operand", "taken"),
    [
        ("9007199254740993", O.NUMBER_IN, 9007199254740992, False),
        ("9007199254740993", O.NUMBER_GREATER_THAN, 9007199254740992.0, True),
        ("18446744073709551617", O.NUMBER_IN, 18446744073709551617, True),
        ("18446744073709551617", O.NUMBER_GREATER_THAN, 18446744073709551616, True),
        ("5.0", O.NUMBER_IN, 5, True),
        ("5e0", O.NUMBER_IN, 5, True),
        ("-0.0", O.NUMBER_IN, 0, True),
        ("1e400", O.NUMBER_GREATER_THAN, 1e308, True),
        ("-1e400", O.NUMBER_LESS_THAN, -1e308, True),
        ("1e-400", O.NUMBER_GREATER_THAN, 0, False),
        ("9" * 5000, O.NUMBER_GREATER_THAN, 10**300, True),
        ("1" * 4200, O.NUMBER_IN, int("1" * 4200), True),
    ],
)
def test_numbers(json_number: str, operator: Operator, operand: float, taken: bool) -> None:
    """Integers and floats compare exactly, and numbers of any size compare at all."""
    body = event(0).replace(b'"x": 0', b'"x": ' + json_number.encode())
    assert takes(body, operator, "data.x", operand) is taken


def test_numbers_elsewhere_do_no_harm() -> None:
    """A number that no machine can hold, or a half of a surrogate pair, hinders no other key."""
    body = event(1).replace(b'"x": 1', b'"x": 1, "big": 1e999, "huge": %b, "half": "\\ud83d"' % (b"9" * 5000))
    assert takes(body, O.NUMBER_IN, "data.x", 1)
    assert takes(body, O.IS_NOT_NULL, "data.half")


EVENT_GRID = (
    b'{"id":"i-1","eventTime":"2026-01-01T00:00:00Z","eventType":"T","dataVersion":"2.0","metadataVersion":"1",'
    b'"topic":"/t","subject":"s/1","data":{"a":{"b":{"c":"deep"},"b.c":"dotted"},"Id":"inner","n":null,'
    b'"rows":[{"c":"deep"}],"twice":"first","twice":"last","":"nameless"}}'
)
CLOUD_EVENT = (
    b'{"id":"i-1","source":"/s","type":"T","specversion":"1.0","subject":"s/1","time":"2026-01-01T00:00:00Z",'
    b'"size":5,"flag":true,"word":"Blue","ratio":5.0,"data":{"a":{"b":"deep"},"size":5}}'
)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("id", "i-1"),
        ("Id", "i-1"),
        ("Topic", "/t"),
        ("SUBJECT", "s/1"),
        ("EventType", "t"),
        ("eventTime", "2026-01-01T00:00:00Z"),
        ("DataVersion", "2.0"),
        ("data.Id", "inner"),
        ("data.id", None),
        ("Data.a.b.c", "deep"),
        ("data.A.b.c", None),
        ("data.a.b", None),
        ("data.a.b.c.d", None),
        ("data.rows.c", None),
        ("data.rows.0.c", None),
        ("data.n", None),
        ("data.n.n", None),
        ("data.twice", "last"),
        ("data.", "nameless"),
        ("a.b.c", None),
        ("id.length", None),
        ("source", None),
        ("", None),
        (".", None),
    ],
)
def test_keys_of_the_event_grid_schema(key: str, value: str | None) -> None:
    """The first name of a key has no case, the others do; names with dots and arrays of objects cannot be reached."""
    assert takes(EVENT_GRID, O.STRING_IN, key, value or "") is (value is not None)


@pytest.mark.parametrize(
    ("key", "operator", "operand", "taken"),
    [
        ("id", O.STRING_IN, "I-1", True),
        ("source", O.STRING_IN, "/s", True),
        ("type", O.STRING_IN, "t", True),
        ("specversion", O.STRING_IN, "1.0", True),
        ("subject", O.STRING_BEGINS_WITH, "s/", True),
        ("time", O.STRING_BEGINS_WITH, "2026", True),
        ("word", O.STRING_IN, "blue", True),
        ("Word", O.STRING_IN, "blue", False),
        ("eventType", O.STRING_IN, "t", False),
        ("data.a.b", O.STRING_IN, "deep", True),
        ("size", O.STRING_BEGINS_WITH, "5", True),
        ("size", O.STRING_NOT_IN, "5", False),
        ("size", O.STRING_NOT_CONTAINS, "6", True),
        ("size", O.NUMBER_IN, 5, True),
        ("data.size", O.STRING_BEGINS_WITH, "5", False),
        ("data.size", O.NUMBER_IN, 5, True),
        ("ratio", O.STRING_BEGINS_WITH, "5", False),
        ("flag", O.STRING_IN, "true", False),
        ("flag", O.BOOL_EQUALS, True, True),
    ],
)
def test_keys_of_cloud_events(key: str, operator: Operator, operand: Operand, taken: bool) -> None:
    """Attributes, extensions and data are found by their own names; integer extensions are text to string operators."""
    assert takes(CLOUD_EVENT, operator, key, operand) is taken


@pytest.mark.parametrize("data", ["null", "5", '"text"', "[1,2]", "{}"])
def test_data_that_is_no_object(data: str) -> None:
    """Whatever data is, a key that leads into it finds nothing; data itself can be asked for."""
    body = b'{"id":"1","data":' + data.encode() + b"}"
    assert takes(body, O.IS_NULL_OR_UNDEFINED, "data.x.y")
    assert takes(body, O.IS_NULL_OR_UNDEFINED, "data") is (data == "null")


def test_all_conditions_must_hold() -> None:
    """Operands are alternatives, conditions are not, and one key may be in several of them."""
    between = (Condition(O.NUMBER_GREATER_THAN, "data.x", (1,)), Condition(O.NUMBER_LESS_THAN, "data.x", (5,)))
    for value, taken in ((1, False), (2, True), (5, False)):
        assert matches(Filter(conditions=between), "T", "s", event(value)) is taken
        assert matches(Filter(conditions=between, event_types=("U",)), "T", "s", event(value)) is False
        assert matches(Filter(conditions=between, subject_ends_with="z"), "T", "s", event(value)) is False


def test_one_key_can_lead_through_another() -> None:
    """A value that one condition looks into is still an object, an array or a word to another."""
    both = Filter(conditions=(Condition(O.IS_NOT_NULL, "data.x"), Condition(O.IS_NULL_OR_UNDEFINED, "data.x.y")))
    table: list[tuple[Any, bool]] = [({"y": 1}, False), ({"y": None}, True), ({}, True), ([1], True), ("w", True)]
    for value, taken in table:
        assert matches(both, "T", "s", event(value)) is taken


def test_limits() -> None:
    """A filter at all its limits works."""
    keys = [f"data.{'k' * n}" for n in range(1, limits.FILTER_CONDITIONS + 1)]
    conditions = tuple(Condition(O.STRING_NOT_IN, key, ("x" * limits.FILTER_CHARS,)) for key in keys)
    assert matches(Filter(conditions=conditions), "T", "s", event(1))
