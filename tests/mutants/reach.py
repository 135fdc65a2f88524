"""Which tests reach which lines of the service, and how long each takes: found out once for each state of the tree."""

import hashlib
import json
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.mutants.mutations import Mutation
from tests.mutants.sandbox import ROOT, Sandbox

# Tests that run in one process and are quick. Two chunks of seeds stand for the simulation's four hundred; the planted
# bugs are left out, because one bug hides another.
SEEDS = [f"tests/sim/test_sim.py::test_seeds[{start}]" for start in (0, 25)]
TESTS = (
    ("tests/domain", "tests/dispatch", "tests/stores"),
    (
        "tests/composition",
        "tests/connections",
        "tests/ground",
        "tests/identity",
        "tests/observability",
        "tests/settings",
    ),
    ("tests/api", "tests/intake"),
    ("tests/contracts", "tests/sim", "--ignore=tests/sim/test_sim.py", "--ignore=tests/sim/test_planted_bugs.py"),
    (*SEEDS, "tests/sim/test_sim.py::test_seeds_on_sqlite"),
)
LONGEST_S = 1800.0


@dataclass
class Part:
    """The lines that tests reach: for each line of a module a number with a bit for each test, ordered as `took`."""

    lines: dict[str, dict[str, str]]
    took: dict[str, float]

    def reaching(self, path: str, lines: Iterable[str] | None = None) -> list[str]:
        """The tests that reach any of these lines of a module, or any at all."""
        by_line = self.lines.get(path, {})
        reached = 0
        for line in by_line if lines is None else lines:
            reached |= int(by_line.get(line, "0"), 16)
        return [test for n, test in enumerate(self.took) if reached >> n & 1]


class Reach:
    """The map. `tests` are those that reach a mutation, the quick ones first, as far as a time allows."""

    def __init__(self, parts: list[Part]) -> None:
        self._parts = parts
        self._took = {test: seconds for part in parts for test, seconds in part.took.items()}

    def tests(self, path: str, mutation: Mutation, at_most_s: float) -> list[str]:
        """A mutation of code that runs at import is reached by each test that reaches anything in its module."""
        lines = [str(line) for line in mutation.lines]
        found = [test for part in self._parts for test in part.reaching(path, lines)]
        found = found or [test for part in self._parts for test in part.reaching(path)]
        chosen, total = [], 0.0
        for test in sorted(found, key=lambda test: (self._took[test], test)):
            total += self._took[test]
            if total <= at_most_s or not chosen:
                chosen.append(test)
        return chosen

    def seconds(self, tests: list[str]) -> float:
        """How long these took, under coverage."""
        return sum(self._took[test] for test in tests)


def find_reach(cache: Path, sandboxes: list[Sandbox]) -> Reach:
    """Run all tests once, in these copies, unless that was done for this very tree."""
    kept = cache / f"reach-{_state(sandboxes[0].root)}.json"
    if not kept.exists():
        cache.mkdir(exist_ok=True)
        with ThreadPoolExecutor(len(sandboxes)) as pool:
            jobs = [(sandboxes[n % len(sandboxes)], tests, cache / f"part-{n}.json") for n, tests in enumerate(TESTS)]
            kept.write_text(json.dumps(list(pool.map(lambda job: _part(*job), jobs))))
    return Reach([Part(**part) for part in json.loads(kept.read_text())])


def _part(sandbox: Sandbox, tests: tuple[str, ...], output: Path) -> dict[str, object]:
    command = ["-m", "pytest", "-q", "-p", "tests.mutants.plugin", *tests]
    if sandbox.run(command, LONGEST_S, MUTANTS_REACH=str(output.resolve())) is None:
        raise TimeoutError(f"{tests} took longer than {LONGEST_S:.0f} s")
    if not output.exists():
        raise RuntimeError(f"pytest could not run {tests}; run them yourself to see why")
    part: dict[str, object] = json.loads(output.read_text())
    output.unlink()
    return part


def _state(root: Path) -> str:
    """A hash of the sources and the tests."""
    digest = hashlib.blake2b(digest_size=8)
    for folder in ("src", "tests"):
        for file in sorted((root / folder).rglob("*")):
            if file.suffix in (".py", ".toml", ".json", ".sql"):
                digest.update(str(file.relative_to(root)).encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


def sources(patterns: tuple[str, ...], without: tuple[str, ...]) -> list[str]:
    """The modules that are mutated, by path."""
    found = {str(path.relative_to(ROOT)) for pattern in patterns for path in ROOT.glob(pattern)}
    return sorted(found - set(without))
