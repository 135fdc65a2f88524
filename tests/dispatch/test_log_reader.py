"""Cutting loads from the log: limits, gaps, and events that are larger than a batch should be."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from recapito.contracts.log import Entry, EntryKind
from recapito.dispatch.feed.tail_index import TailIndex
from recapito.dispatch.lane.delivery_format import DeliveryFormat
from recapito.dispatch.lane.log_reader import BatchTerms, LogReader
from recapito.domain.delivery.cursor import Cursor, Range
from recapito.domain.events.schema import InputSchema
from recapito.domain.events.segment import Publish, StampedEvent, pack
from recapito.domain.filters.condition import Condition, Operator
from recapito.domain.filters.filter import TAKE_ALL, Filter
from recapito.domain.resources.subscription import FilterSince, Subscription
from recapito.observability.journal import silent
from tests.dispatch.shelf import TOPIC, Shelf, entry
from tests.kit.resources import a_subscription

AT_START = Cursor((1, 0))


def subscription(filter: Filter) -> Subscription:
    """A subscription with this filter."""
    return a_subscription(topic=TOPIC, filter=filter)


PLAIN = DeliveryFormat(subscription(Filter()), InputSchema.EVENT_GRID, silent)


def pendings(
    entries: list[Entry], terms: BatchTerms, filter: Filter | None = None, cursor: Cursor | None = None
) -> list[int]:
    """How many events each load takes, with the bytes of its request checked on the way."""
    reader = LogReader(Shelf(entries), cursor or Cursor((1, 0)))
    counts = []
    while (taken := reader.take(subscription(filter or Filter()), len(entries), terms)) is not None:
        if taken.events:
            body = taken.batch(PLAIN, "origin").body
            assert taken.events <= terms.event_limit
            assert len(body) <= terms.byte_limit or taken.events == 1
            counts.append(taken.events)
    return counts


def test_an_event_that_is_too_large_goes_alone() -> None:
    """Neither its neighbours nor those of the next segment go with it."""
    entries = [entry(1, [3000]), entry(2, [10, 10]), entry(3, [5000, 10])]
    assert pendings(entries, BatchTerms(100, 1024, -1)) == [1, 2, 1, 1]


@pytest.mark.parametrize(("byte_limit", "counts"), [(34, [3]), (33, [2, 1])])
def test_a_batch_may_be_as_large_as_its_limit(byte_limit: int, counts: list[int]) -> None:
    """Three events of ten bytes with brackets and commas are 34 bytes."""
    assert pendings([entry(1, [10, 10, 10])], BatchTerms(100, byte_limit, -1)) == counts


def test_batches_reach_over_segments() -> None:
    """The events that are there are sent together, wherever they lie."""
    assert pendings([entry(n, [10]) for n in range(1, 8)], BatchTerms(5, 1024, -1)) == [5, 2]


def test_finished_ranges_are_jumped_over() -> None:
    """A range that an earlier life has finished is not taken again."""
    cursor = Cursor((1, 1), (((1, 2), (2, 1)), ((3, 0), (4, 0))))
    entries = [entry(1, [1, 2, 3]), entry(2, [4, 5]), entry(3, [6]), entry(4, [7])]
    assert sum(pendings(entries, BatchTerms(100, 1024, -1), cursor=cursor)) == 3


@given(
    sizes=st.lists(st.lists(st.integers(1, 400), min_size=1, max_size=6), min_size=1, max_size=6),
    event_limit=st.integers(1, 8),
    byte_limit=st.integers(20, 800),
    every=st.integers(1, 3),
)
def test_limits_hold_and_nothing_is_left_out(
    sizes: list[list[int]], event_limit: int, byte_limit: int, every: int
) -> None:
    """Whatever the sizes and the filter, loads keep their limits and take every event that matches, once."""
    types = [["A" if n % every == 0 else "B" for n in range(len(row))] for row in sizes]
    entries = [entry(n + 1, row, kinds) for n, (row, kinds) in enumerate(zip(sizes, types, strict=True))]
    matching = sum(kind == "A" for kinds in types for kind in kinds)
    assert sum(pendings(entries, BatchTerms(event_limit, byte_limit, -1), Filter(event_types=("A",)))) == matching


@pytest.mark.parametrize("event_limit", [1, 2, 7])
def test_spans_touch(event_limit: int) -> None:
    """Each load begins where the one before it ended, so that a cursor has no holes."""
    entries = [entry(1, [5, 5, 5]), entry(2, [5]), entry(3, [5, 5])]
    reader = LogReader(Shelf(entries), Cursor((1, 0)))
    spans: list[Range] = []
    while (taken := reader.take(subscription(Filter()), 3, BatchTerms(event_limit, 1024, -1))) is not None:
        spans += taken.ranges
    assert (spans[0][0], spans[-1][1]) == ((1, 0), (4, 0))
    assert all(a[1] == b[0] for a, b in pairwise(spans))


@given(
    types=st.lists(st.lists(st.sampled_from("ABC"), min_size=1, max_size=3), min_size=1, max_size=12),
    known_from=st.integers(1, 6),
    changed_at=st.integers(0, 12),
    finished=st.none() | st.integers(2, 6),
    event_limit=st.integers(1, 3),
)
def test_passing_over_is_reading(
    types: list[list[str]], known_from: int, changed_at: int, finished: int | None, event_limit: int
) -> None:
    """A reader that passes over what the tail knows takes what one that reads everything takes, and counts the same."""
    entries = [entry(n + 1, [5] * len(row), row) for n, row in enumerate(types)]
    filters = (FilterSince(0, Filter(event_types=("B",))), FilterSince(changed_at, Filter(event_types=("c",))))
    changing = replace(subscription(TAKE_ALL), filters=filters)
    cursor = Cursor((1, 0)) if finished is None else Cursor((1, 0), (((finished, 0), (finished + 1, 0)),))

    def read(shelf: Shelf) -> tuple[list[tuple[int, int]], int]:
        reader = LogReader(shelf, cursor)
        identities: list[tuple[int, int]] = []
        unmatched = 0
        while (taken := reader.take(changing, len(entries), BatchTerms(event_limit, 1024, -1))) is not None:
            identities += [delivery.identity for delivery in taken.deliveries()]
            unmatched += taken.unmatched
        assert reader.caught_up(changing, len(entries))
        return identities, unmatched

    knowing = Shelf(entries)
    tail = knowing.tail = TailIndex()
    tail.restart(known_from)
    for row in types[known_from - 1 :]:
        tail.add([f"type {name.casefold()}" for name in dict.fromkeys(row)], len(row))
    assert read(knowing) == read(Shelf(entries))


def numbered(position: int, types: str) -> Entry:
    """A segment with events of these types, numbered; the first letter of a subject is the type."""
    events = [StampedEvent(b'{"data":{"n":%d}}' % n, kind, f"{kind}/{n}", "") for n, kind in enumerate(types)]
    return Entry(position, EntryKind.SEGMENT, *pack([Publish(0, events)]))


@pytest.mark.parametrize("event_limit", [1, 2, 50])
@pytest.mark.parametrize("under", [0, 1, 2, 9])
def test_conditions_are_counted_where_they_looked(event_limit: int, under: int) -> None:
    """Each event whose type and subject pass counts once, however loads are cut; without conditions none does."""
    entries = [numbered(1, "ABAB"), numbered(2, "BB"), numbered(3, "AAA")]
    conditions = (Condition(Operator.NUMBER_LESS_THAN, "data.n", (under,)),)

    def evaluated(filter: Filter, cursor: Cursor = AT_START) -> int:
        reader, count = LogReader(Shelf(entries), cursor), 0
        while (taken := reader.take(subscription(filter), 3, BatchTerms(event_limit, 1024, -1))) is not None:
            assert taken.evaluated >= (taken.events if filter.conditions else 0)
            count += taken.evaluated
        return count

    assert evaluated(Filter(conditions=conditions)) == 9
    assert evaluated(Filter(event_types=("A",), conditions=conditions)) == 5
    assert evaluated(Filter(subject_begins_with="B", conditions=conditions)) == 4
    assert evaluated(Filter(conditions=conditions), Cursor((1, 2), (((3, 0), (3, 2)),))) == 5
    assert evaluated(Filter(event_types=("A",))) == evaluated(Filter()) == 0


def test_what_the_tail_judged_was_looked_at() -> None:
    """A filter that the tail has to judge looked at what is passed over; one that goes by types did not."""
    conditions = (Condition(Operator.NUMBER_LESS_THAN, "data.n", (0,)),)
    judging, by_type = Filter(conditions=conditions), Filter(event_types=("B",), conditions=conditions)
    shelf = Shelf([])
    tail = shelf.tail = TailIndex()
    tail.watch(judging)
    for events in (1, 40, 2):
        tail.add(["type a"], events)
    for filter, evaluated in ((judging, 43), (by_type, 0)):
        taken = LogReader(shelf, AT_START).take(subscription(filter), 3, BatchTerms(10, 1024, -1))
        assert taken is not None and (taken.unmatched, taken.evaluated) == (43, evaluated)


def test_what_is_passed_over_is_not_read() -> None:
    """A reader needs no segment of which the tail knows that nothing in it matches."""
    shelf = Shelf([entry(1, [5]), entry(3, [5], ["B"])])
    tail = shelf.tail = TailIndex()
    for wake_keys, events in ((["type a"], 1), (["type a", "type c"], 40), (["type b"], 1), (["type a"], 2)):
        tail.add(list(wake_keys), events)
    reader = LogReader(shelf, Cursor((1, 0)))
    wanting = subscription(Filter(event_types=("B",)))
    assert reader.next_position(wanting, 4) == 3
    taken = reader.take(wanting, 4, BatchTerms(10, 1024, -1))
    assert taken is not None
    assert (taken.events, taken.unmatched, taken.ranges) == (1, 43, [((1, 0), (5, 0))])
    assert reader.wants is None


def passed(cursor: Cursor, events: int, slice: int) -> list[tuple[object, int]]:
    """The spans in which a reader passes a damaged entry of N events, and the number of events of each."""
    damaged = Entry(1, EntryKind.DAMAGED, b"", b"", events)
    reader = LogReader(Shelf([damaged, entry(2, [1])]), cursor)
    spans: list[tuple[object, int]] = []
    while (pending := reader.take(subscription(Filter()), 2, BatchTerms(10, 1024, -1, slice=slice))) is not None:
        if not pending.events:
            spans.append((*pending.ranges, pending.damaged))
    assert reader.place == (3, 0)
    return spans


@pytest.mark.parametrize(
    ("cursor", "events", "slice", "spans"),
    [
        (AT_START, 5, 9, [(((1, 0), (2, 0)), 5)]),
        (AT_START, 0, 9, [(((1, 0), (2, 0)), 0)]),
        (AT_START, 5, 2, [(((1, 0), (1, 2)), 2), (((1, 2), (1, 4)), 2), (((1, 4), (2, 0)), 1)]),
        (Cursor((1, 3)), 5, 9, [(((1, 3), (2, 0)), 2)]),
        (Cursor((1, 3)), 1, 9, [(((1, 3), (2, 0)), 0)]),
        (Cursor((1, 0), (((1, 1), (1, 3)),)), 5, 9, [(((1, 0), (1, 1)), 1), (((1, 3), (2, 0)), 2)]),
        (Cursor((1, 0), (((1, 4), (2, 0)),)), 5, 9, [(((1, 0), (1, 4)), 4)]),
    ],
)
def test_a_damaged_entry_is_passed(
    cursor: Cursor, events: int, slice: int, spans: list[tuple[tuple[object, object], int]]
) -> None:
    """Each of its events that was not finished before is counted, in slices; then the reader goes on."""
    assert passed(cursor, events, slice) == spans


def test_a_damaged_entry_goes_with_no_other() -> None:
    """The events before it go out first, and it is in no batch."""
    entries = [entry(1, [1, 1]), Entry(2, EntryKind.DAMAGED, b"", b"", 3), entry(3, [1])]
    assert pendings(entries, BatchTerms(100, 1024, -1)) == [2, 1]
