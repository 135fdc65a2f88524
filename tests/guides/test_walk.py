"""A newcomer's walk: the commands of the tutorials and of the README, run as they stand, print what the pages show.

A block of shell that begins with `# terminal N` runs beside the others until the page ends or another block takes that
terminal; every other block runs to its end. The block of text behind it is its output, where `…` stands for anything.
"""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from tests.kit.ports import free_port
from tests.system.machine import until

ROOT = Path(__file__).parents[2]
TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
MAKEFILE = (ROOT / "Makefile").read_text("utf-8")
PORTS = ("8585", "8586", "9000")
PATIENCE_S = 120.0
_BLOCK = re.compile(r"^```(sh|text|python)\n(.*?)^```", re.DOTALL | re.MULTILINE)
_TERMINAL = re.compile(r"# terminal (\d)\n")
_FILE = re.compile(r"# (\w+\.py)\n")


class Walk:
    """A folder with terminals: programs that run beside each other and end with the walk."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._terminals: dict[str, subprocess.Popen[bytes]] = {}
        self._ports = {port: str(free_port()) for port in PORTS}

    def own(self, text: str) -> str:
        """A text of the page with this walk's ports."""
        return re.sub("|".join(PORTS), lambda port: self._ports[port[0]], text)

    def run(self, script: str) -> str:
        """The output of a script that must succeed."""
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", self.own(script)],
            cwd=self.folder,
            env=self._environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE_S,
        )
        assert done.returncode == 0, f"{script}\n{done.stdout}\n{self.printed()}"
        return done.stdout

    def begin(self, terminal: str, script: str) -> Path:
        """Start a script in a terminal, and return the file that it prints to."""
        if terminal in self._terminals:
            self._terminals.pop(terminal).wait(PATIENCE_S)
        file = self.folder / f"terminal-{terminal}-{time.monotonic_ns()}.txt"
        with file.open("wb") as output:
            self._terminals[terminal] = subprocess.Popen(
                ["bash", "-c", f"exec {self.own(script).strip()}"],
                cwd=self.folder,
                env=self._environment(),
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        return file

    def printed(self) -> str:
        """The output of all terminals, for the message of a failure."""
        return "\n".join(f"{file.name}:\n{file.read_text('utf-8')}" for file in self.folder.glob("terminal-*.txt"))

    def end(self) -> None:
        for program in reversed(self._terminals.values()):
            program.send_signal(signal.SIGINT)
            program.wait(PATIENCE_S)

    def _environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("RECAPITO_", "AZURE_"))}
        return {
            **kept,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "RECAPITO_CONFIG": str(self.folder / "config.toml"),
            "RECAPITO_SERVER": f"http://127.0.0.1:{self._ports['8585']}",
            "RECAPITO_SERVER_PORT": self._ports["8585"],
            "RECAPITO_PORTAL_PORT": self._ports["8586"],
        }


@contextmanager
def walking(folder: Path) -> Iterator[Walk]:
    walk = Walk(folder)
    try:
        yield walk
    finally:
        walk.end()


def matches(shown: str, printed: str) -> bool:
    """Whether the lines that a page shows are in an output, in order, with `…` for anything on or between lines."""
    pattern = r"[\s\S]*?\n".join(
        r"[^\n]*?".join(re.escape(part) for part in line.split("…")) + r"[^\n]*" for line in shown.strip().splitlines()
    )
    return re.search(pattern, printed) is not None


def prints(file: Path, shown: str) -> bool:
    """Whether a terminal has printed the lines that a page shows."""
    return matches(shown, file.read_text("utf-8"))


def check(page: Path, folder: Path) -> None:
    """Walk through a page."""
    with walking(folder) as walk:
        output: str | Path = ""
        for language, text in _BLOCK.findall(page.read_text("utf-8")):
            if language == "python":
                if file := _FILE.match(text):
                    (folder / file[1]).write_text(text, "utf-8")
            elif language == "sh":
                terminal = _TERMINAL.match(text)
                output = walk.begin(terminal[1], text[terminal.end() :]) if terminal else walk.run(text)
            elif isinstance(output, Path):
                assert until(partial(prints, output, walk.own(text))), f"expected:\n{text}\n{walk.printed()}"
            else:
                assert matches(walk.own(text), output), f"expected:\n{text}\nprinted:\n{output}"


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_a_tutorial(page: Path, tmp_path: Path) -> None:
    """Each command of the tutorial works and prints what the page shows."""
    check(page, tmp_path)


def test_the_first_minute_of_the_readme(tmp_path: Path) -> None:
    """The receiver of the README shows the lines of the README, by the commands that the server prints."""
    readme = (ROOT / "README.md").read_text("utf-8")
    assert 'make serve ARGS="--clock scaled:60"' in readme and "recapito serve --data data $(ARGS)" in MAKEFILE
    [receive] = re.findall(r"^    (python3 examples/receiver.py .+)$", readme, re.MULTILINE)
    shown = "\n".join(re.findall(r"^    (consent .+|attempt .+)$", readme, re.MULTILINE))
    with walking(tmp_path) as walk:
        received = walk.begin("1", receive.replace("examples/", f"{ROOT}/examples/"))
        served = walk.begin("2", "recapito serve --data data --clock scaled:60")
        assert until(partial(prints, served, "# 3. …\ncurl")), walk.printed()
        commands = re.findall(r"^curl .+?(?<!\\)$", served.read_text("utf-8"), re.DOTALL | re.MULTILINE)
        assert len(commands) == 3
        for command in commands:
            walk.run(command)
        assert until(partial(prints, received, shown)), f"expected:\n{shown}\n{walk.printed()}"


def test_a_walk_notices_another_output() -> None:
    """A line that is missing, or stands in another order, is noticed."""
    assert matches("one …\nthree", "one 1\ntwo\nthree\n")
    assert not matches("three\none", "one\ntwo\nthree\n")
    assert not matches("four", "one\ntwo\nthree\n")
