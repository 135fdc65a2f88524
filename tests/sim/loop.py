"""An event loop on virtual time: when every task waits, time jumps to the next timer.

The laws: the order of what is ready is drawn from a seed, so one seed is one history; there are no threads and no
sockets; a history in which nothing can ever happen again, or in which time stands still, is an error and not a hang.
"""

import asyncio
import heapq
import itertools
import random
from asyncio import Handle, TimerHandle, base_events
from collections.abc import Callable, Coroutine
from contextvars import Context
from math import ceil
from typing import Any, TypeVar

T = TypeVar("T")
Callback = Callable[..., object]

SECOND = 1_000_000_000
RESOLUTION_S = 1e-9  # timers that are so near are due together
LONGEST_JUMP_S = 86_400.0
BUSY_NS = 60 * SECOND
BUSY_ROUNDS = 60_000  # rounds of the loop within a minute of virtual time more than any history needs


class Deadlock(Exception):
    """Every task waits for another, and no timer is set."""


class Livelock(Exception):
    """The loop goes round and round, and time hardly passes."""


class _NumberedTask(asyncio.Task[Any]):
    """A task that hashes by its number: a set of tasks, such as a TaskGroup cancels, then has the same order always."""

    def __init__(self, coroutine: Any, number: int, **options: Any) -> None:
        self._number = number
        super().__init__(coroutine, **options)

    def __hash__(self) -> int:
        return self._number


class SimLoop(base_events.BaseEventLoop):
    """A deterministic loop. `now_ns` is the virtual time since its start.

    `rounds` counts how often it went round: between two rounds every task is at an await. What is in `interruptions`
    is called before that round.
    """

    def __init__(self, seed: int | str) -> None:
        super().__init__()
        self.now_ns = 0
        self._callbacks: list[Handle] = []
        self._timers: list[tuple[float, TimerHandle]] = []
        self._rng = random.Random(f"{seed}/order")
        self._since_ns = 0
        self._since_round = 0
        self.rounds = 0
        self.interruptions: dict[int, Callable[[], None]] = {}
        self.unhandled: list[str] = []
        self.set_exception_handler(self._note_unhandled)
        self._numbers = itertools.count()
        self.set_task_factory(self._make_task)

    def _make_task(self, loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> asyncio.Task[Any]:
        return _NumberedTask(coroutine, next(self._numbers), loop=loop, **options)

    def time(self) -> float:
        return self.now_ns / SECOND

    def run_in_executor(self, *args: Any) -> Any:  # type: ignore[override]
        raise RuntimeError("threads are forbidden in the simulation")

    def call_soon_threadsafe(self, *args: Any, **kwargs: Any) -> Any:  # type: ignore[override]
        raise RuntimeError("threads are forbidden in the simulation")

    def call_soon(self, callback: Callback, *args: Any, context: Context | None = None) -> Handle:
        handle = Handle(callback, args, self, context)
        self._callbacks.append(handle)
        return handle

    def call_at(self, when: float, callback: Callback, *args: Any, context: Context | None = None) -> TimerHandle:
        timer = TimerHandle(when, callback, args, self, context)
        heapq.heappush(self._timers, (when, timer))
        return timer

    def call_later(self, delay: float, callback: Callback, *args: Any, context: Context | None = None) -> TimerHandle:
        return self.call_at(self.now_ns / SECOND + delay, callback, *args, context=context)

    def _run_once(self) -> None:
        """One round, in place of that of BaseEventLoop: instead of waiting for sockets it moves the time."""
        if self.rounds in self.interruptions:
            self.interruptions.pop(self.rounds)()
        timers, callbacks = self._timers, self._callbacks
        self._callbacks = []
        if len(callbacks) > 1:
            self._rng.shuffle(callbacks)
        while timers and timers[0][1].cancelled():
            heapq.heappop(timers)
        if not callbacks and not self._stopping:
            self._pass_time()
        end = self.now_ns / SECOND + RESOLUTION_S
        while timers and timers[0][0] < end:
            callbacks.append(heapq.heappop(timers)[1])
        for handle in callbacks:
            if not handle.cancelled():
                handle._run()
        self._watch_time()

    def _pass_time(self) -> None:
        if not self._timers:
            raise Deadlock("nothing is scheduled and no task is ready")
        left_s = self._timers[0][0] - self.now_ns / SECOND
        if left_s > 0:
            self.now_ns += ceil(min(left_s, LONGEST_JUMP_S) * SECOND)

    def _watch_time(self) -> None:
        self.rounds += 1
        if self.now_ns - self._since_ns > BUSY_NS:
            self._since_ns, self._since_round = self.now_ns, self.rounds
        elif self.rounds - self._since_round > BUSY_ROUNDS:
            raise Livelock(f"{BUSY_ROUNDS} rounds up to {self.time():.3f} s of virtual time")

    def _note_unhandled(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self.unhandled.append(f"{context.get('message')}: {context.get('exception')!r}")

    def _process_events(self, event_list: Any) -> None:
        """There are no files."""

    def _write_to_self(self) -> None:
        """Nothing has to be woken: one thread does everything."""


def run(seed: int | str, main: Callable[[SimLoop], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine on a loop of its own, and end whatever it leaves behind."""
    loop = SimLoop(seed)
    try:
        asyncio.set_event_loop(loop)
        try:
            return loop.run_until_complete(main(loop))
        finally:
            _end_all(loop)
    finally:
        asyncio.set_event_loop(None)
        loop.close()


def _end_all(loop: SimLoop) -> None:
    """Cancel the tasks in the order of their names: a set of tasks has no order of its own."""
    left = sorted(asyncio.all_tasks(loop), key=lambda task: task.get_name())
    for task in left:
        task.cancel()
    if left:
        loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
