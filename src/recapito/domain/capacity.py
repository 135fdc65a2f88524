"""How much is taken in and sent: rates, the wait of a publish, the shares of a volume.

Rate: a publish passes while its topic is not in debt, and may bring it into debt. Unused rate is saved up for one
second at most, so even a publish larger than a second's worth passes in the end. A request of a subscription with a
rate passes by the same rule.

Wait: the whole queue goes into one commit, so its length matters only where commits are so large that their time
grows with them. The fixed cost of a commit of one publish must not be taken for the cost of each of a thousand.

Shares: intake stops first, history before it, and dispatch can always settle. Every share scales with the volume,
down to one of 64 MB, and is in bytes.
"""

from functools import lru_cache
from typing import NamedTuple

from recapito.domain import limits
from recapito.domain.instant import SECOND

LARGE_COMMIT = 64


class Rate(NamedTuple):
    """The most that a topic takes, or a subscription sends, in a second; 0 is no limit."""

    events: int = 0
    bytes: int = 0


class Meter(NamedTuple):
    """The instants until which a rate is spent, counted in events and in bytes."""

    events_until: int = 0
    bytes_until: int = 0

    def wait(self, now: int) -> int:
        """Nanoseconds until a publish passes; 0 if one does now."""
        return max(0, self.events_until - now, self.bytes_until - now)

    def spend(self, rate: Rate, events: int, size: int, now: int) -> "Meter":
        """The meter after a publish that passes now."""
        return Meter(
            _spend(self.events_until, rate.events, events, now),
            _spend(self.bytes_until, rate.bytes, size, now),
        )


def _spend(until: int, per_second: int, amount: int, now: int) -> int:
    if not per_second:
        return 0
    return max(until, now - SECOND) + amount * SECOND // per_second


def share_of_requests(most: int, owned: int) -> int:
    """The requests that one of the `owned` partitions of a node may have under way; `most` are the node's, 0: any."""
    share = most // max(owned, 1) if most else limits.OPEN_EXCHANGES
    return min(max(share, limits.OPEN_EXCHANGES_LEAST), limits.OPEN_EXCHANGES)


class LastCommit(NamedTuple):
    """The nanoseconds that the last commit took, and its number of publishes."""

    took: int = 0
    publishes: int = 0


def expected_wait(last: LastCommit, running_since: int | None, waiting: int, now: int) -> int:
    """Nanoseconds until a publish that joins the queue now is stored.

    `running_since` is the start of the commit under way; with None there is none, and the wait is 0. A commit that
    takes longer than the last one sets the pace itself.
    """
    if running_since is None:
        return 0
    elapsed = now - running_since
    growth = max(1.0, waiting / last.publishes) if last.publishes >= LARGE_COMMIT else 1.0
    return max(0, last.took - elapsed) + max(int(last.took * growth), elapsed)


class Shares(NamedTuple):
    """The share of a volume that each part may take.

    stop: intake closes when less than this would be left.
    floor: with less than this left, a lane whose endpoint fails sends nothing new, because it would have to be parked.
    least: stays free even where intake could write into free pages of its own file, because the WALs need it.
    """

    stop: int
    floor: int
    least: int
    ballast: int
    history: int
    checkpoint: int
    wal_kept: int


class StreamRoom(NamedTuple):
    """The bytes that intake may have in the stream of a cluster's log, and those that are left of them."""

    stream: str
    left: int
    bound: int

    def fits(self, size: int) -> bool:
        """Whether `size` bytes fit: a compaction that is under way puts as much again."""
        return self.left >= max(2 * size, 1)


class Space(NamedTuple):
    """The free bytes of a volume, all of its bytes, a file that was removed from it, and room inside the store's files.

    `damage` describes what is wrong with an existing file. `reusable` is negative when more bytes wait in the WAL to be
    copied into the file than the file has free pages. `stream` is None on a server of its own.
    """

    free: int
    total: int
    lost: str = ""
    reusable: int = 0
    damage: str = ""
    stream: StreamRoom | None = None

    @property
    def usable(self) -> int:
        return self.free + self.reusable

    def fits(self, size: int, shares: Shares) -> bool:
        """Whether intake may write `size` bytes to the volume and still leave dispatch its share."""
        return self.free - size >= shares.least and self.usable - 2 * size >= shares.stop


class Room(NamedTuple):
    """The room that dispatch has for its file, and the floor of its volume."""

    free: int
    floor: int

    @property
    def short(self) -> bool:
        """True when failures could use up the room that is needed to settle successes."""
        return self.free < self.floor

    @property
    def for_requests(self) -> int:
        """Bytes that may be under way: if they fail they are parked, in the WAL and the file, and others follow."""
        return max(self.free, 0) // 4


@lru_cache(maxsize=8)
def share_out(
    total: int,
    stop_fraction: float = limits.DISK_STOP_FRACTION,
    stop_bytes: int = limits.DISK_STOP_BYTES,
    ballast_bytes: int = limits.BALLAST_BYTES,
) -> Shares:
    """The shares of a volume of `total` bytes; the other arguments are the operator's upper bounds."""
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
    """The most bytes that a commit with `content` bytes writes: each segment begins pages of its own."""
    return content + 2 * limits.LOG_PAGE_BYTES * (segments + 1)
