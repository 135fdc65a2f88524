"""Loads whose events share their headers: as few as the limits allow, and no event is starved, lost or taken twice."""

import json
from collections import Counter
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from recapito.contracts.log import Entry, EntryKind
from recapito.dispatch.lane.delivery_format import DeliveryFormat
from recapito.dispatch.lane.due_queue import DueQueue
from recapito.dispatch.lane.header_groups import HeaderGroup
from recapito.dispatch.lane.in_flight import PendingBatch
from recapito.dispatch.lane.log_reader import BatchTerms, LogReader, terms_at, unlimited_terms
from recapito.domain import limits
from recapito.domain.delivery.attributes import Attributes, Values
from recapito.domain.delivery.batch import fill
from recapito.domain.delivery.cursor import Cursor, LogPosition, Range
from recapito.domain.delivery.delivery import Delivery, DeliveryId, Parked
from recapito.domain.events.schema import InputSchema
from recapito.domain.events.segment import Publish, StampedEvent, pack
from recapito.domain.filters.filter import TAKE_ALL, Filter
from recapito.domain.resources.subscription import Batching, DynamicAttribute, Subscription
from recapito.observability.journal import silent
from tests.dispatch.shelf import TOPIC, Shelf
from tests.kit.resources import a_subscription

# An event of these logs: its type, the value of its header, and how much longer than the shortest it is.
Drawn = tuple[str, str, int]


def stored(kind: str, value: str, more: int) -> bytes:
    text = json.dumps({"id": "1", "eventType": kind, "data": {"to": value, "more": "x" * more}})
    return text.encode()


def log_of(publishes: list[list[Drawn]], times: list[int] | None = None) -> list[Entry]:
    """A segment for each publish; if their times do not grow, a person has set the clock back."""
    entries = []
    for n, events in enumerate(publishes):
        stamped = [StampedEvent(stored(*event), event[0], "", "") for event in events]
        entries.append(Entry(n + 1, EntryKind.SEGMENT, *pack([Publish(times[n] if times else 1, stamped)])))
    return entries


def subscription(batching: Batching, filter: Filter = TAKE_ALL) -> Subscription:
    return a_subscription(
        topic=TOPIC, batching=batching, attributes=(DynamicAttribute("X-To", "data.to"),), filter=filter
    )


def present(wanted: Subscription) -> DeliveryFormat:
    return DeliveryFormat(wanted, InputSchema.EVENT_GRID, silent)


def value_of(delivery: Delivery) -> str:
    return str(json.loads(delivery.body)["data"]["to"])


def take_all(reader: LogReader, wanted: Subscription, end: int, terms: BatchTerms) -> list[PendingBatch]:
    """All loads that there are, one after the other."""
    pendings = []
    while (pending := reader.take(wanted, end, terms)) is not None:
        pendings.append(pending)
    return pendings


def alternating(number: int, values: int) -> list[Drawn]:
    return [("A", f"v{n % values}", 0) for n in range(number)]


@pytest.mark.parametrize("publishes", [1, 5, 30])
def test_thirty_events_with_two_values_make_two_requests(publishes: int) -> None:
    """However they were published."""
    events, each = alternating(30, 2), 30 // publishes
    log = log_of([events[n : n + each] for n in range(0, 30, each)])
    wanted = subscription(Batching(max_events=100))
    terms = terms_at(0, wanted, present(wanted), limits.PARKED_SLICE)
    pendings = take_all(LogReader(Shelf(log), Cursor((1, 0))), wanted, publishes, terms)
    assert [pending.events for pending in pendings] == [15, 15]
    assert [[header.value for header in pending.headers] for pending in pendings] == [["v0"], ["v1"]]


def test_thirty_parked_events_with_two_values_make_two_requests() -> None:
    """The first that is due is in the first request."""
    wanted = subscription(Batching(max_events=100))
    due_queue = DueQueue(None)
    due_queue.queue(
        Parked(n, Delivery(DeliveryId(n, 0), 0, stored(*event))) for n, event in enumerate(alternating(30, 2))
    )
    taken = [due_queue.take(100, 10**6, present(wanted)) for _ in range(2)]
    assert [[value_of(row.delivery) for row in rows] for rows, _ in taken] == [["v0"] * 15, ["v1"] * 15]
    assert [[header.value for header in headers] for _, headers in taken] == [["v0"], ["v1"]]
    assert (len(due_queue), due_queue.size) == (0, 0)


