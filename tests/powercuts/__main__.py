"""`python -m tests.powercuts --cuts N [--start S]`: cuts the power under the real SQLite, and looks at what is left.

The harness is that of `tests/system/test_power_loss.py`; each seed is a disk that loses its power eight times.
"""

import argparse
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial

from recapito.errors import StoreFailed
from tests.system.power_loss_disk import Disk, PowerLossVFS
from tests.system.power_loss_lives import LIVES, live_and_lose_power
from tests.system.power_loss_world import Lost, World

CHUNK = 25


def main() -> int:
    """Cut, and say what was lost; 1 if anything was."""
    parser = argparse.ArgumentParser(prog="python -m tests.powercuts", description="Simulated power cuts.")
    parser.add_argument("--cuts", type=int, default=10_000, help="how often to cut")
    parser.add_argument("--start", type=int, default=0, help="the first seed")
    parser.add_argument("--workers", type=int, default=2, help="how many disks at once")
    parser.add_argument("--seconds", type=float, default=None, help="stop after this number of seconds")
    parser.add_argument("--synchronous", default="FULL", help="SQLite's setting; a weaker one loses")
    options = parser.parse_args()
    began = time.perf_counter()
    seeds = range(options.start, options.start + -(-options.cuts // LIVES))
    chunks = [range(at, min(at + CHUNK, seeds.stop)) for at in range(seeds.start, seeds.stop, CHUNK)]
    deadline = None if options.seconds is None else time.time() + options.seconds
    done, failed = 0, 0
    with ProcessPoolExecutor(options.workers) as pool:
        for lived, losses in pool.map(partial(live, options.synchronous, deadline), chunks):
            done += lived
            failed += len(losses)
            for loss in losses:
                print(loss, flush=True)
    print(summary(done, seeds.start, failed, time.perf_counter() - began))
    return 1 if failed else 0


def live(synchronous: str, deadline: float | None, seeds: range) -> tuple[int, list[str]]:
    """Live through some seeds, unless it is too late; how many, and what each that failed lost."""
    losses: list[str] = []
    if deadline is not None and time.time() > deadline:
        return 0, losses
    vfs = PowerLossVFS(Disk(0))
    try:
        for seed in seeds:
            try:
                with World(vfs, seed, synchronous) as world:
                    live_and_lose_power(world, LIVES)
            except (Lost, StoreFailed) as loss:
                losses.append(f"SEED={seed} replay with: python -m tests.powercuts --start {seed} --cuts 1\n  {loss}")
    finally:
        vfs.unregister()
    return len(seeds), losses


def summary(seeds: int, start: int, failed: int, took_s: float) -> str:
    """One line for the record. A disk that is cut again while it recovers counts once."""
    last = start + seeds - 1
    return f"power cuts: {seeds * LIVES:,} (seeds {start}–{last}), {failed} disks lost something; {took_s:.0f} s"


if __name__ == "__main__":
    sys.exit(main())
