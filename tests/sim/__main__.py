"""`python -m tests.sim --seeds N [--start S] [--seconds T]`, or `--seed S` to live through one history again."""

import argparse
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from tests.sim.cluster import tell_cluster
from tests.sim.machine import Parts
from tests.sim.storage import ReplicatedStorage, SqliteStorage
from tests.sim.world import Story, tell

CHUNK = 5  # seeds that a process takes at once


def main() -> int:
    """Run seeds; 1 if one of them fails."""
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description="Seeded simulation of the whole service.")
    parser.add_argument("--seeds", type=int, default=100, help="how many seeds to run")
    parser.add_argument("--start", type=int, default=0, help="the first seed")
    parser.add_argument("--seconds", type=float, default=None, help="stop after so many seconds")
    parser.add_argument("--seed", type=int, default=None, help="run this one seed")
    parser.add_argument("--workers", type=int, default=1, help="how many seeds at once")
    parser.add_argument("--sqlite", action="store_true", help="on real SQLite files instead of memory")
    parser.add_argument(
        "--cluster",
        action="store_true",
        help="on replicated files, and two nodes on faulty streams",
    )
    parser.add_argument("--digest", action="store_true", help="print the hash of each history")
    parser.add_argument("--quiet", action="store_true", help="no progress and no summary")
    options = parser.parse_args()
    if options.seed is not None:
        options.start, options.seeds = options.seed, 1
    return 1 if run_seeds(options) else 0


def run_seeds(options: argparse.Namespace) -> int:
    """Run them, some at once, with progress and a summary of what was run; how many failed."""
    began = time.perf_counter()
    totals: Counter[str] = Counter()
    failed = 0
    seeds = range(options.start, options.start + options.seeds)
    with ProcessPoolExecutor(options.workers) if options.workers > 1 else nullcontext() as pool:
        live = _live_in_cluster if options.cluster else partial(_live, options.sqlite)
        for lived in pool.map(live, seeds, chunksize=CHUNK) if pool else map(live, seeds):
            totals += lived.totals
            if options.digest:
                print(lived.seed, lived.digest)
            if lived.report:
                failed += 1
                print(lived.report, flush=True)
            if sys.stderr.isatty() and not options.quiet:
                print(f"\r{totals['seeds']} seeds, {failed} failed ", end="", file=sys.stderr)
            if options.seconds is not None and time.perf_counter() - began > options.seconds:
                break
        if pool:
            pool.shutdown(cancel_futures=True)
    if not options.quiet:
        print(_summary(totals, failed, time.perf_counter() - began))
    return failed


class Lived(NamedTuple):
    """The report of a seed: some figures, the hash of its history, and the violations, if any."""

    seed: int
    totals: Counter[str]
    digest: str
    report: str


def _live(sqlite: bool, seed: int) -> Lived:
    try:
        story = _tell_on_sqlite(seed) if sqlite else tell(seed)
    except BaseException:
        print(replay(seed), flush=True)
        raise
    return Lived(seed, _figures(story), story.digest, report(story) if story.violations else "")


def _live_in_cluster(seed: int) -> Lived:
    with TemporaryDirectory() as directory:
        told = tell_cluster(seed, Path(directory))
    if told.violation:
        return Lived(seed, Counter({"seeds": 1}), "", f"{replay(seed)} --cluster\n  {told.violation}")
    with TemporaryDirectory() as directory:
        story = tell(seed, Parts(storage=ReplicatedStorage(Path(directory))))
    return Lived(seed, told.counts + _figures(story), story.digest, report(story) if story.violations else "")


def _tell_on_sqlite(seed: int) -> Story:
    with TemporaryDirectory() as directory:
        return tell(seed, Parts(storage=SqliteStorage(Path(directory))))


def replay(seed: int) -> str:
    """How to live through a history again."""
    return f"SEED={seed} replay with: python -m tests.sim --seed {seed}"


def report(story: Story) -> str:
    """The violations of a history, the command that replays it, and the trace around them."""
    lines = [replay(story.seed)]
    lines += [f"  {violation}" for violation in story.violations[:5]]
    lines += [f"    {line}" for line in story.excerpt()]
    return "\n".join(lines)


def _figures(story: Story) -> Counter[str]:
    return Counter(
        {
            "seeds": 1,
            "virtual minutes": int(story.virtual_s / 60),
            "faults": story.faults.total(),
            "crashes": story.crashes,
            "events": story.events,
            "attempts": story.attempts,
            "duplicates": story.duplicates,
        }
    )


def _summary(totals: Counter[str], failed: int, took_s: float) -> str:
    hours = totals.pop("virtual minutes", 0) // 60
    figures = ", ".join(f"{count:,} {name}" for name, count in totals.items())
    return f"{figures}; {hours:,} virtual hours in {took_s:.1f} s ({hours / took_s:,.0f} a second); {failed} failed"


if __name__ == "__main__":
    sys.exit(main())
