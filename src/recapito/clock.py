"""The clock: the only source of time, and the only thing that waits.

Instants are nanoseconds since 1970. The system clock is wall time at its origin plus elapsed boot time, so that a step
of the wall clock neither expires an event nor keeps it longer; the manual clock stands still until it is moved.
"""

import asyncio
import heapq
import time
from itertools import count
from typing import NamedTuple, Protocol

SECOND = 1_000_000_000
LONGEST_LEAD_NS = 3600 * SECOND
LONGEST_NAP_S = 5.0  # a suspended machine stops the loop's timers, but not boot time: look again now and then


class Clock(Protocol):
    """Every rule about time uses a Clock."""

    def now(self) -> int:
        """This instant."""

    async def sleep_until(self, when: int) -> None:
        """Return at `when` or a little later, at once if it has passed; never earlier."""


class ClockOrigin(NamedTuple):
    """The instant at which a clock began: wall time and boot time, read together. Processes share one."""

    wall: int
    boot: int


def origin_now(not_before: int = 0) -> ClockOrigin:
    """An origin at this moment, not before `not_before`, the instant of the last write, but at most an hour ahead.

    A file with a date far ahead must not end the time to live of every event.
    """
    wall = time.time_ns()
    return ClockOrigin(max(wall, min(not_before, wall + LONGEST_LEAD_NS)), time.clock_gettime_ns(time.CLOCK_BOOTTIME))


class SystemClock:
    """Real time, or a multiple of it: at rate 3600 an hour passes in a second."""

    def __init__(self, origin: ClockOrigin | None = None, rate: int = 1) -> None:
        self._origin = origin or origin_now()
        self._rate = rate

    def now(self) -> int:
        elapsed = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - self._origin.boot
        return self._origin.wall + elapsed * self._rate

    async def sleep_until(self, when: int) -> None:
        while (left := when - self.now()) > 0:
            await asyncio.sleep(min(left / SECOND / self._rate, LONGEST_NAP_S))


class ManualClock:
    """A clock that stands still. `next_instant` is the first instant that is waited for; `move_to` goes there."""

    def __init__(self, start: int) -> None:
        self._now = start
        self._sleepers: list[tuple[int, int, asyncio.Future[None]]] = []
        self._order = count()

    def now(self) -> int:
        return self._now

    async def sleep_until(self, when: int) -> None:
        if when <= self._now:
            return
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (when, next(self._order), woken))
        await woken

    def next_instant(self) -> int | None:
        """The earliest instant that a task sleeps until."""
        while self._sleepers and self._sleepers[0][2].done():
            heapq.heappop(self._sleepers)
        return self._sleepers[0][0] if self._sleepers else None

    def move_to(self, when: int) -> None:
        """Set the time, never back, and wake the tasks whose instant has come."""
        self._now = max(self._now, when)
        while (instant := self.next_instant()) is not None and instant <= self._now:
            heapq.heappop(self._sleepers)[2].set_result(None)
