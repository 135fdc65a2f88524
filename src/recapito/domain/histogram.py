"""A histogram: the number of observed values under each of a few bounds, and their sum."""

from bisect import bisect_left
from collections.abc import Iterator

import msgspec

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
SIZES = (1.0, 2.0, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1000.0)


class Histogram(msgspec.Struct, array_like=True):
    """`counts` has one item more than `bounds`, for values above all of them."""

    bounds: tuple[float, ...]
    counts: list[int]
    sum: float = 0.0

    def observe(self, value: float) -> None:
        """Count one value; a value equal to a bound lies under it."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    def cumulative(self) -> Iterator[tuple[float, int]]:
        """Each bound with the number of values under it; the last bound is infinite."""
        total = 0
        for bound, count in zip((*self.bounds, float("inf")), self.counts, strict=True):
            total += count
            yield bound, total


def histogram(bounds: tuple[float, ...]) -> Histogram:
    return Histogram(bounds, [0] * (len(bounds) + 1))
