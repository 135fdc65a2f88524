"""Workers run calls of a synchronous object: in a thread of its own, or directly where there is no real disk.

A call that was taken is carried out, whether its caller still waits or not. Each call returns its result before `after`
does the housekeeping.
"""

import asyncio
import contextlib
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, NamedTuple, Protocol, TypeVar

T = TypeVar("T")


class Worker(Protocol):
    """Runs calls one after the other."""

    async def __call__(self, call: Callable[[], T]) -> T:
        """Run one call; its result or its exception."""

    async def close(self) -> None:
        """Finish the calls that were taken; nothing may be called after this."""


class InlineWorker:
    """Calls directly. Housekeeping is done before the next call, as it would be in a thread."""

    def __init__(self, after: Callable[[], None]) -> None:
        self._after = after
        self._left = False

    async def __call__(self, call: Callable[[], T]) -> T:
        self._clean_up()
        self._left = True
        return call()

    async def close(self) -> None:
        self._clean_up()

    def _clean_up(self) -> None:
        if self._left:
            self._left = False
            self._after()


class _Job(NamedTuple):
    call: Callable[[], Any]
    loop: asyncio.AbstractEventLoop
    result: asyncio.Future[Any]


class ThreadWorker:
    """Calls in one thread, which ends when the worker is closed."""

    def __init__(self, name: str, after: Callable[[], None]) -> None:
        self._after = after
        self._closed = False
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    async def __call__(self, call: Callable[[], T]) -> T:
        if self._closed:
            raise RuntimeError("the worker is closed")
        loop = asyncio.get_running_loop()
        result: asyncio.Future[T] = loop.create_future()
        self._jobs.put(_Job(call, loop, result))
        return await result

    async def close(self) -> None:
        self._closed = True
        self._jobs.put(None)
        await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            self._do(job)
            try:
                self._after()
            except (
                Exception
            ) as error:  # a bug: reported to the loop, for a dead thread would leave every caller waiting
                context = {"message": "housekeeping of the store failed", "exception": error}
                _call_in(job.loop, job.loop.call_exception_handler, context)

    def _do(self, job: _Job) -> None:
        try:
            value = job.call()
        except BaseException as error:
            _call_in(job.loop, _fail, job.result, error)
        else:
            _call_in(job.loop, _succeed, job.result, value)


def _call_in(loop: asyncio.AbstractEventLoop, callback: Callable[..., None], *args: Any) -> None:
    with contextlib.suppress(RuntimeError):  # the loop is closed
        loop.call_soon_threadsafe(callback, *args)


def _succeed(result: asyncio.Future[Any], value: object) -> None:
    if not result.done():
        result.set_result(value)


def _fail(result: asyncio.Future[Any], error: BaseException) -> None:
    if not result.done():
        result.set_exception(error)
