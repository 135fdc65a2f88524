"""Instants are integers, nanoseconds since 1970 in UTC, and durations are nanoseconds; both also as text.

Every time that the service stamps has exactly seven fractional digits and `Z`, as Event Grid's have.
"""

import re
from datetime import UTC, datetime

MILLISECOND = 1_000_000
SECOND = 1_000_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR
_PARTS = re.compile(r"(\d+(?:\.\d+)?)(d|h|min|m|s)?", re.IGNORECASE)
_SECONDS = {"d": 86400, "h": 3600, "min": 60, "m": 60, "s": 1, "": 1}


def utc(instant: int) -> datetime:
    """The calendar date and time of an instant, without its fraction of a second."""
    return datetime.fromtimestamp(instant // SECOND, UTC)


def stamp(instant: int) -> str:
    """An instant as Event Grid writes it: `2020-08-13T17:18:14.0265758Z`."""
    return f"{utc(instant):%Y-%m-%dT%H:%M:%S}.{instant % SECOND // 100:07d}Z"


def read_duration(text: str) -> float:
    """Parse `90`, `10m`, `1h30m`, `2d` or `1 h 46 min 40 s` into seconds; anything else is a ValueError."""
    packed = "".join(text.split())
    parts = list(_PARTS.finditer(packed))
    if not parts or "".join(part[0] for part in parts) != packed:
        raise ValueError(f"'{text}' is not a duration like 90, 10m or 1h30m")
    return sum(float(part[1]) * _SECONDS[(part[2] or "").lower()] for part in parts)


def show_duration(seconds: float) -> str:
    """A duration in words, `1 h 46 min 40 s`, to the tenth of a second."""
    tenths = round(seconds * 10)
    parts = (
        (f"{tenths // 36000:g}", "h"),
        (f"{tenths // 600 % 60:g}", "min"),
        (f"{tenths % 600 / 10:g}", "s"),
    )
    return " ".join(f"{count} {unit}" for count, unit in parts if count != "0") or "0 s"