def test_a_parked_event_that_goes_alone_parts_no_others() -> None:
    """It stays in the queue for a request of its own, and those before and after it share one."""
    wanted = subscription(Batching(max_events=100))
    due_queue = DueQueue(None)
    attempts = (0, limits.ATTEMPTS_IN_COMPANY, 0)
    due_queue.queue(
        Parked(n, Delivery(DeliveryId(n, 0), 0, stored("A", "v", 0), attempts=tried))
        for n, tried in enumerate(attempts)
    )
    taken = [due_queue.take(100, 10**6, present(wanted))[0] for _ in range(2)]
    assert [[row.due_at for row in rows] for rows in taken] == [[0, 2], [1]]


publishes_drawn = st.lists(
    st.lists(st.tuples(st.sampled_from("AAB"), st.sampled_from("abc"), st.integers(0, 200)), min_size=1, max_size=8),
    min_size=1,
    max_size=8,
)


@settings(max_examples=300)
@given(
    publishes=publishes_drawn,
    max_events=st.integers(1, 9),
    kilobytes=st.sampled_from([1, 64]),
    times=st.lists(st.integers(1, 4), min_size=8, max_size=8),
    expired_at=st.integers(0, 3),
    finished=st.lists(st.tuples(st.integers(1, 8), st.integers(0, 7)), max_size=4),
    filter=st.sampled_from([TAKE_ALL, Filter(event_types=("A",))]),
)
def test_every_load_keeps_the_laws(
    publishes: list[list[Drawn]],
    max_events: int,
    kilobytes: int,
    times: list[int],
    expired_at: int,
    finished: list[LogPosition],
    filter: Filter,
) -> None:
    """Each matching event that is not finished is in one load, the first of them in the next, and the books are exact.

    A load has one set of headers and only living or only expired events, and there are as few loads of each value as
    its events fill batches.
    """
    end = len(publishes)
    wanted = subscription(Batching(max_events, kilobytes), filter)
    cursor = Cursor((1, 0)).finish_all(_single(publishes, finished))
    matching = {
        DeliveryId(p, i): (value, len(stored(kind, value, more)))
        for p, events in enumerate(publishes, 1)
        for i, (kind, value, more) in enumerate(events)
        if (filter is TAKE_ALL or kind == "A") and not _is_finished(cursor, (p, i))
    }
    total = sum(not _is_finished(cursor, (p, i)) for p, row in enumerate(publishes, 1) for i in range(len(row)))
    terms = BatchTerms(
        wanted.batching.event_limit, wanted.batching.byte_limit, expired_at, attributes=present(wanted).attributes
    )
    reader = LogReader(Shelf(log_of(publishes, times)), cursor)
    waiting, passed, batches = sorted(matching), 0, Counter[str]()
    while (pending := reader.take(wanted, end, terms)) is not None:
        taken = [delivery.identity for delivery in pending.deliveries()]
        cursor = cursor.finish_all(pending.ranges)
        assert all(_is_finished(cursor, identity) for identity in taken)
        assert len({value_of(delivery) for delivery in pending.deliveries()} if not pending.expired else {1}) <= 1
        assert all((times[identity.position - 1] <= expired_at) is pending.expired for identity in taken)
        assert not taken or taken[0] == waiting[0]
        assert taken == sorted(taken) and pending.events == len(taken)
        waiting = [identity for identity in waiting if identity not in taken]
        assert not any(_is_finished(cursor, identity) for identity in waiting)
        passed += pending.events + pending.unmatched
        if taken and not pending.expired:
            (header,) = pending.headers
            assert header.value == matching[taken[0]][0]
            batches[header.value] += 1
    assert not waiting and passed == total
    assert cursor.low >= (end + 1, 0) and not cursor.finished and reader.caught_up(wanted, end)
    for value in "abc":
        living = [(identity, size) for identity, (of, size) in sorted(matching.items()) if of == value]
        sizes = [size for identity, size in living if times[identity.position - 1] > expired_at]
        assert batches[value] == _fewest(sizes, terms)


