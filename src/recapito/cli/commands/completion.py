"""`recapito completion`: what a shell needs to complete our commands."""

import os
from enum import StrEnum
from typing import Annotated

import typer


class Shell(StrEnum):
    """The shells that are known."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(shell: Annotated[Shell, typer.Argument(help="Your shell.")]) -> None:
    """Print what completes commands in your shell: in bash, `eval "$(recapito completion bash)"`."""
    from recapito.cli import app

    os.environ["_RECAPITO_COMPLETE"] = f"source_{shell.value}"  # how a shell asks, and so do we
    app(prog_name="recapito")
