"""The pumps: one call at a time, every taken call carried out, results before housekeeping."""

import asyncio
import threading
from typing import Any

import pytest

from recapito.stores.sqlite.worker import InlineWorker, ThreadWorker


def test_calls_run_one_after_the_other_in_one_thread(run: Any) -> None:
    """All calls of a pump have the same thread, which is not the caller's."""

    async def scenario() -> list[int]:
        worker = ThreadWorker("test", lambda: None)
        idents = await asyncio.gather(*(worker(threading.get_ident) for _ in range(20)))
        await worker.close()
        return idents

    idents = set(run(scenario()))
    assert len(idents) == 1
    assert threading.get_ident() not in idents


def test_a_call_that_was_taken_is_carried_out(run: Any) -> None:
    """Cancelling a waiter changes nothing for the call, nor for those behind it."""
    done: list[str] = []
    go_on = threading.Event()

    async def scenario() -> str:
        worker = ThreadWorker("test", lambda: None)
        first = asyncio.ensure_future(worker(lambda: done.append(f"first {go_on.wait(10)}")))
        second = asyncio.ensure_future(worker(lambda: done.append("second")))
        await asyncio.sleep(0)
        first.cancel()
        second.cancel()
        await asyncio.gather(first, second, return_exceptions=True)
        go_on.set()
        third = await worker(lambda: "third")
        await worker.close()
        return third

    assert run(scenario()) == "third"
    assert done == ["first True", "second"]


@pytest.mark.parametrize("threaded", [True, False])
def test_an_exception_is_the_callers(run: Any, threaded: bool) -> None:
    """An exception of a call is raised where it is awaited, and the worker goes on."""

    async def scenario() -> int:
        worker = ThreadWorker("test", lambda: None) if threaded else InlineWorker(lambda: None)
        with pytest.raises(ZeroDivisionError):
            await worker(lambda: 1 // 0)
        answer = await worker(lambda: 42)
        await worker.close()
        return answer

    assert run(scenario()) == 42


def test_housekeeping_does_not_hold_up_a_result(run: Any) -> None:
    """The caller has the result while the pump still cleans up."""
    answered = threading.Event()
    seen: list[bool] = []

    async def scenario() -> None:
        worker = ThreadWorker("test", lambda: seen.append(answered.wait(10)))
        await worker(lambda: None)
        answered.set()
        await worker.close()

    run(scenario())
    assert seen == [True]


def test_inline_housekeeping_comes_before_the_next_call(run: Any) -> None:
    """Without a thread the order is the same: result, housekeeping, next call."""
    order: list[str] = []

    async def scenario() -> None:
        worker = InlineWorker(lambda: order.append("housekeeping"))
        await worker(lambda: order.append("one"))
        await worker(lambda: order.append("two"))
        await worker.close()
        await worker.close()

    run(scenario())
    assert order == ["one", "housekeeping", "two", "housekeeping"]


def test_housekeeping_that_fails_is_told_to_the_loop(run: Any) -> None:
    """A bug there neither hangs the callers nor goes unseen."""
    told: list[Any] = []

    async def scenario() -> int:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: told.append(context["exception"]))
        worker = ThreadWorker("test", lambda: 1 // 0)  # type: ignore[arg-type, return-value]
        await worker(lambda: 1)
        answer = await worker(lambda: 2)
        await worker.close()
        return answer

    assert run(scenario()) == 2
    assert {type(error) for error in told} == {ZeroDivisionError}


def test_a_loop_that_is_gone_is_no_trouble() -> None:
    """A result without a receiver is let go."""
    go_on = threading.Event()
    worker = ThreadWorker("test", lambda: None)

    async def leave() -> None:
        waiting = asyncio.ensure_future(worker(lambda: go_on.wait(10)))
        await asyncio.sleep(0)
        waiting.cancel()

    asyncio.run(leave())
    go_on.set()
    asyncio.run(worker.close())
