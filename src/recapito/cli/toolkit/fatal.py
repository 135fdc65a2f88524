"""How a run of the command line ends when it can not go on: one line, whoever's fault it is, and never a traceback."""

import os
import sys
import traceback
from pathlib import Path

TRACEBACK = "RECAPITO_TRACEBACK"


def ready_streams() -> None:
    """Let every text be written, in whatever encoding the terminal has, and also where there is no terminal."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # it was closed before we began
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w"))
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def give_up_output() -> None:
    """Nobody can be told anything more on stdout; what is still buffered must not raise again at the very end."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):  # it is no file, as in a test
        return


def describe_os_error(error: OSError) -> str:
    """What a file, a disk or a pipe said."""
    where = f": {error.filename}" if error.filename else ""
    return f"{error.strerror or error}{where}"


def describe_defect(error: Exception) -> str:
    """A mistake of ours, with its place; who wants all of it can have it."""
    if os.environ.get(TRACEBACK):
        return "".join(traceback.format_exception(error)).rstrip()
    frame = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{Path(frame.filename).name}, line {frame.lineno}"
    return f"this is a defect of Recapito: {type(error).__name__}: {error} ({place}). {TRACEBACK}=1 shows more."
