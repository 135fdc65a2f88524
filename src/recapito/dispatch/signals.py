"""Bells and alarms: how the dispatcher's loops wait. A bell is rung by what happened, an alarm by the clock."""

import asyncio
import heapq
from collections.abc import Callable, Hashable
from itertools import count

from recapito.clock import Clock


class Signal:
    """Rung any number of times, heard once. It knows whether its listener waits, so that a lull can be told."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self._listening = False

    @property
    def silent(self) -> bool:
        """True when its listener waits and has nothing to hear."""
        return self._listening and not self._event.is_set()

    def ring(self) -> None:
        """Wake the listener, now or when it next listens."""
        self._event.set()

    async def wait(self) -> None:
        """Wait until it is rung."""
        self._listening = True
        try:
            await self._event.wait()
        finally:
            self._listening = False
        self._event.clear()


class Timers:
    """One alarm per key, kept in the order of time; only an earlier instant replaces one that is set."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._heap: list[tuple[int, int, Hashable]] = []
        self._set: dict[Hashable, tuple[int, Callable[[], None]]] = {}
        self._order = count()
        self._earlier = asyncio.Event()
        self._waiting = False

    @property
    def silent(self) -> bool:
        """True when it waits for the clock, and nothing has come due."""
        due = bool(self._heap) and self._heap[0][0] <= self._clock.now()
        return self._waiting and not due and not self._earlier.is_set()

    def set(self, key: Hashable, when: int, action: Callable[[], None]) -> None:
        """Call `action` at `when`, unless the key's alarm rings before that anyway."""
        if key in self._set and self._set[key][0] <= when:
            return
        self._set[key] = (when, action)
        heapq.heappush(self._heap, (when, next(self._order), key))
        if self._heap[0][2] == key:
            self._earlier.set()

    async def run(self) -> None:
        """Ring what comes due, for ever."""
        while True:
            self._earlier.clear()
            self._ring_due()
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

    def _ring_due(self) -> None:
        now = self._clock.now()
        while self._heap and self._heap[0][0] <= now:
            when, _, key = heapq.heappop(self._heap)
            if key in self._set and self._set[key][0] == when:
                self._set.pop(key)[1]()
