"""The progress of a lane in its topic's log: a low mark, and the finished ranges above it.

A place is (position, index): the event at that index of the segment at that position. A range runs from its first
place up to, not including, its end; the end of a segment is the start of the next position, so that ranges touch
across segments. Everything below the low mark is finished.
"""

from collections.abc import Iterable

import msgspec

LogPosition = tuple[int, int]
Range = tuple[LogPosition, LogPosition]


class Cursor(msgspec.Struct, frozen=True, array_like=True):
    """A low mark plus the finished ranges above it, ascending, never touching each other or the low mark."""

    low: LogPosition
    finished: tuple[Range, ...] = ()

    def finish(self, start: LogPosition, end: LogPosition) -> "Cursor":
        """The cursor after one more range is finished."""
        return self.finish_all([(start, end)])

    def finish_all(self, ranges: Iterable[Range]) -> "Cursor":
        """The cursor after these ranges are finished; touching ranges are merged. None may be finished already."""
        low = self.low
        merged: list[Range] = []
        for start, end in sorted((*self.finished, *ranges)):
            reach = merged[-1][1] if merged else low
            if start >= end or start < reach:
                raise ValueError(f"range {start}–{end} is empty, or overlaps the range that is finished up to {reach}")
            if start > reach:
                merged.append((start, end))
            elif merged:
                merged[-1] = (merged[-1][0], end)
            else:
                low = end
        return Cursor(low, tuple(merged))
