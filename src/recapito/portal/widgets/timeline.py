"""Counts of the past by time, as the server has them in history: the values of a chart's lines.

Each answer of the server is added to those before it, so that a page asks for everything once and then for the news.
"""

from collections.abc import Iterable
from datetime import datetime

from recapito.portal.api_types import SeriesBucket
from recapito.portal.format import parse

RANGES = {"15": "15 min", "60": "1 h", "1440": "24 h"}
"""The ranges of a chart, in minutes."""
_WIDTHS = {"15": 15, "60": 60, "1440": 1200}
LINES = ("delivered", "failed", "expired", "dropped", "deadlettered")


def shortest_range(newest: str | None, now: str) -> str:
    """The shortest range from now that has an instant; the shortest of all if none has it."""
    at, here = parse(newest), parse(now)
    if at is not None and here is not None:
        for minutes in RANGES:
            if (here - at).total_seconds() < int(minutes) * 60:
                return minutes
    return next(iter(RANGES))


class Timeline:
    """The buckets of one range, by their number."""

    def __init__(self, minutes: str) -> None:
        self.seconds = _WIDTHS[minutes]
        self.buckets = int(minutes) * 60 // self.seconds
        self._counts: dict[int, dict[str, float]] = {}

    def __repr__(self) -> str:
        return f"<Timeline of {self.buckets} times {self.seconds} s>"

    def add(self, buckets: Iterable[SeriesBucket]) -> None:
        """Add the counts of an answer."""
        for bucket in buckets:
            at = parse(bucket.at)
            if at is not None:
                counts = self._counts.setdefault(self._number(at), {})
                for name, value in bucket.counts().items():
                    counts[name] = counts.get(name, 0) + value

    def lines(self, now: str) -> dict[str, list[float]]:
        """The counts of each line, the newest last; older ones are forgotten."""
        numbers = self._range(now)
        self._counts = {number: counts for number, counts in self._counts.items() if number in numbers}
        return {name: [self._counts.get(number, {}).get(name, 0) for number in numbers] for name in LINES}

    def latency(self, now: str) -> list[float | None]:
        """The mean time of the answers of each bucket, in milliseconds; None without any."""
        found = [self._counts.get(number, {}) for number in self._range(now)]
        return [counts["took"] / counts["answers"] if counts.get("answers") else None for counts in found]

    def _range(self, now: str) -> range:
        at = parse(now)
        last = 0 if at is None else self._number(at)
        return range(last - self.buckets + 1, last + 1)

    def _number(self, at: datetime) -> int:
        return int(at.timestamp()) // self.seconds
