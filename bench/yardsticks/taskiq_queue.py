"""taskiq on Redis streams, the broker of it that acknowledges: a task that posts one event by aiohttp."""

import os

import aiohttp
from taskiq import TaskiqEvents, TaskiqState
from taskiq_redis import RedisStreamBroker

broker = RedisStreamBroker(os.environ["BENCH_REDIS"])
_JSON = {"Content-Type": "application/json; charset=utf-8"}
_state = TaskiqState()


@broker.on_event(TaskiqEvents.WORKER_STARTUP)
async def _open(state: TaskiqState) -> None:
    _state.session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))


@broker.on_event(TaskiqEvents.WORKER_SHUTDOWN)
async def _close(state: TaskiqState) -> None:
    await _state.session.close()


@broker.task
async def deliver(body: str) -> None:
    """Post one event."""
    async with _state.session.post(os.environ["BENCH_ENDPOINT"], data=body.encode(), headers=_JSON) as answer:
        answer.raise_for_status()


async def enqueue(body: str) -> None:
    """Put one event into the queue."""
    await deliver.kiq(body)


start, stop = broker.startup, broker.shutdown
