"""Keys as they are pressed, while something is shown."""

import os
import select
import sys
import termios
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Wait = Callable[[float], str]


@contextmanager
def keyboard() -> Iterator[Wait]:
    """What is yielded waits for a key, for so many seconds at most; nothing pressed is an empty text."""
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
