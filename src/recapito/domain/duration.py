"""Durations as people say and write them."""

import re

_PARTS = re.compile(r"(\d+(?:\.\d+)?)(d|h|min|m|s)?", re.IGNORECASE)
_SECONDS = {"d": 86400, "h": 3600, "min": 60, "m": 60, "s": 1, "": 1}


def read_duration(text: str) -> float:
    """The seconds of `90`, `10m`, `1h30m`, `2d`, `1 h 46 min 40 s`; anything else is a ValueError."""
    packed = "".join(text.split())
    parts = list(_PARTS.finditer(packed))
    if not parts or "".join(part[0] for part in parts) != packed:
        raise ValueError(f"'{text}' is not a duration like 90, 10m or 1h30m")
    return sum(float(part[1]) * _SECONDS[(part[2] or "").lower()] for part in parts)


def show_duration(seconds: float) -> str:
    """A duration as people say it: `1 h 46 min 40 s`, to the tenth of a second."""
    tenths = round(seconds * 10)
    parts = (
        (f"{tenths // 36000:g}", "h"),
        (f"{tenths // 600 % 60:g}", "min"),
        (f"{tenths % 600 / 10:g}", "s"),
    )
    return " ".join(f"{count} {unit}" for count, unit in parts if count != "0") or "0 s"
