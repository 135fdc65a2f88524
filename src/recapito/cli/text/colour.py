"""Colours on a terminal. Where the answer goes elsewhere they are taken off again, and who sets NO_COLOR has none."""

import os

import typer

_COLOURS = {
    "Success": "green",
    "delivered": "green",
    "deadLettered": "red",
    "dropped": "red",
    "DeadLettered": "red",
    "DeadLetterDropped": "red",
    "NotSent": "red",
    "notMatched": "bright_black",
    "unknown": "bright_black",
}
_FAILED = "yellow"  # it may still succeed


def paint(text: str, state: str) -> str:
    """The text in the colour of a state or an outcome."""
    return text if os.environ.get("NO_COLOR") else typer.style(text, fg=_COLOURS.get(state, _FAILED))


def bold(text: str) -> str:
    """The text of a title."""
    return text if os.environ.get("NO_COLOR") else typer.style(text, bold=True)
