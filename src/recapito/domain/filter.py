"""Which events of a topic a subscription takes: by event type and by subject; all parts must hold.

A filter is a hashable value, so that a segment is matched once for all the subscriptions that share one.
"""

from collections.abc import Sequence

import msgspec

from recapito.domain.segment import Segment


class Filter(msgspec.Struct, frozen=True, omit_defaults=True):
    """Event Grid's `filter`, without advanced filters. No `event_types` means all of them."""

    event_types: tuple[str, ...] | None = None
    subject_begins_with: str = ""
    subject_ends_with: str = ""
    subject_case_sensitive: bool = False

    @property
    def takes_all(self) -> bool:
        """True when no event can fail this filter."""
        return self.event_types is None and not self.subject_begins_with and not self.subject_ends_with


TAKE_ALL = Filter()


def takes_type(filter: Filter, event_type: str) -> bool:
    """Whether the event type alone lets an event pass; types compare without case (spec: undocumented)."""
    if filter.event_types is None:
        return True
    wanted = event_type.casefold()
    return any(name.casefold() == wanted for name in filter.event_types)


def takes_subject(filter: Filter, subject: str) -> bool:
    """Whether the subject alone lets an event pass."""
    begins, ends = filter.subject_begins_with, filter.subject_ends_with
    if not filter.subject_case_sensitive:
        subject, begins, ends = subject.casefold(), begins.casefold(), ends.casefold()
    return subject.startswith(begins) and subject.endswith(ends)


def matches(filter: Filter, event_type: str, subject: str) -> bool:
    """Whether one event passes the whole filter."""
    return takes_type(filter, event_type) and takes_subject(filter, subject)


def select(filter: Filter, segment: Segment) -> Sequence[int]:
    """The indexes of the events that pass, ascending. Each distinct type and subject is judged once."""
    everything = range(len(segment))
    if filter.takes_all:
        return everything
    types = {n for n, name in enumerate(segment.types) if takes_type(filter, name)}
    if not types:
        return ()
    if not filter.subject_begins_with and not filter.subject_ends_with:
        if len(types) == len(segment.types):
            return everything
        return [i for i, n in enumerate(segment.type_of) if n in types]
    subjects = {name for name in set(segment.subjects) if takes_subject(filter, name)}
    return [
        i
        for i, (n, subject) in enumerate(zip(segment.type_of, segment.subjects, strict=True))
        if n in types and subject in subjects
    ]
