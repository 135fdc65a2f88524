"""Cursors: finished ranges, in whatever order they finish, grow into one low mark."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recapito.domain.delivery.cursor import Cursor, LogPosition, Range

PLACES: list[LogPosition] = [(position, index) for position in range(1, 7) for index in range(10)]


@st.composite
def partitions(draw: st.DrawFn) -> list[Range]:
    """The ranges between some places: each starts where the one before ends."""
    cuts = sorted(draw(st.sets(st.sampled_from(PLACES), min_size=2, max_size=12)))
    return list(pairwise(cuts))


def check(cursor: Cursor, finished: list[Range]) -> None:
    """Ranges ascend and touch neither each other nor the low mark, and cover exactly what is finished."""
    assert all(start < end for start, end in cursor.finished)
    edges = [cursor.low, *(place for range in cursor.finished for place in range)]
    assert edges == sorted(set(edges))
    for start, end in finished:
        assert end <= cursor.low or any(a <= start and end <= b for a, b in cursor.finished)


@given(st.data(), partitions())
def test_any_order_ends_at_one_low_mark(data: st.DataObject, ranges: list[Range]) -> None:
    """Finishing all ranges of a stretch, in any order, leaves the low mark at its end and nothing above it."""
    cursor = Cursor(ranges[0][0])
    finished: list[Range] = []
    for range in data.draw(st.permutations(ranges)):
        cursor = cursor.finish(*range)
        finished.append(range)
        check(cursor, finished)
    assert cursor == Cursor(ranges[-1][1])


@given(st.data(), partitions())
def test_all_at_once_is_one_by_one(data: st.DataObject, ranges: list[Range]) -> None:
    """Finishing several ranges at once gives what finishing each gives."""
    some = data.draw(st.lists(st.sampled_from(ranges), unique=True))
    one_by_one = Cursor(ranges[0][0])
    for range in some:
        one_by_one = one_by_one.finish(*range)
    assert Cursor(ranges[0][0]).finish_all(some) == one_by_one


@given(st.data(), partitions())
def test_overlap_is_refused(data: st.DataObject, ranges: list[Range]) -> None:
    """A finished range cannot be finished again, not even in part."""
    done = data.draw(st.sampled_from(ranges))
    cursor = Cursor(ranges[0][0]).finish(*done)
    start = data.draw(st.sampled_from([place for place in PLACES if place < done[1]]))
    end = data.draw(st.sampled_from([place for place in PLACES if place > max(start, done[0])]))
    with pytest.raises(ValueError, match="finished"):
        cursor.finish(start, end)


@pytest.mark.parametrize(("start", "end"), [((2, 0), (2, 0)), ((3, 0), (2, 5)), ((1, 9), (2, 1)), ((1, 0), (1, 5))])
def test_empty_or_below(start: LogPosition, end: LogPosition) -> None:
    """A range that is empty, turned around or below the low mark is refused."""
    with pytest.raises(ValueError, match="empty"):
        Cursor((2, 0)).finish(start, end)
