"""The receiver's counts, in memory that it shares with its readers, without requests and answers.

The receiver alone writes while a run lasts. Latencies are a histogram, so that a million of them cost no memory.
"""

import mmap
import time
from pathlib import Path

STEP_NS = 50_000
_BUCKETS = 100_000  # up to 5 s; what took longer is in the last one
_EVENTS, _REQUESTS, _LAST_NS, _FIRST_BUCKET = 0, 1, 2, 3
_BYTES = 8 * (_FIRST_BUCKET + _BUCKETS)


class Tally:
    """Counts of events and requests, the instant of the last one, and how long events were on their way."""

    def __init__(self, path: Path) -> None:
        if not path.exists():
            path.write_bytes(bytes(_BYTES))
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), _BYTES)
        self._cells = memoryview(self._memory).cast("Q")

    @property
    def events(self) -> int:
        """How many events have come."""
        return self._cells[_EVENTS]

    @property
    def requests(self) -> int:
        """How many requests brought them."""
        return self._cells[_REQUESTS]

    @property
    def last_ns(self) -> int:
        """When the last one came, by the monotonic clock."""
        return self._cells[_LAST_NS]

    def add(self, events: int, sent_ns: int) -> None:
        """One request came with N events, the first of which was published at `sent_ns`."""
        now = time.monotonic_ns()
        cells = self._cells
        cells[_EVENTS] += events
        cells[_REQUESTS] += 1
        cells[_LAST_NS] = now
        cells[_FIRST_BUCKET + min((now - sent_ns) // STEP_NS, _BUCKETS - 1)] += 1

    def reset(self) -> None:
        """Begin again at nothing."""
        self._memory[:] = bytes(_BYTES)

    def percentile_ms(self, percent: float) -> float:
        """The latency that N percent of the requests did not exceed."""
        return percentile(self._cells[_FIRST_BUCKET:].tolist(), percent) * STEP_NS / 1e6

    def close(self) -> None:
        """Let go of the memory."""
        self._cells.release()
        self._memory.close()


def percentile(histogram: list[int], percent: float) -> int:
    """The upper edge, in steps, of the bucket that holds the percentile; 0 if there is nothing."""
    wanted = sum(histogram) * percent / 100
    seen = 0
    for bucket, count in enumerate(histogram):
        seen += count
        if count and seen >= wanted:
            return bucket + 1
    return 0
