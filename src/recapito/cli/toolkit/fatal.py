"""The last words of a command that failed: one line and never a traceback, whatever the cause."""

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
    """Discard stdout, which its reader has closed: text that is still buffered must not raise at exit."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):  # it is no file, as in a test
        return


def describe_os_error(error: OSError) -> str:
    """The error of a file, a disk or a pipe, with its path."""
    where = f": {error.filename}" if error.filename else ""
    return f"{error.strerror or error}{where}"


def describe_defect(error: Exception) -> str:
    """A defect, with its place in the code; RECAPITO_TRACEBACK=1 shows the traceback."""
    if os.environ.get(TRACEBACK):
        return "".join(traceback.format_exception(error)).rstrip()
    frame = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{Path(frame.filename).name}, line {frame.lineno}"
    return f"this is a defect of Recapito: {type(error).__name__}: {error} ({place}). {TRACEBACK}=1 shows more."
