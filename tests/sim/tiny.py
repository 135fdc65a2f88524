"""Limits of dispatch, which a seed may draw very small: what is rare with large ones then happens at once."""

import random
from dataclasses import dataclass

from recapito.dispatch.capacity import CommitBudget, Window
from recapito.domain import limits


@dataclass(frozen=True)
class Tiny:
    """The limits of one history; those of the service unless they are drawn."""

    window_requests: int = limits.WINDOW_REQUESTS
    tail_entries: int = limits.TAIL_ENTRIES
    gathered_rows: int = limits.GATHERED_ROWS
    gathered_bytes: int = limits.GATHERED_BYTES
    slice: int = limits.PARKED_SLICE
    slice_least: int = limits.PARKED_SLICE_LEAST
    commit_bytes: int = limits.COMMIT_BYTES
    group_events: int = limits.DEAD_LETTER_GROUP_EVENTS

    def window(self) -> Window:
        """The window of a new lane."""
        return Window(min(limits.WINDOW_START, self.window_requests), self.window_requests)

    def commit_budget(self) -> CommitBudget:
        """The budget of all lanes for a commit."""
        return CommitBudget(self.gathered_rows, self.slice, self.slice_least)

    def retry_budget(self) -> CommitBudget:
        """The budget of all lanes for fetched retries."""
        return CommitBudget(self.gathered_bytes, self.slice, self.slice_least)


AMPLE = Tiny()


def draw_tiny(seed: int) -> Tiny:
    """In every other seed, each limit is small or as it is; by dice of their own, so that all else stays."""
    rng = random.Random(f"{seed}/tiny")
    if rng.random() < 0.5:
        return AMPLE
    slice = rng.choice((1, 2, 7, limits.PARKED_SLICE))
    return Tiny(
        window_requests=rng.choice((1, 2, limits.WINDOW_REQUESTS)),
        tail_entries=rng.choice((2, 4, 16, limits.TAIL_ENTRIES)),
        gathered_rows=rng.choice((1, 5, limits.GATHERED_ROWS)),
        gathered_bytes=rng.choice((1, 1000, limits.GATHERED_BYTES)),
        slice=slice,
        slice_least=min(slice, rng.choice((1, limits.PARKED_SLICE_LEAST))),
        commit_bytes=rng.choice((1, 1000, limits.COMMIT_BYTES)),
        group_events=rng.choice((1, 3, limits.DEAD_LETTER_GROUP_EVENTS)),
    )