def _single(publishes: list[list[Drawn]], places: list[LogPosition]) -> list[Range]:
    """The ranges of these events, as far as there are such."""
    there = sorted({(p, i) for p, i in places if p <= len(publishes) and i < len(publishes[p - 1])})
    return [((p, i), (p, i + 1) if i + 1 < len(publishes[p - 1]) else (p + 1, 0)) for p, i in there]


def _is_finished(cursor: Cursor, place: LogPosition) -> bool:
    return place < cursor.low or any(start <= place < end for start, end in cursor.finished)


def _fewest(sizes: list[int], terms: BatchTerms) -> int:
    """How many batches events of these sizes fill, in their order."""
    for batches in count():
        if not sizes:
            return batches
        sizes = sizes[fill(sizes, terms.event_limit, terms.byte_limit) :]
    raise AssertionError


@given(publishes=publishes_drawn, max_events=st.integers(1, 20), kilobytes=st.sampled_from([1, 64]))
def test_retries_keep_the_laws(publishes: list[list[Drawn]], max_events: int, kilobytes: int) -> None:
    """The same of what is parked."""
    wanted = subscription(Batching(max_events, kilobytes))
    rows = [
        Parked(0, Delivery(DeliveryId(p, i), 0, stored(*event)))
        for p, events in enumerate(publishes, 1)
        for i, event in enumerate(events)
    ]
    due_queue, shown, batches, waiting = DueQueue(None), present(wanted), Counter[str](), list(rows)
    due_queue.queue(rows)
    while len(due_queue):
        taken, headers = due_queue.take(wanted.batching.event_limit, wanted.batching.byte_limit, shown)
        assert taken[0] is waiting[0]
        assert {value_of(row.delivery) for row in taken} == {headers[0].value}
        waiting = [row for row in waiting if row not in taken]
        assert due_queue.size == sum(len(row.delivery.body) for row in waiting)
        batches[headers[0].value] += 1
    assert not waiting
    terms = BatchTerms(wanted.batching.event_limit, wanted.batching.byte_limit, 0)
    for value in "abc":
        sizes = [len(row.delivery.body) for row in rows if value_of(row.delivery) == value]
        assert batches[value] == _fewest(sizes, terms)


