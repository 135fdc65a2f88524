"""Programs that tests run as processes: found, or the test is skipped; started and stopped around a block."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn, Protocol, TypeVar

import pytest


class Startable(Protocol):
    """A process that listens when `start` returns, and has ended when `stop` does."""

    def start(self) -> Any:
        """Start it, and return when it listens."""

    def stop(self) -> None:
        """End it, by its own process id."""


P = TypeVar("P", bound=Startable)


@contextmanager
def running(process: P) -> Iterator[P]:
    """A process for the length of a block."""
    try:
        process.start()
        yield process
    finally:
        process.stop()


def skip(reason: str) -> NoReturn:
    """Skip the test; where `CI` is set, nothing may be skipped and the test fails."""
    if os.environ.get("CI"):
        pytest.fail(f"{reason}; nothing may be skipped here")
    pytest.skip(reason)


def program(name: str, remedy: str) -> str:
    """The path of a program, or the test is skipped."""
    return shutil.which(name) or skip(f"{name} is not installed: {remedy}")


def node(folder: Path, library: Path) -> str:
    """The path of node, or the test is skipped: it needs this library among the modules of a test folder."""
    where = f"tests/{folder.name}"
    return (library.exists() and shutil.which("node")) or skip(
        f"node and {where}/node_modules are needed: run npm ci in {where}"
    )
