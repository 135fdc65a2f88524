"""Instants: Event Grid's seven fractional digits."""

import re
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recapito.domain.instant import DAY, HOUR, MILLISECOND, MINUTE, SECOND, stamp, utc


@pytest.mark.parametrize(
    ("instant", "text"),
    [
        (0, "1970-01-01T00:00:00.0000000Z"),
        (99, "1970-01-01T00:00:00.0000000Z"),
        (100, "1970-01-01T00:00:00.0000001Z"),
        (1_597_339_094_026_575_800, "2020-08-13T17:18:14.0265758Z"),
        (1_597_339_094_999_999_999, "2020-08-13T17:18:14.9999999Z"),
    ],
)
def test_stamp(instant: int, text: str) -> None:
    """A stamp has exactly seven fractional digits, cut and not rounded, and `Z`."""
    assert stamp(instant) == text


@given(st.integers(0, 2**62))
def test_stamp_is_the_instant(instant: int) -> None:
    """Every stamp reads back as its instant, to 100 ns."""
    match = re.fullmatch(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\.(\d{7})Z", stamp(instant))
    assert match
    whole = datetime.fromisoformat(match[1]).replace(tzinfo=UTC)
    assert int(whole.timestamp()) * SECOND + int(match[2]) * 100 == instant // 100 * 100
    assert utc(instant) == whole


def test_units() -> None:
    """The units are each other's multiples."""
    assert 1000 * MILLISECOND == SECOND
    assert 60 * SECOND == MINUTE
    assert 60 * MINUTE == HOUR
    assert 24 * HOUR == DAY
