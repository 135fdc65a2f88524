"""The rate of a topic: what passes in a second, and how long the rest must wait."""

from hypothesis import given
from hypothesis import strategies as st

from recapito.domain.capacity.rate import Meter, Rate
from recapito.domain.instant import SECOND

START = 1_000 * SECOND


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
    """What passed before a publish that passes is never more than the rate times the time, and one second's worth."""
    now, passed, meter, rate = START, 0, Meter(), Rate(events=per_second)
    for gap, events in arrivals:
        now += gap
        if not meter.wait(now):
            rounding = len(arrivals) * per_second  # each publish may be rounded by a nanosecond
            assert passed * SECOND <= (now - START + SECOND) * per_second + rounding
            meter = meter.spend(rate, events, 1, now)
            passed += events