@pytest.mark.parametrize("values", [2, 3, 50, 10**6])
def test_the_cursor_stays_small(values: int) -> None:
    """Whatever is answered and whatever is not, a cursor never has more ranges than the limit."""
    log = log_of([alternating(2500, values) for _ in range(8)])
    wanted = subscription(Batching(max_events=5000, preferred_kilobytes=1024))
    terms = terms_at(0, wanted, present(wanted), limits.PARKED_SLICE)
    under_way: list[PendingBatch] = []
    reader = LogReader(Shelf(log), Cursor((1, 0)), lambda: sum(len(pending.ranges) for pending in under_way))
    cursor, most = Cursor((1, 0)), 0
    for n in range(600):
        pending = reader.take(wanted, len(log), terms)
        if pending is None:
            break
        assert len(pending.ranges) <= limits.LOAD_RANGES
        under_way.append(pending)
        if n % 2 or len(under_way) > limits.WINDOW_REQUESTS:
            cursor = cursor.finish_all(under_way.pop(-1 if n % 3 else len(under_way) // 2).ranges)
        most = max(most, len(cursor.finished))
    assert most <= limits.SCATTERED_RANGES


def test_two_values_make_whole_loads_as_long_as_the_look_ahead_reaches() -> None:
    """Of two values that alternate forever, each load has as many events as it may have ranges."""
    log = log_of([alternating(4000, 2)])
    wanted = subscription(Batching(max_events=5000))
    terms = terms_at(0, wanted, present(wanted), limits.PARKED_SLICE)
    pendings = take_all(LogReader(Shelf(log), Cursor((1, 0))), wanted, 1, terms)
    assert {pending.events for pending in pendings[:10]} == {limits.LOAD_RANGES}


def test_a_load_looks_ahead_no_farther_than_the_limit() -> None:
    """A lone event does not make a lane read on and on for another with its headers."""
    log = log_of([[("A", "rare", 0), *alternating(1000, 1)] for _ in range(2)])
    wanted = subscription(Batching(max_events=5000, preferred_kilobytes=1024))
    terms = terms_at(0, wanted, present(wanted), limits.PARKED_SLICE)
    reader = LogReader(Shelf(log), Cursor((1, 0)))
    first, second = (reader.take(wanted, 2, terms) for _ in range(2))
    assert first is not None and (first.events, first.ranges) == (1, [((1, 0), (1, 1))])
    assert second is not None and second.events == 2000


def test_what_is_left_is_dropped_with_its_subscription() -> None:
    """Batches that are never sent take the events that were left, once each."""
    wanted = subscription(Batching(max_events=100))
    reader = LogReader(Shelf(log_of([alternating(30, 3)])), Cursor((1, 0)))
    first = reader.take(wanted, 1, terms_at(0, wanted, present(wanted), limits.PARKED_SLICE))
    rest = take_all(reader, wanted, 1, unlimited_terms(1000))
    assert first is not None and (first.events, sum(pending.events for pending in rest)) == (10, 20)
    seen = [delivery.identity for pending in (first, *rest) for delivery in pending.deliveries()]
    assert len(set(seen)) == 30


@pytest.mark.parametrize("parked", [False, True])
def test_headers_that_change_regroup_what_is_left(parked: bool) -> None:
    """Events left because their header differed go together if the new header does not differ."""
    events = alternating(30, 3)
    wanted = subscription(Batching(max_events=100))
    changed = replace(wanted, attributes=(DynamicAttribute("X-Type", "EventType"),))
    reader, due_queue = LogReader(Shelf(log_of([events])), Cursor((1, 0))), DueQueue(None)
    due_queue.queue(Parked(0, Delivery(DeliveryId(1, n), 0, stored(*event))) for n, event in enumerate(events))
    for form, number in ((wanted, 10), (changed, 20)):
        if parked:
            assert len(due_queue.take(100, 10**6, present(form))[0]) == number
        else:
            pending = reader.take(form, 1, terms_at(0, form, present(form), limits.PARKED_SLICE))
            assert pending is not None and pending.events == number


def test_what_is_remembered_is_bounded() -> None:
    """Events that are left and never compared again, because they expired, are forgotten."""
    header_group, attributes = HeaderGroup(), present(subscription(Batching())).attributes
    assert attributes is not None
    for position in range(100):
        header_group.begin(attributes)
        assert header_group.alike((position, 0), stored("A", "first", 0))
        for n in range(1, 50):
            assert not header_group.alike((position, n), stored("A", f"other-{n}", 0))
        assert len(header_group) <= limits.LOOK_AHEAD_EVENTS + 50


def test_a_value_whose_events_are_all_taken_is_not_searched_for() -> None:
    """An event that was left and then taken no longer counts as one that a later batch may find."""
    header_group, attributes = HeaderGroup(), present(subscription(Batching())).attributes
    assert attributes is not None
    header_group.begin(attributes)
    assert header_group.alike((1, 0), stored("A", "first", 0))
    assert not header_group.alike((1, 1), stored("A", "rare", 0))
    for n in range(2, limits.LOOK_AHEAD_EVENTS // 2 + 2):
        assert not header_group.alike((1, n), stored("A", f"other-{n}", 0))
    header_group.begin(attributes)
    assert header_group.alike((1, 1), stored("A", "rare", 0))
    assert header_group.hopeless


def test_events_that_are_all_different_are_looked_at_a_few_times() -> None:
    """A lane whose every event has a header of its own does not look at all that waits for each request."""
    log = log_of([alternating(2000, 10**6)])
    wanted = subscription(Batching(max_events=100))
    shown = present(wanted)
    attributes = shown.attributes = CountingAttributes(wanted.attributes, InputSchema.EVENT_GRID, print)
    reader = LogReader(Shelf(log), Cursor((1, 0)))
    assert len(take_all(reader, wanted, 1, terms_at(0, wanted, shown, limits.PARKED_SLICE))) == 2000
    assert attributes.looks <= 2 * 2000


class CountingAttributes(Attributes):
    """Counts how often an event is parsed."""

    looks = 0

    def values(self, stored: bytes) -> Values:
        self.looks += 1
        return super().values(stored)
