"""How much is taken in: the rate of a topic, the expected wait of a publish, the shares of a volume."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recapito.domain import limits
from recapito.domain.capacity import (
    LARGE_COMMIT,
    LastCommit,
    Meter,
    Rate,
    Room,
    expected_wait,
    needed,
    share_of_requests,
    share_out,
)
from recapito.domain.instant import SECOND
from recapito.domain.limits import MB

START = 1_000 * SECOND
LARGE = LastCommit(1000, LARGE_COMMIT)
SIZES = [64, 100, 160, 512, 1024, 10_000, 1_000_000]


def test_without_a_rate_everything_passes() -> None:
    """0 is no limit."""
    meter = Meter()
    for _ in range(10):
        assert meter.wait(START) == 0
        meter = meter.spend(Rate(), 5000, 1 << 20, START)


def test_events_beyond_the_rate_wait() -> None:
    """After two seconds' worth at once, a topic that was idle waits for the second that it owes."""
    rate = Rate(events=100)
    meter = Meter().spend(rate, 200, 1, START)
    assert meter.wait(START) == SECOND
    assert meter.wait(START + SECOND - 1) == 1
    assert meter.wait(START + SECOND) == 0


def test_bytes_count_apart_from_events() -> None:
    """Whichever is exceeded makes the publisher wait."""
    meter = Meter().spend(Rate(events=1000, bytes=1000), 1, 3000, START)
    assert meter.wait(START) == 2 * SECOND


def test_no_more_than_a_second_is_saved_up() -> None:
    """An idle night earns one second's worth."""
    rate = Rate(events=10)
    meter = Meter().spend(rate, 1, 1, START)
    later = START + 10**6 * SECOND
    passed = 0
    while not meter.wait(later):
        meter = meter.spend(rate, 1, 1, later)
        passed += 1
    assert passed == 11  # ten that were saved, and the one that makes the debt


def test_a_publish_larger_than_the_rate_passes_alone() -> None:
    """Otherwise it never would."""
    meter = Meter()
    assert meter.wait(START) == 0
    assert meter.spend(Rate(events=1), 5000, 1, START).wait(START) == 4999 * SECOND


@given(
    st.integers(1, 1000),
    st.lists(st.tuples(st.integers(0, 3 * SECOND), st.integers(1, 500)), max_size=50),
)
def test_the_rate_holds_over_any_time(per_second: int, arrivals: list[tuple[int, int]]) -> None:
    """The events before a publish that passes are never more than the rate times the time, plus one second's worth."""
    now, passed, meter, rate = START, 0, Meter(), Rate(events=per_second)
    for gap, events in arrivals:
        now += gap
        if not meter.wait(now):
            rounding = len(arrivals) * per_second  # each publish may be rounded by a nanosecond
            assert passed * SECOND <= (now - START + SECOND) * per_second + rounding
            meter = meter.spend(rate, events, 1, now)
            passed += events


@pytest.mark.parametrize(
    ("last", "running_since", "waiting", "now", "wait"),
    [
        (LastCommit(), None, 0, 9, 0),
        (LARGE, None, 10 * LARGE_COMMIT, 9, 0),
        (LARGE, 0, 0, 0, 2000),
        (LARGE, 0, 0, 400, 1600),
        (LARGE, 0, 10 * LARGE_COMMIT, 400, 10_600),
        (LastCommit(1000, 1), 0, 10_000, 400, 1600),
        (LARGE, 0, 0, 5000, 5000),
        (LastCommit(), 0, 10_000, 7, 7),
    ],
    ids=["idle", "idle after load", "just begun", "half done", "long queue", "small commit", "hangs", "first"],
)
def test_the_expected_wait(last: LastCommit, running_since: int | None, waiting: int, now: int, wait: int) -> None:
    """The rest of the running commit and the next one, which grows with the queue if the last was large."""
    assert expected_wait(last, running_since, waiting, now) == wait


@pytest.mark.parametrize(
    ("megabytes", "stop", "ballast"), [(64, 8, 4), (160, 16, 10), (1024, 51, 64), (1_000_000, 512, 64)]
)
def test_shares_follow_the_volume(megabytes: int, stop: int, ballast: int) -> None:
    """Five per cent, 512 MB at most and on a small volume an eighth; the ballast is a sixteenth, 64 MB at most."""
    shares = share_out(megabytes * MB)
    assert shares.stop // MB == stop
    assert shares.ballast // MB == ballast


@pytest.mark.parametrize("megabytes", SIZES)
def test_what_is_kept_back_is_enough_to_settle(megabytes: int) -> None:
    """The WALs of both files, and what is written before one is copied, fit into what intake leaves and the ballast."""
    shares = share_out(megabytes * MB)
    assert 2 * (shares.wal_kept + shares.checkpoint) <= shares.stop + shares.ballast
    assert 0 < shares.least < shares.floor < shares.stop
    assert shares.stop + shares.ballast + shares.history < megabytes * MB / 2


def test_the_parts_of_the_stop() -> None:
    """Failing lanes send nothing new below half of it; a quarter stays free whatever the store's files have inside."""
    shares = share_out(1_000_000 * MB)
    assert (shares.stop, shares.floor, shares.least) == (512 * MB, 256 * MB, 128 * MB)


def test_an_operator_may_want_more_or_less() -> None:
    """The wishes are bounds; the least of a volume stays whatever they are."""
    assert share_out(1024 * MB, stop_fraction=0.5).stop == 512 * MB
    assert share_out(1024 * MB, stop_bytes=0).stop == limits.DISK_STOP_LEAST_BYTES
    assert share_out(1024 * MB, ballast_bytes=0).ballast == 0


def test_room_is_short_below_the_floor() -> None:
    """A quarter of the room may be under way; below the floor it is short, and there is never less than nothing."""
    assert Room(100, 50) == (100, 50)
    assert not Room(100, 100).short
    assert Room(99, 100).short
    assert Room(100, 50).for_requests == 25
    assert Room(-8, 50).for_requests == 0


def test_many_segments_need_pages_of_their_own() -> None:
    """A thousand topics with a byte each take a thousand times two pages."""
    assert needed(1000, 1000) > 1000 * 2 * limits.LOG_PAGE_BYTES
    assert needed(MB, 1) < MB + MB // 8


@pytest.mark.parametrize(
    ("most", "owned", "share"), [(0, 1, 512), (0, 8, 512), (100, 1, 100), (100, 3, 33), (100, 0, 100), (9, 4, 4)]
)
def test_the_partitions_of_a_node_share_its_requests(most: int, owned: int, share: int) -> None:
    """A bound of the node is divided by the partitions that it owns, down to a least number; without one each has 512.

    A node that owns no more partition divides by one.
    """
    assert share_of_requests(most, owned) == share
