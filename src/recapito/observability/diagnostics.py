"""The diagnostic log: JSON lines in a file that is set aside when it is full, or on standard error.

The law: it never disturbs the work. Lines beyond a rate are left out, and counted in a line of their own; a disk that
is full loses lines and nothing else.
"""

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TextIO

import msgspec

from recapito.domain import limits
from recapito.domain.instant import SECOND, stamp

_encode = msgspec.json.Encoder().encode


class DiagnosticLog:
    """Writes records. Without a path they go to standard error."""

    def __init__(self, path: Path | None, now: Callable[[], int], size: int = 64 * limits.MB) -> None:
        self._path = path
        self._now = now
        self._size = size
        self._stream: TextIO | None = sys.stderr if path is None else None
        self._second = self._written = self._left_out = 0

    def __repr__(self) -> str:
        return f"<DiagnosticLog {self._path or 'on standard error'}>"

    def write(self, record: Mapping[str, str]) -> None:
        """Write one record, unless there were too many in this second."""
        now = self._now()
        if now // SECOND != self._second:
            self._second, self._written = now // SECOND, 0
            self._tell_left_out(now)
        self._written += 1
        if self._written > limits.DIAGNOSTIC_LINES:
            self._left_out += 1
            return
        self._line(record)

    def close(self) -> None:
        """Close the file."""
        self._tell_left_out(self._now())
        if self._path is not None and self._stream is not None:
            self._stream.close()
            self._stream = None

    def _tell_left_out(self, now: int) -> None:
        if self._left_out:
            message = f"Message:leftOut={self._left_out}"
            self._left_out = 0
            self._line({"time": stamp(now), "category": "LeftOut", "operationName": "LeaveOut", "message": message})

    def _line(self, record: Mapping[str, str]) -> None:
        try:
            stream = self._stream or self._open()
            stream.write(_encode(record).decode() + "\n")
            stream.flush()
            if self._path is not None and stream.tell() >= self._size:
                stream.close()
                self._stream = None
                self._path.replace(self._path.with_suffix(".1.jsonl"))
        except (OSError, ValueError):
            return

    def _open(self) -> TextIO:
        assert self._path is not None
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._stream = os.fdopen(descriptor, "a", encoding="utf-8")
        return self._stream
