"""Durations on the command line: one that can not be read is a wrong argument."""

import typer

from recapito.domain import instant
from recapito.domain.instant import show_duration

__all__ = ["read_duration", "show_briefly", "show_duration"]


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
