"""How the room of a volume is shared out: intake stops first, history before it, and dispatch can always settle.

Every share scales with the volume, down to one of 64 MB. All are bytes.
"""

from functools import lru_cache
from typing import NamedTuple

from recapito.domain import limits


class Shares(NamedTuple):
    """What each part may take of a volume.

    stop: intake closes when less than this would be left.
    floor: with less than this left, a lane whose endpoint fails sends nothing new, for it would have to be parked.
    least: this much stays free even where intake could write into free pages of its own file: the WALs need it.
    """

    stop: int
    floor: int
    least: int
    ballast: int
    history: int
    checkpoint: int
    wal_kept: int


class Room(NamedTuple):
    """The room that dispatch has for its file, and the floor of its volume."""

    free: int
    floor: int

    @property
    def short(self) -> bool:
        """True when what fails could use up the room that is needed to settle what succeeds."""
        return self.free < self.floor

    @property
    def for_requests(self) -> int:
        """How many bytes may be under way: if they fail they are parked, in the WAL and the file, and others follow."""
        return max(self.free, 0) // 4


class Space(NamedTuple):
    """The free bytes of a volume, all of its bytes, a file that was removed from it, and room inside the store's files.

    `damage` names the fault of a file that may be damaged. `reusable` is negative when more waits in the WAL to be
    copied into the file than the file has free pages.
    """

    free: int
    total: int
    lost: str = ""
    reusable: int = 0
    damage: str = ""

    @property
    def usable(self) -> int:
        """The room on the volume and in the files."""
        return self.free + self.reusable

    def fits(self, size: int, shares: Shares) -> bool:
        """Whether intake may write `size` bytes and leave to dispatch its share."""
        return self.free - size >= shares.least and self.usable - 2 * size >= shares.stop


@lru_cache(maxsize=8)
def share_out(
    total: int,
    stop_fraction: float = limits.DISK_STOP_FRACTION,
    stop_bytes: int = limits.DISK_STOP_BYTES,
    ballast_bytes: int = limits.BALLAST_BYTES,
) -> Shares:
    """The shares of a volume of so many bytes; the arguments are what an operator wants at most."""
    wanted = min(int(total * stop_fraction), stop_bytes)
    stop = max(wanted, min(limits.DISK_STOP_LEAST_BYTES, total // 8))
    return Shares(
        stop=stop,
        floor=stop // 2,
        least=stop // 4,
        ballast=min(ballast_bytes, total // 16),
        history=total // 8,
        checkpoint=min(limits.WAL_CHECKPOINT_BYTES, total // 64),
        wal_kept=min(limits.WAL_KEPT_BYTES, total // 32),
    )


def needed(content: int, segments: int) -> int:
    """What a commit of so much content writes at most: each segment begins pages of its own."""
    return content + 2 * limits.LOG_PAGE_BYTES * (segments + 1)
