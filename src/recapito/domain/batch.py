"""A batch: the events of one request to one endpoint.

It is filled with what is there and never waits; it holds at most `event_limit` events, and more than `byte_limit`
bytes of request body only when a single event is larger, which then goes alone.
"""

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple


class Batch(NamedTuple):
    """One request's content: a JSON array in the Event Grid schema, with what the headers say about it.

    `attempts_before` is the least number of attempts that any of its events has behind it; `data_version` is None
    when the events differ; `output_id` is None when there are several.
    """

    subscription: str
    body: bytes
    events: int
    attempts_before: int
    data_version: str | None
    output_id: str | None


def fill(sizes: Sequence[int], event_limit: int, byte_limit: int) -> int:
    """How many of the first events, of these sizes, go into one batch: at least one.

    The body of n events is their sizes plus n + 1 bytes: brackets and commas.
    """
    total = 1
    for n, size in enumerate(sizes[:event_limit]):
        total += size + 1
        if total > byte_limit:
            return max(n, 1)
    return min(len(sizes), event_limit)


def fill_run(ends: Sequence[int], first: int, last: int, event_limit: int, byte_limit: int) -> int:
    """`fill` for neighbours in a segment: the end of the batch that starts at `first`, at most `last`.

    In a segment events are joined by commas, so the body of first … n-1 is one slice plus two brackets.
    """
    start = ends[first - 1] + 1 if first else 0
    fits = bisect_right(ends, start + byte_limit - 2, first, last)
    return min(max(fits, first + 1), first + event_limit, last)
