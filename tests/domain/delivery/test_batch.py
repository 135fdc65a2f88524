"""Batches: the two limits, never waiting, and the single event that is too large."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recapito.domain.delivery.batch import fill
from recapito.domain.limits import KB
from recapito.domain.resources.subscription import Batching


def events(sizes: list[int]) -> list[bytes]:
    """JSON strings of exactly these many bytes."""
    return [b'"' + b"x" * (size - 2) + b'"' for size in sizes]


def body(bodies: list[bytes]) -> bytes:
    """The request body as it is sent."""
    return b"[" + b",".join(bodies) + b"]"


sizes_of_events = st.lists(st.integers(2, 60), min_size=1, max_size=40)
event_limits = st.integers(1, 45)
byte_limits = st.integers(1, 400)


def near_a_body(sizes: list[int]) -> st.SearchStrategy[int]:
    """Byte limits within one byte of what some of the first events really take: where mistakes would lie."""
    bodies = [len(body(events(sizes[:n]))) for n in range(1, len(sizes) + 1)]
    return st.builds(int.__add__, st.sampled_from(bodies), st.sampled_from([-1, 0, 1])) | byte_limits


@given(sizes_of_events, event_limits, st.data())
def test_limits(sizes: list[int], event_limit: int, data: st.DataObject) -> None:
    """A batch is never over the event limit, over the byte limit only as a single event, and as large as it may be."""
    byte_limit = data.draw(near_a_body(sizes))
    bodies = events(sizes)
    count = fill(sizes, event_limit, byte_limit)
    assert 1 <= count <= min(event_limit, len(sizes))
    assert len(body(bodies[:count])) <= byte_limit or count == 1
    if count < min(event_limit, len(sizes)):
        assert len(body(bodies[: count + 1])) > byte_limit


def test_a_10_kb_event_with_4_kb_preferred() -> None:
    """Event Grid's example: with 4 KB preferred an event of 10 KB is delivered, in a batch of its own."""
    batching = Batching(max_events=100, preferred_kilobytes=4)
    sizes = [1 * KB, 10 * KB, 1 * KB, 1 * KB]
    batches = []
    while sizes:
        count = fill(sizes, batching.event_limit, batching.byte_limit)
        batches.append(sizes[:count])
        sizes = sizes[count:]
    assert batches == [[1 * KB], [10 * KB], [1 * KB, 1 * KB]]


@pytest.mark.parametrize(("spare", "count"), [(0, 2), (-1, 1)])
def test_a_kilobyte_is_1024_bytes_of_body(spare: int, count: int) -> None:
    """The limit counts the whole body: two events, a comma and two brackets may fill it to the last byte."""
    sizes = [500, 1 * KB - 503]
    assert fill(sizes, 10, 1 * KB + spare) == count


def test_nothing_to_send() -> None:
    """Of no events none are taken."""
    assert fill([], 10, 100) == 0


@pytest.mark.parametrize(
    ("batching", "on", "event_limit", "byte_limit"),
    [
        (Batching(), False, 1, 64 * KB),
        (Batching(max_events=7), True, 7, 64 * KB),
        (Batching(preferred_kilobytes=512), True, 5000, 512 * KB),
        (Batching(max_events=1, preferred_kilobytes=64), False, 1, 64 * KB),
        (Batching(max_events=5000, preferred_kilobytes=1024), True, 5000, 1024 * KB),
    ],
)
def test_batching_settings(batching: Batching, on: bool, event_limit: int, byte_limit: int) -> None:
    """Batching is off unless one setting asks for it; then the other is 5000 events or 64 KB."""
    assert batching.on == on
    assert batching.event_limit == event_limit
    assert batching.byte_limit == byte_limit
