"""Processes of a run: each is started here, and ended here by its own id, however the run ends."""

import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

GRACE_S = 15.0
START_S = 60.0


class Child:
    """A Python module, or any command, running; its standard error goes to a file."""

    def __init__(self, command: Sequence[str], errors: Path, environment: Mapping[str, str] | None = None) -> None:
        self._name = " ".join(command[:4])
        self._errors = errors
        with errors.open("ab") as file:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
                env={**os.environ, **(environment or {})},
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.end()

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def tell(self, line: bytes) -> None:
        """Write a line to its standard input, where no other process can read it, unlike an argument."""
        assert self._process.stdin is not None
        self._process.stdin.write(line + b"\n")
        self._process.stdin.flush()

    def line(self, timeout_s: float = START_S) -> str:
        """The next line of its standard output."""
        assert self._process.stdout is not None
        readable, _, _ = select.select([self._process.stdout], [], [], timeout_s)
        line = self._process.stdout.readline().decode() if readable else ""
        if not line:
            said = self._errors.read_text("utf-8", "replace")[-2000:]
            raise RuntimeError(f"{self._name} ended, or said nothing for {timeout_s:.0f} s. Its errors:\n{said}")
        return line.strip()

    def json(self, timeout_s: float = START_S) -> Any:
        """The next line, as JSON."""
        return json.loads(self.line(timeout_s))

    def end(self) -> None:
        """Ask it to end, by closing its standard input and by a signal; kill it if it does not."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        below = descendants(self.pid)
        with suppress(ProcessLookupError):
            self._process.terminate()
        try:
            self._process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        _end_all(below)

    def kill(self) -> None:
        """SIGKILL to it and to everything below it, at once."""
        for pid in [*descendants(self.pid), self.pid]:
            kill(pid)
        self._process.wait()


def module(name: str, *arguments: str) -> list[str]:
    """The command that runs a Python module with this interpreter."""
    return [sys.executable, "-m", name, *arguments]


@contextmanager
def dead_port() -> Iterator[int]:
    """A port that is taken and refuses every connection."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


def await_port(port: int) -> None:
    """Return when a server listens on a port."""
    patient_until = time.monotonic() + START_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            if time.monotonic() > patient_until:
                raise
            time.sleep(0.05)


def kill(pid: int) -> None:
    """SIGKILL to one process; one that is gone is fine."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def descendants(pid: int) -> list[int]:
    """The processes below one, at this moment."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                children.setdefault(parent, []).append(int(entry.name))
    found: list[int] = []
    queue = [pid]
    while queue:
        below = children.get(queue.pop(), [])
        found += below
        queue += below
    return found


def command_of(pid: int) -> str:
    """How a process was started; empty if it is gone."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace").strip()
    return ""


def resident_mb(pid: int) -> float:
    """The resident memory of a process and all below it, in MB, shared pages counted in each."""
    total_kb = 0
    for each in [pid, *descendants(pid)]:
        with suppress(OSError):
            lines = Path(f"/proc/{each}/status").read_text().splitlines()
            total_kb += sum(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))
    return total_kb / 1024


def cpu_s(pid: int) -> float:
    """The processor time of one process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Machine:
    """The processor time of all other processes since its creation: measurements beside other work are worth less."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._before_s = _busy_s() - _ours_s()

    def others(self) -> float:
        """The share of all processors that others used, 0 to 1."""
        elapsed_s = (time.monotonic() - self._began) * (os.cpu_count() or 1)
        return max(_busy_s() - _ours_s() - self._before_s, 0.0) / elapsed_s


def _busy_s() -> float:
    """The processor time that the whole machine has spent, time stolen by its host included."""
    user, nice, system, _idle, _wait, irq, soft_irq, steal = map(
        int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
    )
    return (user + nice + system + irq + soft_irq + steal) / os.sysconf("SC_CLK_TCK")


def _ours_s() -> float:
    """The processor time of this process and all below it, those that have ended included."""
    ticks = 0
    for pid in [os.getpid(), *descendants(os.getpid())]:
        with suppress(OSError):
            ticks += sum(map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def _end_all(pids: Sequence[int]) -> None:
    """Processes whose parent is gone should end by themselves; those that do not are killed."""
    patient_until = time.monotonic() + GRACE_S
    while any(_lives(pid) for pid in pids) and time.monotonic() < patient_until:
        time.sleep(0.02)
    for pid in pids:
        if _lives(pid):
            kill(pid)


def _lives(pid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False
