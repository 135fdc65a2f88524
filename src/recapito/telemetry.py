"""The journal: one JSON line per thing that happened, an event and its fields, never prose and never a secret."""

import json
import sys
import time
from collections.abc import Callable
from typing import Protocol, TextIO

FIELD_CHARS = 1024


class Journal(Protocol):
    """Takes what happened. It never raises and never blocks for long."""

    def __call__(self, event: str, **fields: object) -> None:
        """Record one event."""


def silent(event: str, **fields: object) -> None:
    """A journal that keeps nothing."""


class LineJournal:
    """Writes JSON lines to a stream, standard error unless told otherwise."""

    def __init__(self, stream: TextIO | None = None, now: Callable[[], int] = time.time_ns, **always: object) -> None:
        self._stream = stream or sys.stderr
        self._now = now
        self._always = always

    def __call__(self, event: str, **fields: object) -> None:
        at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(self._now() // 1_000_000_000))
        line = {"at": f"{at}Z", "event": event, **self._always, **fields}
        try:
            self._stream.write(json.dumps({key: _plain(value) for key, value in line.items()}) + "\n")
            self._stream.flush()
        except (OSError, ValueError):
            return  # nobody reads our standard error any more; work goes on


def _plain(value: object) -> object:
    if value is None or isinstance(value, bool | int | float):
        return value
    return str(value)[:FIELD_CHARS]
