"""The command line as a user has it, in process: words in; what it prints and its exit code out."""

import io
import json
import sys
from contextlib import redirect_stderr, redirect_stdout
from typing import Any, NamedTuple

from recapito.cli import run


class Said(NamedTuple):
    """The output of a command, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def recapito(*words: str, stdin: bytes = b"") -> Said:
    """Run a command, whatever becomes of it."""
    out, err = io.StringIO(), io.StringIO()
    old, sys.stdin = sys.stdin, io.TextIOWrapper(io.BytesIO(stdin))
    try:
        with redirect_stdout(out), redirect_stderr(err):
            try:
                code = run(words)
            except SystemExit as end:
                code = end.code if isinstance(end.code, int) else int(bool(end.code))
    finally:
        sys.stdin = old
    return Said(code, out.getvalue(), err.getvalue())


def ok(*words: str, stdin: bytes = b"") -> Any:
    """Run a command that must succeed; its answer, None if it has none."""
    said = recapito(*words, stdin=stdin)
    assert said.code == 0, said
    return said.json if said.out else None


def lines(text: str) -> list[str]:
    """The lines of a text without blanks at their ends, and without empty ones."""
    return [line.rstrip() for line in text.splitlines() if line.strip()]
