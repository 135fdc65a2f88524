"""Instants as the API writes them, for people: UTC, to the millisecond, and how far two are apart."""

import re
from datetime import UTC, datetime

from recapito.cli.text.duration import show_duration

_STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{7}Z")


def show_moment(stamp: str) -> str:
    """`2026-01-31 12:00:00.026` of `2026-01-31T12:00:00.0265758Z`."""
    return f"{_read(stamp):%Y-%m-%d %H:%M:%S.%f}"[:-3]


def show_moments(text: str) -> str:
    """A sentence with the instants in it as people read them."""
    return _STAMP.sub(lambda found: f"{show_moment(found[0])} UTC", text)


def seconds_between(earlier: str, later: str) -> float:
    """How many seconds pass from one to the other; less than none if they are the other way round."""
    return (_read(later) - _read(earlier)).total_seconds()


def show_distance(now: str, then: str) -> str:
    """`in 4 min 3 s`, `now` or `4 min 3 s ago`."""
    seconds = round(seconds_between(now, then))
    if seconds == 0:
        return "now"
    return f"in {show_duration(seconds)}" if seconds > 0 else f"{show_duration(-seconds)} ago"


def _read(stamp: str) -> datetime:
    """Python counts microseconds, Event Grid a tenth of one."""
    whole, _, fraction = stamp.rstrip("Z").partition(".")
    return datetime.fromisoformat(f"{whole}.{fraction[:6]:0<6}").replace(tzinfo=UTC)
