"""The answers of a receiver, request by request: 200, or those of flags or of a script."""

import threading
from collections.abc import Iterator
from itertools import chain, repeat
from pathlib import Path
from typing import NamedTuple

import typer

_USUAL = 200
_HINT = "a line is `503`, `503 retry-after=120`, `200 delay=40`, `drop`, each with times=N or without"


class ScriptedReply(NamedTuple):
    """One answer. Status 0 is none: the connection is dropped."""

    status: int = _USUAL
    delay_s: float = 0.0
    retry_after_s: int | None = None


class ReceiverScript:
    """Gives the answers, one for each request; requests may come at the same time."""

    def __init__(self, replies: Iterator[ScriptedReply]) -> None:
        self._replies = replies
        self._turn = threading.Lock()

    def next(self) -> ScriptedReply:
        """The answer to the next request; 200 after the last one."""
        with self._turn:
            return next(self._replies, ScriptedReply())


def from_flags(fail: int | None, times: int | None, delay: float) -> ReceiverScript:
    """A receiver that fails, or is slow, for some requests or for all."""
    reply = ScriptedReply(_USUAL if fail is None else fail, delay)
    return ReceiverScript(repeat(reply) if times is None else repeat(reply, times))


def from_script(file: Path) -> ReceiverScript:
    """A receiver that answers by a file, line by line, and then with 200."""
    try:
        lines = file.read_text("utf-8").splitlines()
    except OSError as error:
        raise typer.BadParameter(f"{file}: {error.strerror}", param_hint="--script") from None
    except UnicodeDecodeError as error:
        raise typer.BadParameter(f"{file}: {error}", param_hint="--script") from None
    parts = [_read(line.partition("#")[0].split(), f"{file}, line {n}") for n, line in enumerate(lines, 1)]
    return ReceiverScript(chain.from_iterable(repeat(reply, times) for reply, times in parts))


def _read(words: list[str], where: str) -> tuple[ScriptedReply, int]:
    if not words:
        return ScriptedReply(), 0
    status, *rest = words
    given = dict(word.split("=", 1) for word in rest if "=" in word)
    try:
        if len(given) != len(rest) or not given.keys() <= {"delay", "retry-after", "times"}:
            raise ValueError
        retry_after = int(given["retry-after"]) if "retry-after" in given else None
        reply = ScriptedReply(0 if status == "drop" else int(status), float(given.get("delay", 0)), retry_after)
        times = int(given.get("times", 1))
        if not (reply.status == 0 or 200 <= reply.status <= 599) or reply.delay_s < 0 or times < 0:
            raise ValueError
    except ValueError:
        raise typer.BadParameter(f"{where}: {_HINT}", param_hint="--script") from None
    return reply, times
