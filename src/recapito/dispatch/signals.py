"""How the loops of dispatch wait: for a signal that something happened, or for an instant of the clock."""

import asyncio
import heapq
from collections.abc import Awaitable, Callable, Hashable
from itertools import count

from recapito.clock import SECOND, Clock
from recapito.errors import StoreDamaged, StoreFailed
from recapito.observability.journal import Journal, Trouble

REOPEN_PAUSE_NS = SECOND // 5
DAMAGED_PAUSE_NS = 10 * SECOND


class Signal:
    """Set any number of times, waited for by one loop. It knows whether its loop waits, so that a lull can be seen."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self._waiting = False

    @property
    def idle(self) -> bool:
        """True when the loop waits and the signal is not set."""
        return self._waiting and not self._event.is_set()

    def set(self) -> None:
        """Wake the loop, now or when it next waits."""
        self._event.set()

    async def wait(self) -> None:
        self._waiting = True
        try:
            await self._event.wait()
        finally:
            self._waiting = False
        self._event.clear()


class Timers:
    """One timer for each key, kept in the order of time; only an earlier instant replaces one that is set."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._heap: list[tuple[int, int, Hashable]] = []
        self._set: dict[Hashable, tuple[int, Callable[[], None]]] = {}
        self._order = count()
        self._earlier = asyncio.Event()
        self._waiting = False

    @property
    def idle(self) -> bool:
        """True when it waits for the clock, and no timer is due."""
        due = bool(self._heap) and self._heap[0][0] <= self._clock.now()
        return self._waiting and not due and not self._earlier.is_set()

    def set(self, key: Hashable, when: int, action: Callable[[], None]) -> None:
        """Call `action` at `when`, unless the key has an earlier timer."""
        if key in self._set and self._set[key][0] <= when:
            return
        self._set[key] = (when, action)
        heapq.heappush(self._heap, (when, next(self._order), key))
        if self._heap[0][2] == key:
            self._earlier.set()

    async def run(self) -> None:
        """Call what comes due, until cancelled."""
        while True:
            self._earlier.clear()
            self._call_due()
            naps: list[asyncio.Future[object]] = [asyncio.ensure_future(self._earlier.wait())]
            if self._heap:
                naps.append(asyncio.ensure_future(self._nap(self._heap[0][0])))
            self._waiting = not self._heap
            try:
                await asyncio.wait(naps, return_when=asyncio.FIRST_COMPLETED)
            finally:
                self._waiting = False
                for nap in naps:
                    nap.cancel()

    async def _nap(self, until: int) -> None:
        self._waiting = True  # only now, when the clock is about to know of it
        await self._clock.sleep_until(until)

    def _call_due(self) -> None:
        now = self._clock.now()
        while self._heap and self._heap[0][0] <= now:
            when, _, key = heapq.heappop(self._heap)
            if key in self._set and self._set[key][0] == when:
                self._set.pop(key)[1]()


class StoreRetry:
    """Repeats work whose store failed, after a pause in which the store puts itself back on what is stored."""

    def __init__(self, housekeeping: Clock, journal: Journal) -> None:
        self._housekeeping = housekeeping
        self._journal = journal
        self._damage = Trouble()

    async def pause(self, error: StoreFailed, pause_ns: int = REOPEN_PAUSE_NS) -> None:
        """Report the failure and wait. Damage lasts until a person has repaired it, and is reported once."""
        if not isinstance(error, StoreDamaged) or self._damage.is_news(str(error)):
            self._journal("store.failed", why=str(error))
        await self._housekeeping.sleep_until(self._housekeeping.now() + pause_ns)

    async def run(self, signal: Signal, work: Callable[[], Awaitable[None]]) -> None:
        """Do the work whenever the signal is set, until cancelled."""
        while True:
            await signal.wait()
            try:
                await work()
            except StoreFailed as error:
                await self.pause(error)
                signal.set()
