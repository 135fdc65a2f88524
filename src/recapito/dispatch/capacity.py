"""How much may be under way: a window per lane that follows how its endpoint answers, and slots for the whole process.

The law: a slow or dead endpoint holds at most its own window, and never the quarter of the slots that is kept for
lanes whose endpoint answered a moment ago. Of that quarter a lane gets the less the more it has open already: many
that answered a moment ago may hang at once.
"""

from collections.abc import Iterable
from itertools import islice
from typing import Protocol

from recapito.domain import limits
from recapito.domain.capacity import Room
from recapito.domain.instant import SECOND

RESPONSIVE_NS = 5 * SECOND
WOKEN = 4
KEPT_SHARE = 16  # a lane may hold one part in so many of what is left of the kept quarter


class Window:
    """The number of requests of one lane that may be open: grows by one with each success, halves on a failure.

    Answered requests that wait for their commit do not burden the endpoint, but a crash would repeat them: there may
    be a few windows of those.
    """

    def __init__(self, size: int = limits.WINDOW_START, most: int = limits.WINDOW_REQUESTS) -> None:
        self.size = size
        self._most = most

    def room(self, open: int, unsettled: int) -> int:
        """How many more requests may start."""
        return max(min(self.size, self.size * limits.UNSETTLED_WINDOWS - unsettled) - open, 0)

    def succeeded(self) -> None:
        """An endpoint that answers well gets more."""
        if self.size < self._most:
            self.size += 1

    def failed(self) -> None:
        """One that does not gets less, but never nothing."""
        self.size = max(self.size // 2, 1)

    def restart(self) -> None:
        """After a hold the endpoint gets its backlog without a stampede."""
        self.size = 1

    def __repr__(self) -> str:
        return f"<Window {self.size}>"


class CommitBudget:
    """What lanes have gathered, all together, in rows for their next commit or in bytes of retries: it must not take so
    long to commit, nor so much memory, that others feel it. When it is plenty, each lane gathers a few rows at a time.
    """

    def __init__(self, plenty: int, most: int = limits.PARKED_SLICE, least: int = limits.PARKED_SLICE_LEAST) -> None:
        self.total = 0
        self._plenty = plenty
        self._most = most
        self._least = least
        self._of: dict[int, int] = {}

    @property
    def slice(self) -> int:
        """How many rows one lane may gather."""
        return self._most if self.total < self._plenty else self._least

    def count(self, lane: int, amount: int) -> None:
        """A lane has gathered so much by now."""
        self.total += amount - self._of.pop(lane, 0)
        if amount:
            self._of[lane] = amount

    def __repr__(self) -> str:
        return f"<Gathering {self.total} of {len(self._of)} lanes>"


def fitting(sizes: Iterable[int], limit: int) -> int:
    """How many of these, from the first on, are within a limit together: one at least, if there is one."""
    total = count = 0
    for size in sizes:
        total += size
        if total > limit and count:
            break
        count += 1
    return count


class Waiter(Protocol):
    """Somebody who waits for a slot."""

    def wake(self) -> None:
        """There may be one now."""


class Slots:
    """The requests and bytes that the whole process may have under way."""

    def __init__(self, requests: int = limits.OPEN_EXCHANGES, size: int = limits.OPEN_BYTES) -> None:
        self._requests = requests
        self._size = size
        self.total = 0
        self.taken = 0
        self.taken_bytes = 0
        self._waiting: dict[bool, dict[Waiter, None]] = {True: {}, False: {}}  # by whether they are responsive
        self.closed = False  # the process is stopping: what is under way may finish, nothing new starts
        self.short = False  # of room to park what fails
        self._most = size

    def free(self, responsive: bool, open: int) -> int:
        """How many more requests a lane with so many open ones may start before it asks again.

        A quarter is kept for the responsive ones.
        """
        room = 0 if self.closed else self._room(responsive)
        kept = self._requests // 4
        if responsive and room <= kept:
            return int(open < max(room // KEPT_SHARE, min(room, 1)))
        if self.short or self.taken_bytes * 2 >= self._size:
            return min(room, 1)  # one at a time, so that its bytes count for the next
        return room - kept if responsive else max(room, 0)

    def fit(self, room: Room) -> None:
        """Keep what is under way within what could be parked."""
        self.short = room.short
        self._size = min(self._most, max(room.for_requests, 1))

    def take(self, size: int) -> None:
        """One more request, of so many bytes, is under way."""
        self.total += 1
        self.taken += 1
        self.taken_bytes += size

    def give_back(self, size: int) -> None:
        """It is not under way any more; who waited first among their kind are woken, if there is room.

        A few more than there is room for, and all when there is plenty: those that were woken might not want it any
        more, or not be allowed to, and nobody else would ever hear of it.
        """
        self.taken -= 1
        self.taken_bytes -= size
        if not (self._waiting[True] or self._waiting[False]):
            return
        plenty = self.taken < self._requests // 2 and self.taken_bytes < self._size // 2
        for responsive, waiting in self._waiting.items():
            room = self._room(responsive)
            woken = len(waiting) if plenty else max(room, WOKEN) if room > 0 else 0
            for waiter in list(islice(waiting, woken)):
                del waiting[waiter]
                waiter.wake()

    def wait(self, waiter: Waiter, responsive: bool) -> None:
        """Be woken when there is room."""
        self._waiting[responsive][waiter] = None

    def _room(self, responsive: bool) -> int:
        """How many requests more may start."""
        share = 1.0 if responsive else 0.75
        return int(self._requests * share) - self.taken if self.taken_bytes < self._size * share else 0
