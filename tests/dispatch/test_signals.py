"""Timers: whether they wait, and when they call."""

import asyncio

from recapito.clock import ManualClock
from recapito.dispatch.signals import Timers
from tests.sim.loop import SimLoop, run


def test_timers_are_idle_only_while_they_wait() -> None:
    """Timers whose loop does not run, or has a call to make, are not idle."""

    async def main(loop: SimLoop) -> list[bool]:
        timers = Timers(ManualClock(0))
        idle = [timers.idle]
        running = asyncio.create_task(timers.run())
        idle.append(timers.idle)
        await asyncio.sleep(1)
        idle.append(timers.idle)
        timers.set("key", 0, lambda: None)
        idle.append(timers.idle)
        await asyncio.sleep(1)
        idle.append(timers.idle)
        running.cancel()
        return idle

    assert run(1, main) == [False, False, True, False, True]


def test_a_timer_that_was_replaced_calls_at_no_old_instant() -> None:
    """A key that was set to 10 and then to 5 is called at 5, and set anew to 20 it is called at 20, not at 10."""

    async def main(loop: SimLoop) -> list[int]:
        clock = ManualClock(0)
        timers, called = Timers(clock), list[int]()
        running = asyncio.create_task(timers.run())
        for instants, then in (((10, 5), 5), ((20,), 10), ((), 20)):
            for instant in instants:
                timers.set("key", instant, lambda: called.append(clock.now()))
            await asyncio.sleep(1)
            clock.move_to(then)
            await asyncio.sleep(1)
        running.cancel()
        return called

    assert run(1, main) == [5, 20]
