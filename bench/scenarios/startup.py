"""The command line: the time of a command from its start to its end, as its user waits."""

import os
import subprocess
import sys
import time
from pathlib import Path

from bench.lab import Lab
from bench.process import Machine
from bench.report import Goal, Sample
from bench.scenarios import Round

NAME = "startup"
ROUNDS = 3
GOALS = (
    Goal("help", "`recapito --help`", 0.4, "s", at_least=False),
    Goal("topic list", "`recapito topic list` of a running server", 0.4, "s", at_least=False),
)
REPEATS, QUICK_REPEATS = 11, 5
TOPICS = 10
LONGEST_S = 30.0
_RECAPITO = Path(sys.executable).with_name("recapito")  # as it is installed beside this interpreter


def measure(round: Round) -> list[Sample]:
    """Each command again and again, in turn, beside a server; a first run of each is not counted."""
    lab = round.lab
    with lab.directory("home") as home, lab.recapito() as server:
        for n in range(TOPICS):
            server.topic(f"topic-{n}")
        environment = {"RECAPITO_SERVER": f"http://127.0.0.1:{server.port}", "XDG_CONFIG_HOME": str(home)}
        return _measure(lab, environment)


def _measure(lab: Lab, environment: dict[str, str]) -> list[Sample]:
    commands = {"help": ["--help"], "topic list": ["topic", "list"]}
    expected = {"help": "publish", "topic list": f"topic-{TOPICS - 1}"}
    samples, machine = [], Machine()
    for n in range((QUICK_REPEATS if lab.quick else REPEATS) + 1):
        for row, arguments in commands.items():
            took_s, fault = _run(arguments, environment, expected[row])
            if n:
                samples.append(Sample(row, took_s, f"{took_s:.2f} s from start to end", fault))
    lab.others.append(machine.others())
    for row in commands:
        took = sorted(sample.value for sample in samples if sample.row == row)
        lab.say(f"{row}: {took[0]:.2f} to {took[-1]:.2f} s; others used {lab.others[-1]:.0%} of the machine")
    return samples


def _run(arguments: list[str], environment: dict[str, str], expected: str) -> tuple[float, str]:
    """The seconds that a command took, and what was wrong with it."""
    began = time.perf_counter()
    ran = subprocess.run(
        [_RECAPITO, *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=LONGEST_S,
    )
    took_s = time.perf_counter() - began
    if ran.returncode:
        return took_s, f"it ended with {ran.returncode}: {ran.stderr[-200:]}"
    return took_s, "" if expected in ran.stdout else f"it did not say {expected}"
