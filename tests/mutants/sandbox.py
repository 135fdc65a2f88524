"""A copy of the working tree, in which a mutant lives; the tree itself is never changed."""

import os
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
MEMORY_BYTES = 8 << 30  # a mutant may want all there is


class Sandbox:
    """A copy of what git knows, or would take, with a Python that imports the service from it."""

    def __init__(self, directory: Path) -> None:
        self.root = directory
        self._changes = 0
        listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
        for name in subprocess.check_output(listed, cwd=ROOT).decode().split("\0"):
            if name and (ROOT / name).is_file():
                (directory / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(ROOT / name, directory / name)

    def write(self, path: str, text: str) -> None:
        """Change a file. Its date is new each time, so that Python does not believe what it compiled before."""
        file = self.root / path
        file.write_text(text, "utf-8")
        self._changes += 1
        os.utime(file, (self._changes, self._changes))

    def run(self, command: Sequence[str], timeout_s: float, **environment: str) -> int | None:
        """Run a Python command in the copy; its exit code, or None if it took too long and was killed."""
        import_from = {"PYTHONPATH": os.pathsep.join((str(self.root / "src"), str(self.root)))}
        process = subprocess.Popen(
            [sys.executable, *command],
            cwd=self.root,
            env={**os.environ, **import_from, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        resource.prlimit(process.pid, resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
        try:
            return process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None
        finally:
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Nothing that a mutant started outlives it."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()
