"""`recapito version`."""

import typer

from recapito import __version__


def version() -> None:
    """Print the version."""
    typer.echo(f"recapito {__version__}")
