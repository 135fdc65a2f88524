"""`python -m tests.mutants --count N --seed S`: plants bugs in copies of the tree and lists the survivors.

The working tree is never changed. Exit code 1 when fewer than 95 in 100 are killed or explained.
"""

import argparse
import subprocess
import sys
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.mutants.explained import Explanations
from tests.mutants.hunt import GOOD, Fate, Mutant, draw, hunt
from tests.mutants.reach import find_reach, sources
from tests.mutants.sandbox import ROOT, Sandbox

PLACES = (
    *(f"src/recapito/{part}/**/*.py" for part in ("domain", "dispatch", "intake", "stores", "api/auth")),
    "src/recapito/api/publish/authenticate.py",
)
WITHOUT = ("src/recapito/domain/limits.py",)  # a limit that is one larger is another limit, not a bug
GOAL = 0.95
CACHE = ROOT / ".mutants"


def main() -> int:
    """Hunt, and say what survived."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description="Seeded mutation testing.")
    parser.add_argument("--count", type=int, default=500, help="how many mutants to try")
    parser.add_argument("--seed", type=int, default=1, help="which mutants: the same for a seed")
    parser.add_argument("--part", default=":", help="try only these of them, such as 40:80")
    parser.add_argument("--workers", type=int, default=2, help="how many at once")
    parser.add_argument("--only", default="", help="modules whose path contains this text")
    parser.add_argument("--output", type=Path, default=CACHE / "survivors.md", help="file for the table")
    options = parser.parse_args()
    began = time.perf_counter()
    paths = [path for path in sources(PLACES, WITHOUT) if options.only in path]
    mutants, known = draw(paths, options.count, options.seed)
    first, _, end = options.part.partition(":")
    mutants = mutants[int(first or 0) : int(end or len(mutants))]
    with ExitStack() as stack:
        places = [Path(stack.enter_context(TemporaryDirectory())) for _ in range(options.workers)]
        sandboxes = [Sandbox(place / "tree") for place in places]
        reach = find_reach(CACHE, sandboxes)
        hunt(mutants, sandboxes, reach, Explanations(), _tell)
    took_s = time.perf_counter() - began
    fates = Counter(mutant.fate for mutant in mutants)
    good = sum(fates[fate] for fate in GOOD)
    table = _table(mutants, f"{_commit()}, seed {options.seed}, {len(mutants)} of {known} mutants", fates)
    options.output.parent.mkdir(exist_ok=True)
    options.output.write_text(table, "utf-8")
    print(table)
    print(_summary(fates, len(mutants), known, options.seed, took_s))
    return 0 if good >= GOAL * len(mutants) else 1


def _tell(mutant: Mutant) -> None:
    if mutant.fate not in GOOD:
        print(f"{mutant.fate}  {mutant}", flush=True)


def _table(mutants: list[Mutant], what: str, fates: Counter[Fate]) -> str:
    lines = [f"# Mutants: {what}", "", ", ".join(f"{count} {fate}" for fate, count in sorted(fates.items())), ""]
    left = sorted((m for m in mutants if m.fate not in (Fate.KILLED, Fate.TIMED_OUT)), key=str)
    if left:
        lines += ["| fate | where | change | why |", "|---|---|---|---|"]
    for mutant in left:
        change = f"`{mutant.mutation.before}` → `{mutant.mutation.after}`".replace("|", "\\|")
        lines.append(f"| {mutant.fate} | {mutant.path}:{mutant.mutation.line} | {change} | {mutant.why} |")
    return "\n".join(lines) + "\n"


def _summary(fates: Counter[Fate], tried: int, known: int, seed: int, took_s: float) -> str:
    good = sum(fates[fate] for fate in GOOD)
    figures = ", ".join(f"{fates[fate]} {fate}" for fate in Fate)
    share = 100 * good / max(tried, 1)
    return f"mutants: {tried} of {known} (seed {seed}): {figures}; {share:.1f} % killed or explained; {took_s:.0f} s"


def _commit() -> str:
    return subprocess.check_output(["git", "describe", "--always", "--dirty"], cwd=ROOT, text=True).strip()


if __name__ == "__main__":
    sys.exit(main())
