"""`recapito clock`: show the server's clock, and move a manual one."""

from typing import Annotated, Any

import typer

from recapito.cli.text.time import read_duration
from recapito.cli.toolkit.lazy import commands
from recapito.cli.toolkit.verb import CommandSession, Noun

app = commands("Show or move the server's clock.")
noun = Noun(app)


@noun.verb("show")
def show(session: CommandSession) -> Any:
    """Show the server's time and the mode of its clock."""
    return session.client.call("GET", "/clock")


@noun.verb("advance")
def advance(
    session: CommandSession,
    duration: Annotated[str, typer.Argument(help="Duration, such as 90 (seconds), 10m, 1h30m or 2d.")],
) -> Any:
    """Move a manual clock forward, with everything that comes due."""
    return session.client.advance({"seconds": read_duration(duration)})


@noun.verb("until-idle")
def until_idle(session: CommandSession) -> Any:
    """Move a manual clock until nothing is due, at most 30 days."""
    return session.client.advance({"until": "idle"})
