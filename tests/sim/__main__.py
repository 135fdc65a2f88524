"""`python -m tests.sim --seeds N [--start S] [--seconds T]`, or `--seed S` to live through one history again."""

import argparse
import sys
import time
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.sim.machine import Parts
from tests.sim.storage import SqliteStorage
from tests.sim.world import Story, tell


def main() -> int:
    """Run seeds; 1 if one of them fails."""
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description="Seeded simulation of the whole service.")
    parser.add_argument("--seeds", type=int, default=100, help="how many seeds to run")
    parser.add_argument("--start", type=int, default=0, help="the first seed")
    parser.add_argument("--seconds", type=float, default=None, help="stop after so many seconds")
    parser.add_argument("--seed", type=int, default=None, help="run this one seed")
    parser.add_argument("--sqlite", action="store_true", help="on real SQLite files instead of memory")
    parser.add_argument("--digest", action="store_true", help="print the hash of each history")
    parser.add_argument("--quiet", action="store_true", help="no progress and no summary")
    options = parser.parse_args()
    if options.seed is not None:
        options.start, options.seeds = options.seed, 1
    return 1 if run_seeds(options) else 0


def run_seeds(options: argparse.Namespace) -> int:
    """Run them one after the other, with progress and a summary; how many failed."""
    began = time.perf_counter()
    totals: Counter[str] = Counter()
    failed = 0
    for seed in range(options.start, options.start + options.seeds):
        if options.seconds is not None and time.perf_counter() - began > options.seconds:
            break
        try:
            story = _tell_on_sqlite(seed) if options.sqlite else tell(seed)
        except BaseException:
            print(replay(seed), flush=True)
            raise
        _add(totals, story)
        if options.digest:
            print(seed, story.digest)
        if story.violations:
            failed += 1
            print(report(story), flush=True)
        if sys.stderr.isatty() and not options.quiet:
            print(f"\r{totals['seeds']} seeds, {failed} failed ", end="", file=sys.stderr)
    if not options.quiet:
        print(_summary(totals, failed, time.perf_counter() - began))
    return failed


def _tell_on_sqlite(seed: int) -> Story:
    with TemporaryDirectory() as directory:
        return tell(seed, Parts(storage=SqliteStorage(Path(directory))))


def replay(seed: int) -> str:
    """How to live through a history again."""
    return f"SEED={seed} replay with: python -m tests.sim --seed {seed}"


def report(story: Story) -> str:
    """What went wrong in a history, how to live through it again, and what happened around it."""
    lines = [replay(story.seed)]
    lines += [f"  {violation}" for violation in story.violations[:5]]
    lines += [f"    {line}" for line in story.excerpt()]
    return "\n".join(lines)


def _add(totals: Counter[str], story: Story) -> None:
    totals["seeds"] += 1
    totals["virtual minutes"] += int(story.virtual_s / 60)
    totals["faults"] += story.faults.total()
    totals["crashes"] += story.crashes
    totals["events"] += story.events
    totals["attempts"] += story.attempts
    totals["duplicates"] += story.duplicates


def _summary(totals: Counter[str], failed: int, took_s: float) -> str:
    hours = totals.pop("virtual minutes") // 60
    figures = ", ".join(f"{count:,} {name}" for name, count in totals.items())
    return f"{figures}; {hours:,} virtual hours in {took_s:.1f} s ({hours / took_s:,.0f} a second); {failed} failed"


if __name__ == "__main__":
    sys.exit(main())
