"""`recapito settings`, `recapito completion` and `recapito version`: texts that need no server."""

import os
from enum import StrEnum
from typing import Annotated

import typer

from recapito import __version__


def settings() -> None:
    """Print all settings, defaults and meanings as a TOML file."""
    from recapito.settings.settings import defaults_text  # `--version` need not load it

    typer.echo(defaults_text(), nl=False)


class Shell(StrEnum):
    """The shells that have completion."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(shell: Annotated[Shell, typer.Argument(help="Your shell.")]) -> None:
    """Print the completion script; in bash, run `eval "$(recapito completion bash)"`."""
    from recapito.cli import app

    os.environ["_RECAPITO_COMPLETE"] = f"source_{shell.value}"  # how a shell asks, and so do we
    app(prog_name="recapito")


def version() -> None:
    """Print the version."""
    typer.echo(f"recapito {__version__}")
