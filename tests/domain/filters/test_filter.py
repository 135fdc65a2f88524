"""Filters: event types and subjects, with and without case, and matching a segment at once."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recapito.domain.events.segment import Publish, Segment, StampedEvent, pack
from recapito.domain.filters.filter import TAKE_ALL, TAKE_NONE, Filter
from recapito.domain.filters.matcher import matches, select

BLOBS = "/blobServices/default/containers/Photos/blobs/a.JPG"


def segment(events: list[tuple[str, str]]) -> Segment:
    stamped = [StampedEvent(b"{}", type, subject, "") for type, subject in events]
    return Segment(*pack([Publish(0, stamped)]))


@pytest.mark.parametrize(
    ("filter", "event_type", "subject", "taken"),
    [
        (TAKE_ALL, "any", "any", True),
        (Filter(event_types=("Orders.Placed",)), "Orders.Placed", "", True),
        (Filter(event_types=("Orders.Placed",)), "orders.placed", "", True),
        (Filter(event_types=("Orders.Placed",)), "Orders.Placed.Late", "", False),
        (Filter(event_types=("a", "b")), "b", "", True),
        (TAKE_NONE, "a", "", False),
        (Filter(subject_begins_with="/blobservices/"), "t", BLOBS, True),
        (Filter(subject_begins_with="/blobservices/", subject_case_sensitive=True), "t", BLOBS, False),
        (Filter(subject_begins_with="/blobServices/", subject_case_sensitive=True), "t", BLOBS, True),
        (Filter(subject_ends_with=".jpg"), "t", BLOBS, True),
        (Filter(subject_ends_with=".jpg", subject_case_sensitive=True), "t", BLOBS, False),
        (Filter(subject_ends_with=".JPG", subject_case_sensitive=True), "t", BLOBS, True),
        (Filter(subject_begins_with="/blob", subject_ends_with=".png"), "t", BLOBS, False),
        (Filter(subject_begins_with="*"), "t", BLOBS, False),
        (Filter(event_types=("t",), subject_begins_with="/x"), "t", BLOBS, False),
        (Filter(event_types=("T",), subject_case_sensitive=True), "t", BLOBS, True),
    ],
)
def test_one_event(filter: Filter, event_type: str, subject: str, taken: bool) -> None:
    """All parts must hold; subjects compare without case unless asked, types always; nothing is a wildcard."""
    assert matches(filter, event_type, subject, b"{}") is taken
    assert list(select(filter, segment([(event_type, subject)])).chosen) == ([0] if taken else [])


@pytest.mark.parametrize(
    ("filter", "taken"),
    [
        (Filter(event_types=("A",)), [0, 2]),
        (Filter(event_types=("a", "b")), [0, 1, 2]),
        (Filter(event_types=("c",)), []),
        (Filter(subject_begins_with="/x"), [0, 1]),
        (Filter(event_types=("a",), subject_begins_with="/x"), [0]),
    ],
)
def test_a_segment(filter: Filter, taken: list[int]) -> None:
    """Of a segment with several types and subjects the events that pass are taken, in their order."""
    assert list(select(filter, segment([("a", "/x/1"), ("b", "/x/2"), ("a", "/y/1")])).chosen) == taken


@pytest.mark.parametrize(
    ("filter", "taken"),
    [
        (Filter(domain_topic="north"), [0, 2]),
        (Filter(domain_topic="SOUTH"), [1]),
        (Filter(domain_topic="west"), []),
        (Filter(domain_topic="north", event_types=("b",)), [2]),
        (Filter(event_types=("b",)), [1, 2]),
    ],
)
def test_a_domain(filter: Filter, taken: list[int]) -> None:
    """Of a domain's segment a domain topic's own events are taken, without regard to case."""
    names = [("a", "north"), ("b", "south"), ("b", "North")]
    events = [StampedEvent(b"{}", type, "", "", name) for type, name in names]
    assert list(select(filter, Segment(*pack([Publish(0, events)]))).chosen) == taken
    assert [i for i, (type, name) in enumerate(names) if matches(filter, type, "", b"{}", name)] == taken


def test_a_domain_topic_of_no_domain() -> None:
    """A topic that is no domain has no events of a domain topic."""
    assert list(select(Filter(domain_topic="north"), segment([("a", "")])).chosen) == []
    assert not matches(Filter(domain_topic="north"), "a", "", b"{}")


wake_keys = st.text("aAbBßé/.", max_size=4)
filters = st.builds(
    Filter,
    event_types=st.none() | st.lists(wake_keys, max_size=3).map(tuple),
    subject_begins_with=wake_keys,
    subject_ends_with=wake_keys,
    subject_case_sensitive=st.booleans(),
)


@given(filters, st.lists(st.tuples(wake_keys, wake_keys), max_size=30))
def test_select_is_matches(filter: Filter, events: list[tuple[str, str]]) -> None:
    """A segment matched at once gives the events that match one by one, in their order."""
    one_by_one = [i for i, (type, subject) in enumerate(events) if matches(filter, type, subject, b"{}")]
    assert list(select(filter, segment(events)).chosen) == one_by_one


@given(filters, st.lists(st.tuples(wake_keys, wake_keys), min_size=1, max_size=5))
def test_takes_all(filter: Filter, events: list[tuple[str, str]]) -> None:
    """A filter that says it takes all does."""
    if filter.takes_all:
        assert all(matches(filter, type, subject, b"{}") for type, subject in events)


def test_equal_filters_are_one_key() -> None:
    """Subscriptions that filter alike share one match of a segment."""
    assert len({Filter(event_types=("a",)), Filter(event_types=("a",)), Filter(event_types=("b",))}) == 2
