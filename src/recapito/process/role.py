"""The parts that all roles of a server share: their start, the link to the parent of a node, and the loss of a store.

A role ends when its parent orders it to or is gone (`system/service.py`); it then finishes the work that it has begun.
"""

import asyncio
import gc
import os
import resource
import sys
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from recapito.clock import SECOND
from recapito.errors import StoreLost
from recapito.observability.journal import Journal, LineJournal
from recapito.process.node_link import NodeLink
from recapito.process.role_config import RoleConfig
from recapito.settings import settings as settings_module
from recapito.settings.settings import Settings
from recapito.system.service import run_configured

HEARTBEAT_NS = SECOND
HEARTBEAT_MISSED_NS = 5 * SECOND
SWITCH_INTERVAL_S = 0.0005
GARBAGE_OBJECTS = 10_000

RoleRunner = Callable[[Settings, RoleConfig, Journal], Coroutine[Any, Any, None]]


def run_role(name: str, run: RoleRunner) -> int:
    """Run one role as its parent configures it, and return the exit code."""

    def start(config: RoleConfig) -> Coroutine[Any, Any, None]:
        settings = settings_module.from_tree(config.settings)
        tune_process()
        return run(settings, config, LineJournal(role=name))

    return run_configured(RoleConfig, start)


class Loss:
    """Whether another node has taken the store. The store tells it from any thread; the role then ends."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()

    def found(self) -> None:
        self._loop.call_soon_threadsafe(self._event.set)

    async def wait(self) -> None:
        await self._event.wait()

    def check(self) -> None:
        """Raise StoreLost if it was found: the exit code tells the parent."""
        if self._event.is_set():
            raise StoreLost("another node owns the store now")


def open_link(settings: Settings, config: RoleConfig) -> NodeLink | None:
    """The link to the parent of a node of a cluster, listening; None elsewhere."""
    if config.node < 0:
        return None
    link = NodeLink(config.node, settings.cluster.node_name)
    link.listen()
    return link


def report_ready(config: RoleConfig, role: bytes) -> None:
    with suppress(OSError):
        os.write(config.ready, role + b"\n")


def tune_process() -> None:
    """Shorten the turns of threads, collect garbage seldom, and allow many connections.

    With a busy event loop the store's thread waits for its turn longer than for the disk: with this interval a commit
    took 1 ms instead of 6 to 9. Garbage in cycles is rare here; looking for it after every 700 objects, as Python does,
    was a tenth of the dispatcher's work. Everything loaded so far stays to the end and is frozen; `__main__` switches
    the collector off while it loads. Open, late and idle connections together may exceed the usual limit of 1,024.
    """
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    gc.freeze()
    gc.set_threshold(GARBAGE_OBJECTS)
    gc.enable()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
