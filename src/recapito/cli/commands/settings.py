"""`recapito settings`: the settings with their defaults, as a file to start from."""

import typer

from recapito.settings.settings import defaults_text


def settings() -> None:
    """Print all settings with their defaults and meanings, as a TOML file to start from."""
    typer.echo(defaults_text(), nl=False)
