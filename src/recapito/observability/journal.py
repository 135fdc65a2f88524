"""The journal: one JSON line for each event, with its name and fields, never prose and never a secret.

The settings of traces and diagnostic logs are here too.
"""

import json
import re
import sys
import time
from collections.abc import Callable
from typing import Protocol, TextIO

import msgspec

FIELD_CHARS = 1024


class ObservabilitySettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The settings of traces and diagnostic logs."""

    otlp_endpoint: str
    sample_ratio: float
    traces_per_second: int
    diagnostics: str
    diagnostics_mb: int

    @property
    def fault(self) -> str | None:
        """The setting that is wrong, and the reason; None if all are right."""
        if self.otlp_endpoint and not re.match("https?://[^/]", self.otlp_endpoint):
            return "otlp_endpoint: it is a URL, such as http://127.0.0.1:4318/v1/traces"
        if not 0 <= self.sample_ratio <= 1:
            return f"sample_ratio: {self.sample_ratio} is not between 0 and 1"
        if self.traces_per_second < 1 or self.diagnostics_mb < 1:
            return "traces_per_second and diagnostics_mb: they are at least 1"
        return None


class Journal(Protocol):
    """Records events. It never raises and never blocks for long."""

    def __call__(self, event: str, **fields: object) -> None:
        """Record one event."""


def silent(event: str, **fields: object) -> None:
    """A journal that keeps nothing."""


class Trouble:
    """A failure that may last for hours: it is news when it begins or changes, and not at each further try."""

    def __init__(self) -> None:
        self._why = ""

    def is_news(self, why: str) -> bool:
        """Remember a failure; True if the last try did not fail in this way."""
        before, self._why = self._why, why
        return why != before

    def end(self) -> None:
        """A try succeeded."""
        self._why = ""


class LineJournal:
    """Writes JSON lines to a stream, by default to standard error."""

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
            return  # our standard error is closed; work goes on


def _plain(value: object) -> object:
    if value is None or isinstance(value, bool | int | float):
        return value
    return str(value)[:FIELD_CHARS]
