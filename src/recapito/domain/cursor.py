"""How far a lane has come in its topic's log: a low mark, and the finished ranges above it.

A place is (position, index): the event at that index of the segment at that position. A range runs from its first
place up to, not including, its end. Everything below the low mark is finished.
"""

import msgspec

Place = tuple[int, int]
Range = tuple[Place, Place]


class Cursor(msgspec.Struct, frozen=True, array_like=True):
    """A low mark plus the finished ranges above it, ascending, never touching each other or the low mark."""

    low: Place
    finished: tuple[Range, ...] = ()

    def finish(self, start: Place, end: Place) -> "Cursor":
        """The cursor after one more range is finished; ranges that touch are merged."""
        if not self.low <= start < end:
            raise ValueError(f"range {start}–{end} is empty or below the low mark {self.low}")
        low = self.low
        merged: list[Range] = []
        for first, last in sorted((*self.finished, (start, end))):
            reach = merged[-1][1] if merged else low
            if first < reach:
                raise ValueError(f"range {start}–{end} is finished already")
            if first > reach:
                merged.append((first, last))
            elif merged:
                merged[-1] = (merged[-1][0], last)
            else:
                low = last
        return Cursor(low, tuple(merged))

    def next_gap(self, place: Place) -> Range | None:
        """The finished range that starts at `place`, if any: a reader jumps over it."""
        return next((range for range in self.finished if range[0] == place), None)
