"""The clock: never early, never backwards, and a manual one wakes everybody in the order of time."""

import asyncio
import time

from recapito.clock import SECOND, ClockOrigin, ManualClock, SystemClock, origin_now


def test_system_clock_is_origin_plus_elapsed_boot_time() -> None:
    """The wall clock is read once, at the origin: a step of it later changes nothing."""
    boot = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    clock = SystemClock(ClockOrigin(wall=1_000 * SECOND, boot=boot - 5 * SECOND))
    assert 1_005 * SECOND <= clock.now() < 1_015 * SECOND


def test_scaled_clock_runs_faster() -> None:
    """At rate 3600 an hour passes in a second."""
    boot = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    clock = SystemClock(ClockOrigin(wall=0, boot=boot - SECOND), rate=3600)
    assert 3600 * SECOND <= clock.now() < 7200 * SECOND


def test_sleep_is_never_early() -> None:
    """Who sleeps until an instant wakes at it or after it."""

    async def sleep() -> None:
        clock = SystemClock()
        when = clock.now() + SECOND // 100
        await clock.sleep_until(when)
        assert clock.now() >= when
        await clock.sleep_until(0)

    asyncio.run(sleep())


def test_origin_is_never_before_what_is_stored() -> None:
    """A wall clock that was set back between two runs does not make time go back."""
    future = time.time_ns() + 3600 * SECOND
    assert origin_now(not_before=future).wall == future
    assert origin_now().wall <= time.time_ns()


def test_a_date_far_ahead_is_not_believed() -> None:
    """A file that was touched, or written while the wall clock was wrong, moves time by an hour and not by years."""
    lead = origin_now(not_before=time.time_ns() + 10**9 * SECOND).wall - time.time_ns()
    assert 3590 * SECOND < lead <= 3600 * SECOND


def test_manual_clock_wakes_in_order() -> None:
    """Moving a manual clock wakes the sleepers whose instant has come, in order, and no others."""

    async def move() -> None:
        clock = ManualClock(100)
        woken: list[int] = []

        async def sleeper(when: int) -> None:
            await clock.sleep_until(when)
            woken.append(when)

        tasks = [asyncio.create_task(sleeper(when)) for when in (130, 110, 120, 100)]
        await asyncio.sleep(0)
        assert clock.next_instant() == 110
        clock.move_to(120)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert woken == [100, 110, 120]
        assert clock.next_instant() == 130
        clock.move_to(50)
        assert clock.now() == 120
        tasks[0].cancel()
        await asyncio.sleep(0)
        assert clock.next_instant() is None

    asyncio.run(move())
