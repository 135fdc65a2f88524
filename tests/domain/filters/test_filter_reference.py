"""Filters against a reference that is slow and obvious: it decodes everything and follows the words of the spec."""

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from recapito.domain.events.segment import Publish, Segment, StampedEvent, pack
from recapito.domain.filters.filter import Condition, Filter, Operator
from recapito.domain.filters.matcher import SegmentView, matches, select
from tests.domain.filters.reference import NOTHING, filters, find, plain, segments

CLOUD_ATTRIBUTES = ["id", "source", "type", "specversion", "subject", "time", "data"]


def reference(filter: Filter, type: str, subject: str, domain_topic: str, event: dict[str, Any]) -> bool:
    """Whether an event passes, one rule after the other."""
    if filter.domain_topic is not None and domain_topic.casefold() != filter.domain_topic.casefold():
        return False
    if filter.event_types is not None and type.casefold() not in [name.casefold() for name in filter.event_types]:
        return False
    begins, ends = filter.subject_begins_with, filter.subject_ends_with
    if not filter.subject_case_sensitive:
        subject, begins, ends = subject.casefold(), begins.casefold(), ends.casefold()
    if not (subject.startswith(begins) and subject.endswith(ends)):
        return False
    return all(holds(condition, filter.arrays, event) for condition in filter.conditions)


def holds(condition: Condition, arrays: bool, event: dict[str, Any]) -> bool:
    """Whether a condition holds: arrays element by element, the rest by its type."""
    operator, value = condition.operator.value, find(event, condition.key)
    there = value is not NOTHING and value is not None
    if operator == "IsNotNull":
        return there
    if operator == "IsNullOrUndefined":
        return not there
    extension = "specversion" in event and "." not in condition.key and condition.key not in CLOUD_ATTRIBUTES
    if operator.startswith("String") and extension and isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    elements = value if isinstance(value, list) and arrays else [value] if there else []
    elements = [element for element in elements if fits(operator, element)]
    if not elements:
        return operator in ("NumberNotIn", "StringNotIn", "NumberNotInRange")
    hits = [
        hit(operator.replace("Not", ""), element, operand) for element in elements for operand in condition.operands
    ]
    return not any(hits) if "Not" in operator else any(hits)


def fits(operator: str, value: Any) -> bool:
    """Whether an operator looks at values of this type."""
    if operator.startswith("Bool"):
        return isinstance(value, bool)
    if operator.startswith("Number"):
        return isinstance(value, int | float) and not isinstance(value, bool)
    return isinstance(value, str)


def hit(operator: str, value: Any, operand: Any) -> bool:
    """Whether one value is hit by one operand."""
    if isinstance(value, str):
        value, operand = value.casefold(), operand.casefold()
    return bool(
        {
            "NumberIn": lambda: value == operand,
            "NumberLessThan": lambda: value < operand,
            "NumberGreaterThan": lambda: value > operand,
            "NumberLessThanOrEquals": lambda: value <= operand,
            "NumberGreaterThanOrEquals": lambda: value >= operand,
            "NumberInRange": lambda: operand[0] <= value and value <= operand[1],
            "BoolEquals": lambda: value == operand,
            "StringContains": lambda: operand in value,
            "StringBeginsWith": lambda: value[: len(operand)] == operand,
            "StringEndsWith": lambda: operand == "" or value[-len(operand) :] == operand,
            "StringIn": lambda: value == operand,
        }[operator]()
    )


def packed(events: list[tuple[str, str, str, dict[str, Any]]]) -> Segment:
    """A segment of these events, as it is stored."""
    stamped = [
        StampedEvent(json.dumps(event, ensure_ascii=False).encode(), type, subject, "", topic)
        for type, subject, topic, event in events
    ]
    return Segment(*pack([Publish(0, stamped)]))


@settings(max_examples=200)
@given(plain | filters, segments)
def test_reference(filter: Filter, events: list[tuple[str, str, str, dict[str, Any]]]) -> None:
    """Matching one by one, and matching a segment at once, take what the reference takes, in its order."""
    wanted = [
        i for i, (type, subject, topic, event) in enumerate(events) if reference(filter, type, subject, topic, event)
    ]
    segment = packed(events)
    assert list(select(filter, segment).chosen) == wanted
    assert [
        i
        for i, (type, subject, topic, _) in enumerate(events)
        if matches(filter, type, subject, segment.event(i), topic)
    ] == wanted


@given(st.lists(plain, min_size=1, max_size=4), segments)
def test_one_look_serves_all(many: list[Filter], events: list[tuple[str, str, str, dict[str, Any]]]) -> None:
    """Fields that were read for several filters give each of them the values that it would read for itself."""
    segment = packed(events)
    together = SegmentView(segment, frozenset(condition.key for filter in many for condition in filter.conditions))
    for filter in many:
        assert list(select(filter, segment, lambda keys: together).chosen) == list(select(filter, segment).chosen)


number_texts = st.from_regex(r"-?(0|[1-9][0-9]{0,40})(\.[0-9]{1,25})?([eE][+-]?[0-9]{1,3})?", fullmatch=True)
string_texts = st.builds(json.dumps, st.text(max_size=5), ensure_ascii=st.booleans())
texts = st.recursive(
    number_texts | string_texts | st.sampled_from(["true", "false", "null"]),
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda parts: f"[ {' , '.join(parts)}]")
        | st.lists(st.tuples(string_texts, inner), max_size=3).map(
            lambda parts: "{" + ",".join(f"{name} :{value}" for name, value in parts) + "}"
        )
    ),
    max_leaves=6,
)


@given(texts, texts, texts)
def test_any_json_can_be_looked_at(text: str, twin: str, other: str) -> None:
    """Whatever JSON allows, a value is itself: the last of its name, exactly as large, whatever lies around it."""
    body = f'{{"id":"1","data":{{"x":{twin}, "y" : {other}, "x":{text}, "z":{other}}}}}'.encode()
    value = json.loads(text)
    if isinstance(value, bool):
        itself = Condition(Operator.BOOL_EQUALS, "data.x", (value,))
    elif isinstance(value, str):
        itself = Condition(Operator.STRING_IN, "data.x", (value,))
    elif isinstance(value, int | float):
        itself = Condition(Operator.NUMBER_IN, "data.x", (value,))
    else:
        itself = Condition(Operator.IS_NOT_NULL if value is not None else Operator.IS_NULL_OR_UNDEFINED, "data.x")
    assert matches(Filter(conditions=(itself,)), "T", "s", body)
    for operator, operand in ((Operator.NUMBER_LESS_THAN, 0), (Operator.STRING_CONTAINS, "a")):
        condition = Condition(operator, "data.x", (operand,))
        for arrays in (False, True):
            filter = Filter(conditions=(condition,), arrays=arrays)
            assert matches(filter, "T", "s", body) is holds(condition, arrays, json.loads(body))
