"""`python -m bench`: measure, say what is being done, and print a table of what was measured against its goals."""

import argparse
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from rich.console import Console

from bench.lab import Lab
from bench.report import Row, Sample, print_table, write_json
from bench.scenarios import (
    Round,
    Scenario,
    backlog,
    batches,
    cluster,
    deadletters,
    fanout,
    filters,
    front,
    growth,
    history,
    hung,
    latency,
    observed,
    parked,
    portal,
    replicated,
    senders,
    single,
    startup,
    takeover,
    yardstick,
)

SCENARIOS: Sequence[Scenario] = (
    single,
    batches,
    history,
    observed,
    fanout,
    filters,
    latency,
    yardstick,
    hung,
    backlog,
    parked,
    deadletters,
    senders,
    front,
    portal,
    startup,
    replicated,
    cluster,
    growth,
    takeover,
)


def main() -> int:
    """The exit code: 1 if a goal is missed and `--strict` asks."""
    chosen = _arguments()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # so that everything is cleaned up
    console = Console(width=None if sys.stdout.isatty() else 140)
    began = time.monotonic()

    def say(line: str) -> None:
        console.print(f"[dim]{time.monotonic() - began:5.0f} s[/]  {line}", highlight=False, soft_wrap=True)

    scenarios = [one for one in SCENARIOS if not chosen.only or one.NAME in chosen.only]
    with Lab(chosen.quick, say, chosen.directory) as lab:
        samples = _measure(lab, scenarios, 1 if chosen.quick else 3)
    rows = [
        Row(goal, [sample for sample in samples if sample.row == goal.row]) for one in scenarios for goal in one.GOALS
    ]
    others = median(lab.others) if lab.others else None
    print_table(rows, others, console)
    if chosen.json:
        write_json(rows, others, chosen.json)
    return int(chosen.strict and not all(row.met for row in rows))


def _measure(lab: Lab, scenarios: Sequence[Scenario], rounds: int) -> list[Sample]:
    """All rounds of all scenarios. One that fails is reported as such, and the others go on."""
    samples: list[Sample] = []
    for number in range(1, rounds + 1):
        round = Round(lab)
        for scenario in scenarios:
            if number <= scenario.ROUNDS:
                lab.say(f"[bold]{scenario.NAME}[/], round {number} of {min(rounds, scenario.ROUNDS)}")
                samples += _samples(scenario, round)
    return samples


def _samples(scenario: Scenario, round: Round) -> list[Sample]:
    try:
        return scenario.measure(round)
    except (RuntimeError, OSError, LookupError) as error:
        round.lab.say(f"{scenario.NAME} failed: {error}")
        return [Sample(goal.row, 0.0, "", f"failed: {error}"[:200]) for goal in scenario.GOALS]


def _arguments() -> argparse.Namespace:
    names = [one.NAME for one in SCENARIOS]
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure Recapito against its goals.")
    parser.add_argument("--quick", action="store_true", help="one short round instead of three long ones")
    parser.add_argument("--only", nargs="+", choices=names, metavar="NAME", help=f"of: {', '.join(names)}")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every sample there")
    parser.add_argument("--strict", action="store_true", help="exit with 1 if a goal is missed")
    parser.add_argument("--directory", type=Path, help="where temporary data goes; it should be a real disk")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
