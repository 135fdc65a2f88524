"""Numbers, instants and durations as text for people. Instants come as the API writes them and are shown in UTC."""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

_ID_CHARS = 16
_STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z")
_UNITS = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))


def number(value: float) -> str:
    """A count, with its thousands apart, on one line."""
    return f"{value:,.0f}".replace(",", "\N{NO-BREAK SPACE}")


def short(value: float) -> str:
    """A count for a small place: 12.3k."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"


def duration(seconds: float) -> str:
    """A duration by its two largest units: 1 h 5 min."""
    left = round(seconds)
    if left <= 0:
        return "0 s"
    parts = []
    for size, unit in _UNITS:
        if left >= size:
            parts.append(f"{left // size} {unit}")
            left %= size
    return " ".join(parts[:2])


def parse(stamp: str | None) -> datetime | None:
    """The instant of a stamp, None if it is none."""
    try:
        return datetime.fromisoformat(stamp) if stamp else None
    except ValueError:
        return None


def instant(stamp: str | None) -> str:
    """An instant to the second."""
    at = parse(stamp)
    return f"{at:%Y-%m-%d %H:%M:%S}" if at else "–"


def clock_time(stamp: str | None) -> str:
    """An instant of the last days: its time alone, with milliseconds."""
    at = parse(stamp)
    return f"{at:%H:%M:%S}.{at.microsecond // 1000:03d}" if at else "–"


def relative(stamp: str | None, now: str | None) -> str:
    """How far an instant is from now: in 5 min, 2 h ago."""
    at, here = parse(stamp), parse(now)
    if at is None or here is None:
        return ""
    away = (at - here).total_seconds()
    if abs(away) < 1:
        return "now"
    return f"in {duration(away)}" if away > 0 else f"{duration(-away)} ago"


def told(sentence: str, now: str | None) -> str:
    """A sentence of the server, with each instant to the second and its distance from now."""

    def say(found: re.Match[str]) -> str:
        return f"{instant(found[0])} UTC ({relative(found[0], now)})"

    return _STAMP.sub(say, sentence)


def short_id(id: str) -> str:
    """An id for a list: a long one by its two ends."""
    return id if len(id) <= _ID_CHARS else f"{id[:8]}…{id[-4:]}"


def milliseconds(value: float | None) -> str:
    """How long a request took."""
    if value is None:
        return "–"
    return f"{value / 1000:.1f} s" if value >= 1000 else f"{value:.3g} ms"


def tally(counts: Mapping[str, int]) -> str:
    """Counts by reason: Busy 3, NotFound 1."""
    return ", ".join(f"{name} {number(count)}" for name, count in counts.items()) or "none"


def name_of(id: str) -> str:
    """The last name in a resource id."""
    return id.rstrip("/").rpartition("/")[2]


def group_of(resource: Mapping[str, Any]) -> str:
    """The resource group of a resource."""
    parts = str(resource.get("id", "")).split("/")
    return parts[4] if len(parts) > 4 else ""
