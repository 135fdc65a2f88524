"""Free space on the store's volume: intake closes before the disk is full, so that dispatch can go on draining."""

from collections.abc import Callable
from typing import NamedTuple

from recapito.domain import limits
from recapito.telemetry import Journal, silent

WARN_FRACTION = 0.20
CLOSE_FRACTION = 0.05
CLOSE_BYTES = 512 * limits.MB
REOPEN_FACTOR = 1.25


class Space(NamedTuple):
    """The bytes of a volume that the store could still use, all of its bytes, and a file that was removed from it."""

    free: int
    total: int
    lost: str = ""


class DiskWatch:
    """Looks at the free space when told to. `reason` says why intake is closed; None while it is open."""

    def __init__(
        self,
        space: Callable[[], Space],
        close_fraction: float = CLOSE_FRACTION,
        close_bytes: int = CLOSE_BYTES,
        journal: Journal = silent,
    ) -> None:
        self._space = space
        self._close_fraction = close_fraction
        self._close_bytes = close_bytes
        self._journal = journal
        self._low = False
        self._reason: str | None = None

    def reason(self) -> str | None:
        """Why intake is closed, as of the last look."""
        return self._reason

    def look(self) -> None:
        """Measure; close below the limit, reopen only well above it, and tell the journal about each change."""
        space = self._space()
        limit = min(int(space.total * self._close_fraction), self._close_bytes)
        if space.lost:
            self._lose(space.lost)
        elif self._reason is None and space.free < limit:
            self._reason = f"The disk is nearly full: {space.free // limits.MB} MB are free."
            self._journal("disk.full", free=space.free, total=space.total, limit=limit)
        elif self._reason is not None and space.free >= limit * REOPEN_FACTOR:
            self._reason = None
            self._journal("disk.reopened", free=space.free, total=space.total, limit=limit)
        low = space.free < space.total * WARN_FRACTION
        if low and not self._low:
            self._journal("disk.low", free=space.free, total=space.total)
        self._low = low

    def _lose(self, file: str) -> None:
        """What is stored in a file without a name is gone with the process: nothing more is accepted."""
        reason = f"{file} was removed from the data directory: put it back, or stop the server and restore a backup."
        if reason != self._reason:
            self._journal("store.lost", file=file)
        self._reason = reason
