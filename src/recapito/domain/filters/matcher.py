"""Matches events with filters, a segment at a time: each distinct type, subject and domain topic is tested once.

Conditions are tested last, on events that pass everything else; their fields are read once for all filters.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

from recapito.domain import limits
from recapito.domain.events.segment import Segment
from recapito.domain.filters.condition import Test, compile_condition
from recapito.domain.filters.field_reader import EventFields, field_reader, is_cloud_event, is_extension
from recapito.domain.filters.filter import Filter

WakeKey = str | Filter  # wakes the lanes that a segment may concern


class Matcher:
    """A compiled filter. `keys` are the keys of its conditions; `judges_all`: they may test any event.

    A segment in which an event passes has one of `wake_keys` (`wake_keys_of`). A filter that tests neither the type nor
    the domain topic is itself the wake key of such segments. One that takes all events has no wake keys: None.
    """

    def __init__(self, filter: Filter) -> None:
        fold = _same if filter.subject_case_sensitive else str.casefold
        self._fold: Callable[[str], str] = fold
        self._begins, self._ends = fold(filter.subject_begins_with), fold(filter.subject_ends_with)
        self._types = None if filter.event_types is None else frozenset(name.casefold() for name in filter.event_types)
        self._domain_topic = None if filter.domain_topic is None else filter.domain_topic.casefold()
        self.wake_keys = self._find_wake_keys(filter)
        self.keys = frozenset(condition.key for condition in filter.conditions)
        self.judges_all = bool(self.keys) and self.wake_keys is not None and filter in self.wake_keys
        self._tests = {
            cloud_events: [
                (each.key, compile_condition(each, filter.arrays, cloud_events and is_extension(each.key)))
                for each in filter.conditions
            ]
            for cloud_events in (False, True)
        }

    def _find_wake_keys(self, filter: Filter) -> frozenset[WakeKey] | None:
        if self._domain_topic is not None:
            return frozenset((_domain_topic_key(self._domain_topic),))
        if self._types is not None:
            return frozenset(map(_type_key, self._types))
        return None if filter.takes_all else frozenset((filter,))

    def takes_type(self, name: str) -> bool:
        """Whether the event type alone lets an event pass; types compare without case (spec: undocumented)."""
        return self._types is None or name.casefold() in self._types

    def takes_domain_topic(self, name: str) -> bool:
        return self._domain_topic is None or name.casefold() == self._domain_topic

    def takes_subject(self, subject: str) -> bool:
        folded = self._fold(subject)
        return folded.startswith(self._begins) and folded.endswith(self._ends)

    def select(self, segment: Segment) -> Sequence[int]:
        """The indexes of the events that pass all but the conditions, ascending."""
        passing: Sequence[int] = range(len(segment))
        if self._domain_topic is not None:
            passing = _pick(passing, segment.domain_topics, segment.domain_topic_of, self.takes_domain_topic)
        if self._types is not None:
            passing = _pick(passing, segment.types, segment.type_of, self.takes_type)
        if passing and (self._begins or self._ends):
            subjects = {name for name in set(segment.subjects) if self.takes_subject(name)}
            passing = [i for i in passing if segment.subjects[i] in subjects]
        return passing

    def tests(self, cloud_events: bool) -> list[tuple[str, Test]]:
        """The keys of the conditions, and the tests that the values under them must pass."""
        return self._tests[cloud_events]


@lru_cache(maxsize=limits.COMPILED_FILTERS)
def compile_filter(filter: Filter) -> Matcher:
    """The matcher of a filter; each is compiled once."""
    return Matcher(filter)


class SegmentView:
    """The events of one segment, as far as one field reader has read them for conditions."""

    def __init__(self, segment: Segment, keys: frozenset[str]) -> None:
        self._segment = segment
        self._reader = field_reader(keys, is_cloud_event(segment.event(0)))
        self._fields: dict[int, EventFields] = {}

    def has(self, keys: frozenset[str]) -> bool:
        """Whether the reader covers these keys."""
        return keys <= self._reader.keys

    def select(self, matcher: Matcher, passing: Sequence[int]) -> Sequence[int]:
        """The indexes of `passing` whose events meet the conditions."""
        chosen, fields = passing, self._fields
        for i in passing:
            if i not in fields:
                fields[i] = self._reader.read(self._segment.event(i))
        for key, test in matcher.tests(self._reader.cloud_events):
            value = self._reader.values[key]
            chosen = [i for i in chosen if test(value(fields[i]))]
        return passing if len(chosen) == len(passing) else chosen


class MatchedEvents(NamedTuple):
    """The indexes of the events of a segment that pass a filter, and of those that its conditions tested."""

    chosen: Sequence[int]
    evaluated: Sequence[int] = ()


def select(
    filter: Filter, segment: Segment, view: Callable[[frozenset[str]], SegmentView] | None = None
) -> MatchedEvents:
    """The selection of a filter, ascending. `view` returns the kept view of the segment that covers some keys."""
    matcher = compile_filter(filter)
    passing = matcher.select(segment)
    if not passing or not matcher.keys:
        return MatchedEvents(passing)
    events = SegmentView(segment, matcher.keys) if view is None else view(matcher.keys)
    return MatchedEvents(events.select(matcher, passing), passing)


def matches(filter: Filter, event_type: str, subject: str, body: bytes, domain_topic: str = "") -> bool:
    matcher = compile_filter(filter)
    by_columns = (
        matcher.takes_type(event_type) and matcher.takes_subject(subject) and matcher.takes_domain_topic(domain_topic)
    )
    if not by_columns or not matcher.keys:
        return by_columns
    reader = field_reader(matcher.keys, is_cloud_event(body))
    fields = reader.read(body)
    return all(test(reader.values[key](fields)) for key, test in matcher.tests(reader.cloud_events))


def wake_keys_of(segment: Segment) -> list[WakeKey]:
    """The wake keys of a segment itself: its event types and domain topics, each once."""
    wake_keys = [_type_key(name.casefold()) for name in segment.types]
    wake_keys += [_domain_topic_key(name.casefold()) for name in segment.domain_topics]
    return list(dict.fromkeys(wake_keys))


def _type_key(name: str) -> str:
    return f"type {name}"


def _domain_topic_key(name: str) -> str:
    return f"topic {name}"


def _pick(
    passing: Sequence[int], names: Sequence[str], name_of: Sequence[int], takes: Callable[[str], bool]
) -> Sequence[int]:
    """The indexes whose name is taken; the names are distinct, so that each is tested once."""
    taken = {n for n, name in enumerate(names) if takes(name)}
    if not taken:
        return ()
    return passing if len(taken) == len(names) else [i for i in passing if name_of[i] in taken]


def _same(text: str) -> str:
    return text
