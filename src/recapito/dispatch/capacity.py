"""Bounds on concurrent work: a window for each lane, slots for the whole process, and budgets for what lanes gather.

The law: a slow or dead endpoint holds at most its own window, and never the quarter of the slots that is kept for
lanes whose endpoint answered a moment ago. The more requests a lane has open, the less of that quarter it gets: many
endpoints that answered a moment ago may hang at once.
"""

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Protocol

from recapito.domain import limits
from recapito.domain.capacity import Meter, Rate, Room
from recapito.domain.instant import SECOND
from recapito.domain.resources.delivery_options import DeliveryOptions

RESPONSIVE_NS = 5 * SECOND
WOKEN = 4
KEPT_SHARE = 16  # a lane may hold one sixteenth of the free part of the kept quarter


class Window:
    """The number of requests of one lane that may be open: grows by one with each success, halves on a failure.

    Answered requests that wait for their commit do not burden the endpoint, but a crash would repeat them: a lane may
    have UNSETTLED_WINDOWS windows of those.
    """

    def __init__(self, size: int = limits.WINDOW_START, most: int = limits.WINDOW_REQUESTS) -> None:
        self.size = size
        self._most = most

    def room(self, open: int, unsettled: int) -> int:
        """The number of requests that may start."""
        return max(min(self.size, self.size * limits.UNSETTLED_WINDOWS - unsettled) - open, 0)

    def succeeded(self) -> None:
        if self.size < self._most:
            self.size += 1

    def failed(self) -> None:
        self.size = max(self.size // 2, 1)

    def restart(self) -> None:
        """Begin small: after a hold the endpoint gets its backlog without a stampede."""
        self.size = 1

    def __repr__(self) -> str:
        return f"<Window {self.size}>"


class Pace:
    """The limits that an operator set for one lane: requests in flight, and events per second.

    A batch has at most one second's worth of events, so in any N seconds at most N + 2 seconds' worth are sent. The
    rate spent is forgotten when the process ends.
    """

    def __init__(self) -> None:
        self._requests = 0
        self._rate = Rate()
        self._meter = Meter()

    def use(self, options: DeliveryOptions) -> None:
        """Keep these limits from now on."""
        self._requests = options.max_requests
        self._rate = Rate(options.events_per_second)

    def room(self, room: int, open: int) -> int:
        """The number of requests that may start, of those for which there is room."""
        return min(room, max(self._requests - open, 0)) if self._requests else room

    def events(self, limit: int) -> int:
        """The most events of a batch."""
        return min(limit, self._rate.events) if self._rate.events else limit

    def resumes_at(self, now: int) -> int | None:
        """The instant at which a request may start again; None if one may now."""
        wait = self._meter.wait(now) if self._rate.events else 0
        return now + wait if wait else None

    def sent(self, events: int, now: int) -> None:
        if self._rate.events:
            self._meter = self._meter.spend(self._rate, events, 0, now)

    def __repr__(self) -> str:
        return f"<Pace of {self._requests} requests, {self._rate.events} events per second>"


class CommitBudget:
    """A process-wide budget for staged rows, or for the bytes of retries in memory.

    Above `plenty` each lane may gather only `least` rows at a time, so that a commit stays short and memory bounded.
    """

    def __init__(self, plenty: int, most: int = limits.PARKED_SLICE, least: int = limits.PARKED_SLICE_LEAST) -> None:
        self.total = 0
        self._plenty = plenty
        self._most = most
        self._least = least
        self._of: dict[int, int] = {}

    @property
    def slice(self) -> int:
        """The number of rows that one lane may gather."""
        return self._most if self.total < self._plenty else self._least

    def count(self, lane: int, amount: int) -> None:
        """Replace a lane's share of the total."""
        self.total += amount - self._of.pop(lane, 0)
        if amount:
            self._of[lane] = amount

    def __repr__(self) -> str:
        return f"<CommitBudget {self.total} of {len(self._of)} lanes>"


def fitting(sizes: Iterable[int], limit: int) -> int:
    """How many sizes, from the first on, are within the limit together: one at least, if there is one."""
    total = count = 0
    for size in sizes:
        total += size
        if total > limit and count:
            break
        count += 1
    return count


class Waiter(Protocol):
    """Waits for a slot."""

    def wake(self) -> None:
        """There may be a free slot now."""


class Slots:
    """The requests and bytes that the whole process may have under way.

    `permit` returns whether this process may send now: the owner of a cluster needs a fresh lease. When it may again,
    `wake_all` is called.
    """

    def __init__(
        self,
        requests: int = limits.OPEN_EXCHANGES,
        size: int = limits.OPEN_BYTES,
        permit: Callable[[], bool] | None = None,
    ) -> None:
        self._permit = permit
        self._requests = requests
        self._size = size
        self.total = 0
        self.taken = 0
        self.taken_bytes = 0
        self._waiting: dict[bool, dict[Waiter, None]] = {True: {}, False: {}}  # by responsiveness
        self.closed = False  # the process is stopping: no request starts any more
        self.short = False  # of room to park what fails
        self._most = size

    def free(self, responsive: bool, open: int) -> int:
        """The number of requests that a lane with `open` ones may start before it asks again.

        A quarter is kept for responsive lanes.
        """
        barred = self.closed or (self._permit is not None and not self._permit())
        room = 0 if barred else self._room(responsive)
        kept = self._requests // 4
        if responsive and room <= kept:
            return int(open < max(room // KEPT_SHARE, min(room, 1)))
        if self.short or self.taken_bytes * 2 >= self._size:
            return min(room, 1)  # one at a time, so that its bytes count for the next
        return room - kept if responsive else max(room, 0)

    def allow(self, requests: int) -> None:
        """Bound the requests anew; those under way above the bound end by themselves."""
        self._requests = requests

    def fit(self, room: Room) -> None:
        """Keep the requests under way within the room that parking them would take."""
        self.short = room.short
        self._size = min(self._most, max(room.for_requests, 1))

    def take(self, size: int) -> None:
        self.total += 1
        self.taken += 1
        self.taken_bytes += size

    def give_back(self, size: int) -> None:
        """A request has ended: wake the lanes that waited first, if there is room.

        It wakes a few more than there is room for, and all when there is plenty: a woken lane may not want the slot any
        more, or may not be allowed to take it, and no other lane would be woken instead.
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

    def wake_all(self) -> None:
        """Wake every lane that waits."""
        for waiting in self._waiting.values():
            for waiter in list(waiting):
                del waiting[waiter]
                waiter.wake()

    def wait(self, waiter: Waiter, responsive: bool) -> None:
        """Be woken when there is room."""
        self._waiting[responsive][waiter] = None

    def _room(self, responsive: bool) -> int:
        """The number of requests that may start."""
        share = 1.0 if responsive else 0.75
        return int(self._requests * share) - self.taken if self.taken_bytes < self._size * share else 0
