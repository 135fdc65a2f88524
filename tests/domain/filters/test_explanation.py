"""Why an event passes a filter or not: always what the matcher says, and a clause that really refuses."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from msgspec.structs import replace

from recapito.domain.filters.explanation import FilteredEvent, FilterVerdict, explain
from recapito.domain.filters.filter import TAKE_ALL, TAKE_NONE, Condition, Filter, Operator
from recapito.domain.filters.matcher import matches
from tests.domain.filters.reference import filters, plain, segments

BODY = {"id": "1", "subject": "s", "eventType": "T", "data": {"n": 5, "s": "Red", "a": [1, 2], "o": {}, "z": None}}


def seen(type: str = "T", subject: str = "/a/b", domain_topic: str = "", **changes: Any) -> FilteredEvent:
    return FilteredEvent(type, subject, json.dumps(BODY | changes).encode(), domain_topic)


@settings(max_examples=300)
@given(plain | filters, segments)
def test_it_says_what_the_matcher_says(filter: Filter, events: list[tuple[str, str, str, dict[str, Any]]]) -> None:
    """An event is explained as matched exactly if it is matched, and the clause that is named refuses alone."""
    for type, subject, topic, event in events:
        body = json.dumps(event, ensure_ascii=False).encode()
        verdict = explain(filter, FilteredEvent(type, subject, body, topic))
        assert verdict.matched is matches(filter, type, subject, body, topic)
        if not verdict.matched:
            assert not matches(_only(filter, verdict.clause), type, subject, body, topic)
            assert verdict.text.isprintable()


def _only(filter: Filter, clause: str) -> Filter:
    """The filter without all other clauses."""
    if clause == "domainTopic":
        return Filter(domain_topic=filter.domain_topic)
    if clause == "includedEventTypes":
        return Filter(event_types=filter.event_types)
    if clause == "subjectBeginsWith":
        begins, case = filter.subject_begins_with, filter.subject_case_sensitive
        return Filter(subject_begins_with=begins, subject_case_sensitive=case)
    if clause == "subjectEndsWith":
        return Filter(subject_ends_with=filter.subject_ends_with, subject_case_sensitive=filter.subject_case_sensitive)
    number = int(clause.removeprefix("advancedFilters[").removesuffix("]"))
    return replace(TAKE_ALL, conditions=(filter.conditions[number],), arrays=filter.arrays)


def condition(operator: Operator, key: str, *operands: Any) -> Filter:
    return Filter(conditions=(Condition(operator, key, operands),))


@pytest.mark.parametrize(
    ("filter", "text"),
    [
        (TAKE_NONE, "eventType 'T' is not taken: no type is"),
        (Filter(event_types=tuple("ABCDEFG")), "eventType 'T' is not one of 'A', 'B', 'C', 'D', 'E' and 2 more"),
        (Filter(subject_begins_with="/x"), "subject '/a/b' does not begin with '/x'"),
        (Filter(domain_topic="north"), "the event is of topic '', not of 'north'"),
        (condition(Operator.NUMBER_IN, "data.n", 1, 2), "data.n NumberIn 1, 2 does not hold: data.n is 5"),
        (
            condition(Operator.NUMBER_IN_RANGE, "data.n", (1, 2)),
            "data.n NumberInRange 1–2 does not hold: data.n is 5",
        ),
        (condition(Operator.STRING_IN, "data.s", "x"), "data.s StringIn 'x' does not hold: data.s is 'Red'"),
        (
            condition(Operator.BOOL_EQUALS, "data.n", True),
            "data.n BoolEquals true does not hold: data.n is 5, not a boolean",
        ),
        (condition(Operator.IS_NOT_NULL, "data.z"), "data.z IsNotNull does not hold: data.z is null"),
        (
            condition(Operator.STRING_IN, "data.o", "x"),
            "data.o StringIn 'x' does not hold: data.o is an object, not a string",
        ),
        (condition(Operator.STRING_IN, "data.q", "x"), "data.q StringIn 'x' does not hold: the event has no data.q"),
        (
            condition(Operator.NUMBER_IN, "data.a", 1),
            "data.a NumberIn 1 does not hold: data.a is an array, and advanced filtering on arrays is off",
        ),
        (
            replace(condition(Operator.NUMBER_IN, "data.a", 7), arrays=True),
            "data.a NumberIn 7 does not hold: data.a is [1, 2]",
        ),
        (
            replace(condition(Operator.STRING_NOT_CONTAINS, "data.a", "x"), arrays=True),
            "data.a StringNotContains 'x' does not hold: data.a is [1, 2], without a string",
        ),
        (
            condition(Operator.STRING_NOT_CONTAINS, "data.n", "x"),
            "data.n StringNotContains 'x' does not hold: data.n is 5, not a string",
        ),
    ],
)
def test_words(filter: Filter, text: str) -> None:
    """The text says what was wanted and what was there."""
    verdict = explain(filter, seen())
    assert verdict.matched is False
    assert verdict.text == text


def test_what_passes() -> None:
    """A filter that takes everything is told from one whose clauses all hold."""
    assert explain(TAKE_ALL, seen()) == FilterVerdict(True, "all", "the filter takes every event")
    assert explain(Filter(event_types=("t",)), seen()) == FilterVerdict(True, "all", "every clause of the filter holds")


def test_hostile_texts_are_cut_and_printable() -> None:
    """Values of an event are shown shortened, and without control characters of a terminal."""
    text = explain(Filter(subject_begins_with="x"), seen(subject="\x1b[31m" + "y" * 5000)).text
    assert text.isprintable() and len(text) < 200


def test_integers_are_texts_only_in_extensions_of_cloud_events() -> None:
    """An envelope name in another case is no extension: its integer is not compared as a text."""
    verdict = explain(condition(Operator.STRING_IN, "Data", "5"), seen(data=5))
    assert verdict.matched is False
    assert verdict.text == "Data StringIn '5' does not hold: Data is 5, not a string"
