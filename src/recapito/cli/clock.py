"""`recapito clock`: see the clock of a server, and move it where it is manual."""

import re
from typing import Annotated, Any

import typer

from recapito.cli.verb import Noun, Session

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="See and move the clock of a server.")
noun = Noun(app)

_PARTS = re.compile(r"(\d+(?:\.\d+)?)(d|h|min|m|s)?", re.IGNORECASE)
_SECONDS = {"d": 86400, "h": 3600, "min": 60, "m": 60, "s": 1, "": 1}


def read_duration(text: str) -> float:
    """The seconds of `90`, `10m`, `1h30m`, `2d`, `1 h 46 min 40 s`."""
    packed = "".join(text.split())
    parts = list(_PARTS.finditer(packed))
    if not parts or "".join(part[0] for part in parts) != packed:
        raise typer.BadParameter(f"'{text}' is not a duration like 90, 10m or 1h30m", param_hint="DURATION")
    return sum(float(part[1]) * _SECONDS[(part[2] or "").lower()] for part in parts)


@noun.verb("show")
def show(session: Session) -> Any:
    """Show what time it is for the server, and which clock it has."""
    return session.client.call("GET", "/clock")


@noun.verb("advance")
def advance(
    session: Session,
    duration: Annotated[str, typer.Argument(help="How far: 90 (seconds), 10m, 1h30m, 2d.")],
) -> Any:
    """Move a manual clock forward; everything that comes due on the way happens before this ends."""
    return session.client.advance({"seconds": read_duration(duration)})


@noun.verb("until-idle")
def until_idle(session: Session) -> Any:
    """Move a manual clock until nothing is left to do, 30 days at most."""
    return session.client.advance({"until": "idle"})
