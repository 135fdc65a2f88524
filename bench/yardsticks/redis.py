"""A Redis server of our own on a free loopback port, as durable as it gets: a write is on disk when it answers."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.process import Child, await_port
from tests.kit.ports import free_port

HOW_TO_INSTALL = "redis-server is missing: `apt-get install redis-server` (Debian), or set REDIS_SERVER to its path"


def find() -> str | None:
    """The program, if it is installed."""
    return os.environ.get("REDIS_SERVER") or shutil.which("redis-server")


@contextmanager
def running(program: str, directory: Path) -> Iterator[str]:
    """Run it; its URL."""
    port = free_port()
    options = ["--port", str(port), "--bind", "127.0.0.1", "--dir", str(directory), "--save", ""]
    options += ["--appendonly", "yes", "--appendfsync", "always", "--daemonize", "no"]
    with Child([program, *options], directory / "redis.log"):
        await_port(port)
        yield f"redis://127.0.0.1:{port}/0"
