"""Sends mutants into copies of the tree and sees whether a test notices."""

import json
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from queue import SimpleQueue

from tests.mutants.explained import Explanations
from tests.mutants.mutations import Mutation, mutations
from tests.mutants.reach import Reach
from tests.mutants.sandbox import ROOT, Sandbox

TESTED_S = 150.0  # of tests for one mutant, by what they take without it
STARTING_S = 60.0


class Fate(StrEnum):
    """The fate of a mutant."""

    KILLED = "killed"
    TIMED_OUT = "timed out"
    EXPLAINED = "explained"
    SURVIVED = "survived"
    UNREACHED = "unreached"


GOOD = (Fate.KILLED, Fate.TIMED_OUT, Fate.EXPLAINED)


@dataclass
class Mutant:
    """A mutation of one module; `why` says why no test can notice it, if it was explained."""

    path: str
    mutation: Mutation
    fate: Fate = Fate.UNREACHED
    why: str = ""

    def __str__(self) -> str:
        change = f"{self.mutation.before} → {self.mutation.after}"
        return f"{self.path}:{self.mutation.line}  {self.mutation.kind}: {change}"


def draw(paths: list[str], count: int, seed: int) -> tuple[list[Mutant], int]:
    """A sample of all mutants of these modules, the same for a seed, and how many there are."""
    everything = [Mutant(path, mutation) for path in paths for mutation in mutations((ROOT / path).read_text("utf-8"))]
    chosen = random.Random(seed).sample(everything, min(count, len(everything)))
    return chosen, len(everything)


def hunt(
    mutants: list[Mutant],
    sandboxes: list[Sandbox],
    reach: Reach,
    explanations: Explanations,
    tell: Callable[[Mutant], None],
    starting_s: float = STARTING_S,
) -> None:
    """Settle the fate of each, as many at once as there are copies; `tell` is called from their threads."""
    free: SimpleQueue[Sandbox] = SimpleQueue()
    for sandbox in sandboxes:
        free.put(sandbox)

    def settle(mutant: Mutant) -> None:
        sandbox = free.get()
        try:
            mutant.fate = _fate(mutant, sandbox, reach, starting_s)
        finally:
            free.put(sandbox)
        if mutant.fate not in GOOD:
            mutant.why = explanations.why(mutant.path, mutant.mutation) or ""
            mutant.fate = Fate.EXPLAINED if mutant.why else mutant.fate
        tell(mutant)

    with ThreadPoolExecutor(len(sandboxes)) as pool:
        list(pool.map(settle, mutants))


def _fate(mutant: Mutant, sandbox: Sandbox, reach: Reach, starting_s: float) -> Fate:
    tests = reach.tests(mutant.path, mutant.mutation, TESTED_S)
    if not tests:
        return Fate.UNREACHED
    original = (ROOT / mutant.path).read_text("utf-8")
    chosen = Path(f"{sandbox.root}.tests.json")
    chosen.write_text(json.dumps(tests))
    sandbox.write(mutant.path, mutant.mutation.apply(original))
    try:
        files = list(dict.fromkeys(test.partition("::")[0] for test in tests))
        command = ["-m", "pytest", "-x", "-q", "-p", "tests.mutants.plugin", *files]
        code = sandbox.run(command, starting_s + 3 * reach.seconds(tests), MUTANTS_TESTS=str(chosen))
    finally:
        sandbox.write(mutant.path, original)
    if code is None:
        return Fate.TIMED_OUT
    return Fate.SURVIVED if code == 0 else Fate.KILLED
