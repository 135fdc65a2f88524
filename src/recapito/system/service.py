"""A process that a parent starts and stops: its configuration, its services, its HTTP server and its exit code.

The parent writes one line of configuration to standard input. The process ends when the parent writes again or closes
the pipe; its services then finish in the reverse order of their start.
"""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, suppress
from typing import Any, NamedTuple, TypeVar

import msgspec

from recapito.errors import ClusterUnreachable, SettingsError, StoreFailed, StoreLost, VolumeFull

C = TypeVar("C")


async def cancel(task: "asyncio.Task[None]") -> None:
    """Finish a service that has nothing to complete."""
    task.cancel()


class ServiceTask(NamedTuple):
    """One task of a process.

    run: the work of the service.
    finish: makes the task of `run` end. It completes the work that was begun, or cancels it.
    vital: the process stops when this service ends.
    """

    run: Callable[[], Coroutine[Any, Any, None]]
    finish: Callable[["asyncio.Task[None]"], Awaitable[None]] = cancel
    vital: bool = True


async def run_services(
    services: Sequence[ServiceTask], stopping: Awaitable[object], on_ready: Callable[[], None] = lambda: None
) -> None:
    """Start services in order, wait until `stopping` or a vital service ends, and finish them in reverse order.

    Each service has ended before the one that was started before it is asked to finish. The error of a service that
    failed is raised when all have ended.
    """
    async with AsyncExitStack() as running:
        ends = set()
        for service in services:
            task = asyncio.create_task(service.run())
            running.push_async_callback(_finish, service, task)
            if service.vital:
                ends.add(task)
        stop = asyncio.ensure_future(stopping)
        running.callback(stop.cancel)
        on_ready()
        await asyncio.wait({stop, *ends}, return_when=asyncio.FIRST_COMPLETED)


async def _finish(service: ServiceTask, task: "asyncio.Task[None]") -> None:
    await service.finish(task)
    with suppress(asyncio.CancelledError):
        await task


def run_configured(kind: type[C], start: Callable[[C], Coroutine[Any, Any, None]]) -> int:
    """Read the configuration of this process from standard input, run the process with it, and return its exit code.

    It is read without a buffer, which would swallow an order to stop that came while this process was loaded.
    """
    with open(sys.stdin.fileno(), "rb", buffering=0, closefd=False) as orders:
        line = orders.readline()
    if not line.endswith(b"\n"):
        return os.EX_OK  # the parent ended before it wrote the configuration
    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            runner.run(start(msgspec.json.decode(line, type=kind)))
    except SettingsError as error:
        print(f"recapito: {error}", file=sys.stderr, flush=True)
        return os.EX_TEMPFAIL if isinstance(error, VolumeFull | ClusterUnreachable) else os.EX_CONFIG
    except StoreLost:
        return os.EX_UNAVAILABLE
    except StoreFailed as error:
        print(f"recapito: {error}", file=sys.stderr, flush=True)
        return os.EX_TEMPFAIL
    return os.EX_OK


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop's event loop if the extra `fast` is installed; None is Python's own."""
    try:
        from uvloop import new_event_loop
    except ModuleNotFoundError:
        return None
    return new_event_loop


async def stop_order() -> bool:
    """Wait until the parent orders to stop (True) or is gone (False); nothing waits for this process in that case."""
    loop = asyncio.get_running_loop()
    ordered: asyncio.Future[bool] = loop.create_future()
    stdin = sys.stdin.fileno()

    def read() -> None:
        loop.remove_reader(stdin)
        ordered.set_result(os.read(stdin, 64) != b"")

    loop.add_reader(stdin, read)
    try:
        return await ordered
    finally:
        loop.remove_reader(stdin)
