"""Instants and durations for people: UTC to the millisecond, and `4 min 3 s`."""

import re
from datetime import UTC, datetime

import typer

from recapito.domain import instant
from recapito.domain.instant import show_duration


def read_duration(text: str) -> float:
    """The seconds of `90`, `10m`, `1h30m`, `2d`, `1 h 46 min 40 s`."""
    try:
        return instant.read_duration(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="DURATION") from None


def show_briefly(seconds: float) -> str:
    """A duration where room is short, in its two largest units: `1h46m`."""
    whole = round(max(0.0, seconds))
    units = ((whole // 86400, "d"), (whole // 3600 % 24, "h"), (whole // 60 % 60, "m"), (whole % 60, "s"))
    return "".join([f"{count}{unit}" for count, unit in units if count][:2]) or "0s"


_STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{7}Z")


def show_moment(stamp: str) -> str:
    """`2026-01-31 12:00:00.026` of `2026-01-31T12:00:00.0265758Z`."""
    return f"{_read(stamp):%Y-%m-%d %H:%M:%S.%f}"[:-3]


def show_moments(text: str) -> str:
    """A sentence with the instants in it as people read them."""
    return _STAMP.sub(lambda found: f"{show_moment(found[0])} UTC", text)


def seconds_between(earlier: str, later: str) -> float:
    """Seconds from one instant to the other; negative if `later` is the earlier one."""
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
