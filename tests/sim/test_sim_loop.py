"""The simulation itself: virtual time, no threads, and one history for one seed."""

import asyncio
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.sim.clock import SimClock
from tests.sim.loop import Deadlock, Livelock, SimLoop, run
from tests.sim.world import tell

ROOT = Path(__file__).parents[2]


def test_time_is_virtual() -> None:
    """A day of sleeping takes no time."""

    async def main(loop: SimLoop) -> float:
        await asyncio.sleep(86_400)
        return loop.time()

    began = time.perf_counter()
    assert run(0, main) == pytest.approx(86_400)
    assert time.perf_counter() - began < 5


def test_a_deadlock_is_an_error() -> None:
    """When nothing can happen any more the loop says so instead of hanging."""

    async def main(loop: SimLoop) -> None:
        await loop.create_future()

    with pytest.raises(Deadlock):
        run(0, main)


def test_a_livelock_is_an_error() -> None:
    """A task that spins while time stands still is found."""

    async def main(loop: SimLoop) -> None:
        while True:
            await asyncio.sleep(0)

    with pytest.raises(Livelock):
        run(0, main)


def test_threads_are_forbidden() -> None:
    """Nothing in the simulation may leave the loop."""

    async def main(loop: SimLoop) -> None:
        await asyncio.to_thread(print)

    with pytest.raises(RuntimeError, match="forbidden"):
        run(0, main)


@pytest.mark.parametrize("count", [2, 7])
def test_the_order_of_what_is_ready_is_the_seeds(count: int) -> None:
    """Two seeds run ready tasks in two orders, and one seed always in the same."""

    def order(seed: int) -> list[int]:
        ran: list[int] = []

        async def note(n: int) -> None:
            ran.append(n)

        async def main(loop: SimLoop) -> None:
            await asyncio.gather(*(note(n) for n in range(count)))

        run(seed, main)
        return ran

    assert order(1) == order(1)
    assert len({tuple(order(seed)) for seed in range(20)}) > 1


def test_a_suspended_machine_notices_within_one_nap() -> None:
    """Boot time jumps while timers stand still; a sleeper wakes a little later, and never early."""

    async def main(loop: SimLoop) -> tuple[int, float]:
        clock = SimClock(loop, random.Random(0))
        when = clock.now() + 3_600_000_000_000
        sleeper = asyncio.ensure_future(clock.sleep_until(when))
        await asyncio.sleep(10)
        clock.suspend(7_200_000_000_000)
        await sleeper
        return clock.now() - when, loop.time()

    late, woken_s = run(0, main)
    assert late >= 0
    assert 10 <= woken_s <= 15.1


@pytest.mark.parametrize("seed", [1, 2, 3, 4, 5])
def test_one_seed_is_one_history(seed: int) -> None:
    """The same seed gives the same trace, to the nanosecond."""
    assert tell(seed).digest == tell(seed).digest


def test_a_history_does_not_depend_on_the_process() -> None:
    """The order of sets and the hashing of strings have no part in a history."""

    def digests(hash_seed: str) -> str:
        command = [sys.executable, "-m", "tests.sim", "--start", "6", "--seeds", "3", "--digest", "--quiet"]
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True).stdout

    assert digests("1") == digests("2") != ""
