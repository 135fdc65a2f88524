"""An event loop on virtual time: when every task waits, time jumps to the next timer.

The laws: the order of what is ready is drawn from a seed, so one seed is one history; there are no threads and no
sockets; a history in which nothing can ever happen again, or in which time stands still, is an error and not a hang.
"""

import asyncio
import itertools
import random
from asyncio import base_events
from collections.abc import Callable, Coroutine
from math import ceil
from typing import Any, TypeVar

T = TypeVar("T")

SECOND = 1_000_000_000
BUSY_NS = 60 * SECOND
BUSY_ROUNDS = 60_000  # rounds of the loop within a minute of virtual time more than any history needs


class Deadlock(Exception):
    """Every task waits for another, and no timer is set."""


class Livelock(Exception):
    """The loop goes round and round, and time hardly passes."""


class _Timeline:
    """Stands where a selector would: instead of waiting it moves the time."""

    def __init__(self) -> None:
        self.now_ns = 0

    def select(self, timeout: float | None) -> list[Any]:
        if timeout is None:
            raise Deadlock("nothing is scheduled and no task is ready")
        if timeout > 0:
            self.now_ns += ceil(timeout * SECOND)
        return []

    def close(self) -> None:
        """There is nothing to close."""


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
        self._timeline = _Timeline()
        self._selector = self._timeline  # what BaseEventLoop waits on
        self._clock_resolution = 1e-9
        self._rng = random.Random(f"{seed}/order")
        self._since_ns = 0
        self._since_round = 0
        self.rounds = 0
        self.interruptions: dict[int, Callable[[], None]] = {}
        self.unhandled: list[str] = []
        self.set_exception_handler(self._note_unhandled)
        self._numbers = itertools.count()
        self.set_task_factory(self._make_task)

    @property
    def now_ns(self) -> int:
        """Virtual nanoseconds since the loop was made."""
        return self._timeline.now_ns

    def _make_task(self, loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> asyncio.Task[Any]:
        return _NumberedTask(coroutine, next(self._numbers), loop=loop, **options)

    def time(self) -> float:
        return self._timeline.now_ns / SECOND

    def run_in_executor(self, *args: Any) -> Any:  # type: ignore[override]
        raise RuntimeError("threads are forbidden in the simulation")

    def call_soon_threadsafe(self, *args: Any, **kwargs: Any) -> Any:  # type: ignore[override]
        raise RuntimeError("threads are forbidden in the simulation")

    def _run_once(self) -> None:
        if self.rounds in self.interruptions:
            self.interruptions.pop(self.rounds)()
        ready = self._ready  # type: ignore[attr-defined]
        if len(ready) > 1:
            shuffled = list(ready)
            self._rng.shuffle(shuffled)
            ready.clear()
            ready.extend(shuffled)
        super()._run_once()  # type: ignore[misc]
        self._watch_time()

    def _watch_time(self) -> None:
        self.rounds += 1
        if self._timeline.now_ns - self._since_ns > BUSY_NS:
            self._since_ns, self._since_round = self._timeline.now_ns, self.rounds
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
