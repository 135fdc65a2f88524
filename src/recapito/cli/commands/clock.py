"""`recapito clock`: see the clock of a server, and move it where it is manual."""

from typing import Annotated, Any

import typer

from recapito.cli.text.duration import read_duration
from recapito.cli.toolkit.lazy import commands
from recapito.cli.toolkit.verb import Noun, Session

app = commands("See and move the clock of a server.")
noun = Noun(app)


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
