"""Durations as people say and write them."""

import re

import typer

_PARTS = re.compile(r"(\d+(?:\.\d+)?)(d|h|min|m|s)?", re.IGNORECASE)
_SECONDS = {"d": 86400, "h": 3600, "min": 60, "m": 60, "s": 1, "": 1}


def read_duration(text: str) -> float:
    """The seconds of `90`, `10m`, `1h30m`, `2d`, `1 h 46 min 40 s`."""
    packed = "".join(text.split())
    parts = list(_PARTS.finditer(packed))
    if not parts or "".join(part[0] for part in parts) != packed:
        raise typer.BadParameter(f"'{text}' is not a duration like 90, 10m or 1h30m", param_hint="DURATION")
    return sum(float(part[1]) * _SECONDS[(part[2] or "").lower()] for part in parts)


def show_duration(seconds: int) -> str:
    """A duration as people say it: `1 h 46 min 40 s`."""
    parts = ((seconds // 3600, "h"), (seconds // 60 % 60, "min"), (seconds % 60, "s"))
    return " ".join(f"{count} {unit}" for count, unit in parts if count) or "0 s"


def show_briefly(seconds: float) -> str:
    """A duration where room is short, in its two largest units: `1h46m`."""
    whole = round(max(0.0, seconds))
    units = ((whole // 86400, "d"), (whole // 3600 % 24, "h"), (whole // 60 % 60, "m"), (whole % 60, "s"))
    return "".join([f"{count}{unit}" for count, unit in units if count][:2]) or "0s"
