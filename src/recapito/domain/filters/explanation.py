"""Explains why an event passes a filter or does not: the deciding clause, in words.

It asks the very matcher that lanes use, clause by clause, in the order of Event Grid's filter.
"""

from collections.abc import Iterator
from typing import NamedTuple

import msgspec
from msgspec import UNSET

from recapito.domain.excerpt import excerpt
from recapito.domain.filters.condition import Value, compares, compile_condition, kind_of
from recapito.domain.filters.field_reader import field_reader, is_cloud_event, is_extension
from recapito.domain.filters.filter import Condition, Filter
from recapito.domain.filters.matcher import compile_filter

VALUE_CHARS = 100
VALUES = 5


class FilterVerdict(NamedTuple):
    """Whether an event is matched, None if that is no longer known; the deciding clause, and the reason in words."""

    matched: bool | None
    clause: str
    text: str


class FilteredEvent(NamedTuple):
    """The parts of an event that filters read."""

    type: str
    subject: str
    body: bytes
    domain_topic: str = ""


def explain(filter: Filter, event: FilteredEvent) -> FilterVerdict:
    """The verdict of the first clause that refuses the event, or of the whole filter if none does."""
    for verdict in _refusals(filter, event):
        return verdict
    if filter.takes_all:
        return FilterVerdict(True, "all", "the filter takes every event")
    return FilterVerdict(True, "all", "every clause of the filter holds")


def _refusals(filter: Filter, event: FilteredEvent) -> Iterator[FilterVerdict]:
    matcher = compile_filter(filter)
    if not matcher.takes_domain_topic(event.domain_topic):
        text = f"the event is of topic {_quoted(event.domain_topic)}, not of {_quoted(filter.domain_topic)}"
        yield FilterVerdict(False, "domainTopic", text)
    if not matcher.takes_type(event.type):
        taken = f"is not one of {_listed(filter.event_types)}" if filter.event_types else "is not taken: no type is"
        yield FilterVerdict(False, "includedEventTypes", f"eventType {_quoted(event.type)} {taken}")
    begins = compile_filter(msgspec.structs.replace(filter, subject_ends_with=""))
    if not begins.takes_subject(event.subject):
        text = f"subject {_quoted(event.subject)} does not begin with {_quoted(filter.subject_begins_with)}"
        yield FilterVerdict(False, "subjectBeginsWith", text + _case(filter))
    ends = compile_filter(msgspec.structs.replace(filter, subject_begins_with=""))
    if not ends.takes_subject(event.subject):
        text = f"subject {_quoted(event.subject)} does not end with {_quoted(filter.subject_ends_with)}"
        yield FilterVerdict(False, "subjectEndsWith", text + _case(filter))
    yield from _refused_conditions(filter, event)


def _refused_conditions(filter: Filter, event: FilteredEvent) -> Iterator[FilterVerdict]:
    if not filter.conditions:
        return
    cloud_events = is_cloud_event(event.body)
    reader = field_reader(frozenset(condition.key for condition in filter.conditions), cloud_events)
    view = reader.read(event.body)
    for n, condition in enumerate(filter.conditions):
        as_text = cloud_events and is_extension(condition.key)
        test = compile_condition(condition, filter.arrays, as_text)
        value = reader.values[condition.key](view)
        if not test(value):
            yield FilterVerdict(False, f"advancedFilters[{n}]", _why(condition, value, filter.arrays, as_text))


def _why(condition: Condition, value: Value, arrays: bool, integers_as_text: bool) -> str:
    wanted = f"{condition.key} {condition.operator}"
    if condition.operands:
        wanted += f" {_listed(condition.operands)}"
    if value is UNSET:
        return f"{wanted} does not hold: the event has no {condition.key}"
    if isinstance(value, list) and not arrays:
        return f"{wanted} does not hold: {condition.key} is an array, and advanced filtering on arrays is off"
    text = f"{wanted} does not hold: {condition.key} is {_shown(value)}"
    as_text = integers_as_text and type(value) is int
    if value is None or not condition.operands or as_text or compares(condition.operator, value):
        return text
    return f"{text}, {'without' if isinstance(value, list) else 'not'} a {kind_of(condition.operator)}"


def _shown(value: Value) -> str:
    """A value of an event as JSON, shortened."""
    if isinstance(value, msgspec.Struct):
        return "an object"
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, list):
        return f"[{', '.join(map(_shown, value[:VALUES]))}{', …' if len(value) > VALUES else ''}]"
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    return str(value)[:VALUE_CHARS]


def _listed(operands: tuple[object, ...]) -> str:
    shown = ", ".join(
        _quoted(operand) if isinstance(operand, str) else _operand(operand) for operand in operands[:VALUES]
    )
    return f"{shown} and {len(operands) - VALUES} more" if len(operands) > VALUES else shown


def _operand(operand: object) -> str:
    if isinstance(operand, tuple):
        return "–".join(map(str, operand))
    return str(operand).lower() if isinstance(operand, bool) else str(operand)


def _case(filter: Filter) -> str:
    return " (case matters)" if filter.subject_case_sensitive else ""


def _quoted(text: str | None) -> str:
    cut = excerpt((text or "")[:VALUE_CHARS])
    return f"'{cut}{'…' if len(text or '') > VALUE_CHARS else ''}'"
