"""`python -m tests.sim --seeds N [--start S] [--seconds T]`, or `--seed S` to live through one history again."""

import argparse
import gc
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from tests.sim.cluster import tell_cluster
from tests.sim.machine import Parts
from tests.sim.partitions import tell_partitions
from tests.sim.storage import ReplicatedStorage, SqliteStorage
from tests.sim.world import Story, tell

CHUNK = 5  # seeds that a process takes at once
PROGRESS_S = 10.0
GARBAGE = 100_000  # objects between two collections: a history is short, and most of its garbage has no cycles
INTERRUPTED = 130


def main() -> int:
    """Run seeds; 1 if one of them fails."""
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description="Seeded simulation of the whole service.")
    parser.add_argument("--seeds", type=int, default=100, help="how many seeds to run")
    parser.add_argument("--start", type=int, default=0, help="the first seed")
    parser.add_argument("--seconds", type=float, default=None, help="stop after this number of seconds")
    parser.add_argument("--seed", type=int, default=None, help="run this one seed")
    parser.add_argument("--workers", type=int, default=1, help="how many seeds at once")
    parser.add_argument("--sqlite", action="store_true", help="on real SQLite files instead of memory")
    parser.add_argument(
        "--cluster",
        action="store_true",
        help="on replicated files, two nodes on faulty streams, and several partitions",
    )
    parser.add_argument("--digest", action="store_true", help="print the hash of each history")
    parser.add_argument("--quiet", action="store_true", help="no progress and no summary")
    options = parser.parse_args()
    if options.seed is not None:
        options.start, options.seeds = options.seed, 1
    run = Run(options)
    for stop in (signal.SIGINT, signal.SIGTERM):
        signal.signal(stop, run.interrupt)
    return run.run()


class Run:
    """Runs seeds, some at once, with a line of progress every ten seconds and a summary at its end."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._totals: Counter[str] = Counter()
        self._failed = 0
        self._interrupted = False
        self._began = self._shown = time.perf_counter()

    def interrupt(self, number: int, frame: object) -> None:
        """Stop after the seeds that are under way; a second signal ends the process at once."""
        self._interrupted = True
        signal.signal(number, signal.SIG_DFL)

    def run(self) -> int:
        """The exit status: 1 if a seed failed, 130 if the run was interrupted before its end."""
        self._run_all()
        if not self._options.quiet:
            said = "interrupted: " if self._interrupted else ""
            print(said + _summary(self._totals, self._failed, self._took_s))
        return 1 if self._failed else INTERRUPTED if self._interrupted else 0

    def _run_all(self) -> None:
        options = self._options
        seeds = range(options.start, options.start + options.seeds)
        live = _live_in_cluster if options.cluster else partial(_live, options.sqlite)
        if options.workers == 1:
            _prepare()
            self._hear(map(live, seeds))
            return
        with ProcessPoolExecutor(options.workers, initializer=_prepare_worker) as pool:
            try:
                self._hear(pool.map(live, seeds, chunksize=CHUNK))
            finally:
                pool.shutdown(cancel_futures=True)

    def _hear(self, lives: Iterable["Lived"]) -> None:
        for lived in lives:
            self._totals += lived.totals
            if self._options.digest:
                print(lived.seed, lived.digest)
            if lived.report:
                self._failed += 1
                print(lived.report, flush=True)
            if not self._options.quiet:
                self._show_progress()
            late = self._options.seconds is not None and self._took_s > self._options.seconds
            if late or self._interrupted:
                return

    def _show_progress(self) -> None:
        if time.perf_counter() - self._shown < PROGRESS_S:
            return
        self._shown = time.perf_counter()
        done = self._totals["seeds"]
        said = f"{done:,} of {self._options.seeds:,} seeds, {self._failed} failed, {done / self._took_s:.1f} a second"
        print(said, file=sys.stderr, flush=True)

    @property
    def _took_s(self) -> float:
        return time.perf_counter() - self._began


def _prepare() -> None:
    gc.freeze()
    gc.set_threshold(GARBAGE)


def _prepare_worker() -> None:
    """An interruption is for the parent, which waits until each worker has ended its seeds."""
    _prepare()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


class Lived(NamedTuple):
    """The report of a seed: some figures, the hash of its history, and the violations, if any."""

    seed: int
    totals: Counter[str]
    digest: str
    report: str


def _live(sqlite: bool, seed: int) -> Lived:
    try:
        story = _tell_on_sqlite(seed) if sqlite else tell(seed)
    except Exception:
        return Lived(seed, Counter(seeds=1), "", f"{replay(seed)}\n{traceback.format_exc()}")
    return Lived(seed, _figures(story), story.digest, report(story) if story.violations else "")


def _live_in_cluster(seed: int) -> Lived:
    with TemporaryDirectory() as directory:
        told = tell_cluster(seed, Path(directory))
    if told.violation:
        return Lived(seed, Counter({"seeds": 1}), "", f"{replay(seed)} --cluster\n  {told.violation}")
    shared = tell_partitions(seed)
    if shared.violation:
        return Lived(seed, Counter({"seeds": 1}), "", f"{replay(seed)} --cluster\n  {': '.join(shared.violation)}")
    with TemporaryDirectory() as directory:
        story = tell(seed, Parts(storage=ReplicatedStorage(Path(directory))))
    return Lived(
        seed, told.counts + shared.counts + _figures(story), story.digest, report(story) if story.violations else ""
    )


def _tell_on_sqlite(seed: int) -> Story:
    with TemporaryDirectory() as directory:
        return tell(seed, Parts(storage=SqliteStorage(Path(directory), small_pages=True)))


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
    hours = totals["virtual minutes"] // 60
    figures = ", ".join(f"{count:,} {name}" for name, count in totals.items() if name != "virtual minutes")
    return f"{figures}; {hours:,} virtual hours in {took_s:.1f} s ({hours / took_s:,.0f} a second); {failed} failed"


if __name__ == "__main__":
    sys.exit(main())
