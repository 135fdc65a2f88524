"""Durations on the command line: one that can not be read is a wrong argument."""

import typer

from recapito.domain import duration
from recapito.domain.duration import show_duration

__all__ = ["read_duration", "show_duration"]


def read_duration(text: str) -> float:
    """The seconds of `90`, `10m`, `1h30m`, `2d`, `1 h 46 min 40 s`."""
    try:
        return duration.read_duration(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="DURATION") from None
