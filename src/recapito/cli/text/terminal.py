"""The terminal: text that cannot command it, colours, a progress bar, and the keys that are pressed.

Names and values of others may hold control characters; only their escaped forms are printed.
"""

import os
import re
import select
import sys
import termios
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import typer

from recapito.domain.delivery.vocabulary import NonRequestOutcome, State

_CONTROL = re.compile("[\x7f-\x9f]")


def plain(text: str) -> str:
    """The text with a question mark for each character that does not print."""
    return text if text.isprintable() else "".join(char if char.isprintable() else "?" for char in text)


def escape(text: str) -> str:
    """JSON text with the control characters escaped that JSON itself leaves as they are."""
    return _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def visible(text: str) -> str:
    """The text with each character that does not print as its escape: nothing of an answer is hidden or obeyed."""
    return text if text.isprintable() else "".join(char if char.isprintable() else _escaped(char) for char in text)


def _escaped(char: str) -> str:
    return char.encode("unicode_escape", "surrogatepass").decode()


_COLOURS: dict[str, str] = {
    "Success": "green",
    State.DELIVERED: "green",
    State.DEAD_LETTERED: "red",
    State.DROPPED: "red",
    State.NOT_MATCHED: "bright_black",
    State.UNKNOWN: "bright_black",
    **dict.fromkeys(NonRequestOutcome, "red"),
}
_FAILED = "yellow"  # it may still succeed


def paint(text: str, state: str) -> str:
    """The text in the colour of a state or an outcome."""
    return text if os.environ.get("NO_COLOR") else typer.style(text, fg=_COLOURS.get(state, _FAILED))


def bold(text: str) -> str:
    """The text of a title."""
    return text if os.environ.get("NO_COLOR") else typer.style(text, bold=True)


@contextmanager
def progress(title: str, total: int) -> Iterator[Callable[[int], None]]:
    """A bar for as long as this lasts; what is yielded moves it. One step needs no bar."""
    if total <= 1 or not sys.stderr.isatty():
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=total)
        yield lambda done: bar.advance(task, done)


Wait = Callable[[float], str]


@contextmanager
def keyboard() -> Iterator[Wait]:
    """Yields a function that waits for a key, for that many seconds at most; it returns "" if none is pressed."""
    if not sys.stdin.isatty():
        yield lambda seconds: _nothing(select.select([], [], [], seconds))
        return
    before = termios.tcgetattr(sys.stdin)
    tty.setcbreak(sys.stdin)
    try:
        yield _wait
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def _wait(seconds: float) -> str:
    ready, _, _ = select.select([sys.stdin], [], [], seconds)
    return os.read(sys.stdin.fileno(), 1).decode("ascii", "replace") if ready else ""


def _nothing(_: object) -> str:
    return ""
