"""A process of this server that its parent keeps running.

It gets its configuration on standard input and ends when that closes; the system kills it when its parent dies, and the
parent starts it again when it dies itself.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress

from recapito.observability.journal import Journal

GRACE_S = 10.0
FIRST_PAUSE_S = 0.05
LONGEST_PAUSE_S = 5.0
STEADY_S = 10.0


class Child:
    """One role as a process of its own. `config` is one line; `descriptors` are the open files that it names."""

    def __init__(self, role: str, config: bytes, descriptors: Sequence[int], journal: Journal) -> None:
        self._role = role
        self._config = config
        self._descriptors = descriptors
        self._journal = journal
        self._process: asyncio.subprocess.Process | None = None

    def __repr__(self) -> str:
        return f"<Child {self._role}>"

    async def keep(self, stopping: asyncio.Event) -> bool:
        """Keep it running until `stopping` is set. False: it refuses its settings, and a restart would not help."""
        pause = FIRST_PAUSE_S
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
            if ended.result() == os.EX_CONFIG:
                return False
            self._journal("role.ended", role=self._role, code=ended.result())
            pause = FIRST_PAUSE_S if loop.time() - began > STEADY_S else min(pause * 2, LONGEST_PAUSE_S)
            with suppress(TimeoutError):
                await asyncio.wait_for(stopping.wait(), pause)
        return True

    def hang_up(self) -> None:
        """Pass SIGHUP on. A process that is just starting must be told again later."""
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(signal.SIGHUP)

    async def _start(self) -> asyncio.subprocess.Process:
        child = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "recapito",
            "role",
            self._role,
            str(os.getpid()),
            stdin=asyncio.subprocess.PIPE,
            pass_fds=self._descriptors,
            start_new_session=True,
        )
        assert child.stdin is not None
        with suppress(ConnectionError):
            child.stdin.write(self._config + b"\n")
            await child.stdin.drain()
        return child

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
