"""The simulation's clock: virtual time of the loop, plus what passed while the machine was suspended.

When a machine sleeps, boot time goes on and timers stand still. A sleeper looks again after a nap, as the system
clock does, so a jump is noticed a little later and never before.
"""

import asyncio
import random

from recapito.clock import LONGEST_NAP_S
from tests.sim.loop import SECOND, SimLoop

BEGINNING = 1_800_000_000 * SECOND


class SimClock:
    """A Clock on a SimLoop. `suspended_at` is when it last jumped, for checkers that must allow for it."""

    def __init__(self, loop: SimLoop, rng: random.Random) -> None:
        self._loop = loop
        self._rng = rng
        self._offset = BEGINNING
        self._sleepers: dict[asyncio.Future[None], int] = {}
        self.suspended_at: int | None = None

    def now(self) -> int:
        return self._offset + self._loop.now_ns

    async def sleep_until(self, when: int) -> None:
        while (left := when - self.now()) > 0:
            await self._nap(when, left)

    def suspend(self, duration: int) -> None:
        """The machine sleeps: time jumps, and every sleeper finds out within one nap."""
        self._offset += duration
        self.suspended_at = self.now()
        for woken in self._sleepers:
            self._loop.call_later(self._rng.uniform(0, LONGEST_NAP_S), _wake, woken)

    async def _nap(self, when: int, left: int) -> None:
        woken: asyncio.Future[None] = self._loop.create_future()
        timer = self._loop.call_later(left / SECOND, _wake, woken)
        self._sleepers[woken] = when
        try:
            await woken
        finally:
            timer.cancel()
            del self._sleepers[woken]


def _wake(woken: asyncio.Future[None]) -> None:
    if not woken.done():
        woken.set_result(None)
