"""A process of this server that its parent keeps running.

It gets its configuration on standard input and ends when that closes; the system kills it when its parent dies, and the
parent starts it again when it dies itself.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import Enum
from typing import NamedTuple

from recapito.observability.journal import Journal

GRACE_S = 10.0
FIRST_PAUSE_S = 0.05
LONGEST_PAUSE_S = 5.0
STEADY_S = 10.0
FALLS = 8  # endings in a row, each soon after a start: half a minute


class Ending(Enum):
    """Why a process is not started again: it was stopped, refuses its settings, or has lost the store to a node."""

    STOPPED = os.EX_OK
    REFUSED = os.EX_CONFIG
    LOST = os.EX_UNAVAILABLE


class Restarts(NamedTuple):
    """The pace at which a process that ends is started again: twice as slow after each end soon after a start."""

    pause_s: float = FIRST_PAUSE_S
    falls: int = 0  # such ends in a row

    def after(self, lasted_s: float) -> "Restarts":
        """The pace after a process that ran so long."""
        if lasted_s > STEADY_S:
            return Restarts()
        return Restarts(min(self.pause_s * 2, LONGEST_PAUSE_S), self.falls + 1)

    @property
    def fail(self) -> bool:
        """Whether starting it again has not helped for a while."""
        return self.falls >= FALLS


class Child:
    """One role as a process of its own.

    config: makes one line.
    descriptors: the open files that it names.
    words: further arguments of the process.
    """

    def __init__(
        self,
        role: str,
        config: Callable[[], bytes],
        descriptors: Sequence[int],
        journal: Journal,
        words: Sequence[str] = (),
    ) -> None:
        self._role = role
        self._words = words
        self._config = config
        self._descriptors = descriptors
        self._journal = journal
        self._warm: asyncio.subprocess.Process | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._restarts = Restarts()

    def __repr__(self) -> str:
        return f"<Child {self._role}>"

    @property
    def fails(self) -> bool:
        """Whether it ends soon after each start."""
        return self._restarts.fail

    async def keep(self, stopping: asyncio.Event) -> Ending:
        """Keep it running until `stopping` is set, or a restart would not help."""
        loop = asyncio.get_running_loop()
        while not stopping.is_set():
            began = loop.time()
            child = self._process = await self._start()
            ended, stopped = asyncio.create_task(child.wait()), asyncio.create_task(stopping.wait())
            await asyncio.wait({ended, stopped}, return_when=asyncio.FIRST_COMPLETED)
            stopped.cancel()
            if stopping.is_set():
                await self._end(child, ended)
                break
            if ended.result() in (Ending.REFUSED.value, Ending.LOST.value):
                return Ending(ended.result())
            self._journal("role.ended", role=self._role, code=ended.result())
            self._restarts = self._restarts.after(loop.time() - began)
            with suppress(TimeoutError):
                await asyncio.wait_for(stopping.wait(), self._restarts.pause_s)
        return Ending.STOPPED

    async def warm(self) -> None:
        """Start the process without its configuration: it loads its modules, and waits."""
        self._warm = await self._load()

    async def cool(self) -> None:
        """End a process that waits for its configuration."""
        if self._warm is not None:
            assert self._warm.stdin is not None
            self._warm.stdin.close()
            await self._warm.wait()
            self._warm = None

    def hang_up(self) -> None:
        """Pass SIGHUP on. A process that is just starting must be told again later."""
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(signal.SIGHUP)

    async def _start(self) -> asyncio.subprocess.Process:
        warm, self._warm = self._warm, None
        child = warm if warm is not None and warm.returncode is None else await self._load()
        assert child.stdin is not None
        with suppress(ConnectionError):
            child.stdin.write(self._config() + b"\n")
            await child.stdin.drain()
        return child

    async def _load(self) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "recapito",
            "role",
            self._role,
            str(os.getpid()),
            *self._words,
            stdin=asyncio.subprocess.PIPE,
            pass_fds=self._descriptors,
            start_new_session=True,
        )

    async def _end(self, child: asyncio.subprocess.Process, ended: "asyncio.Task[int]") -> None:
        assert child.stdin is not None
        with suppress(ConnectionError):
            child.stdin.write(b"stop\n")
            await child.stdin.drain()
        try:
            await asyncio.wait_for(asyncio.shield(ended), GRACE_S)
        except TimeoutError:
            child.send_signal(signal.SIGKILL)
            await ended
