"""A command that follows deliveries."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def following(url: str, *words: str) -> Iterator[subprocess.Popen[str]]:
    """`recapito tail` in a process of its own, until the test is done with it."""
    command = [sys.executable, "-m", "recapito", "tail", *words, "--server", url]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdout, process.stderr):
            assert pipe is not None
            pipe.close()
