"""Celery on Redis, acknowledging after the work: a task that posts one event by pycurl, over a kept connection."""

import os

import pycurl
from celery import Celery
from starlette.concurrency import run_in_threadpool

app = Celery("bench", broker=os.environ["BENCH_REDIS"])
app.conf.update(
    task_ignore_result=True,
    task_acks_late=True,
    task_compression=None,
    worker_prefetch_multiplier=16,
    broker_connection_retry_on_startup=True,
    broker_pool_limit=40,
)
_curl: list[pycurl.Curl] = []  # one per worker process, made after the fork


@app.task
def deliver(body: str) -> None:
    """Post one event."""
    curl = _curl[0] if _curl else _new_curl()
    curl.setopt(pycurl.POSTFIELDS, body)
    curl.perform()
    if curl.getinfo(pycurl.RESPONSE_CODE) != 200:
        raise RuntimeError("the endpoint refused")


def _new_curl() -> pycurl.Curl:
    curl = pycurl.Curl()
    curl.setopt(pycurl.URL, os.environ["BENCH_ENDPOINT"])
    curl.setopt(pycurl.HTTPHEADER, ["Content-Type: application/json; charset=utf-8", "Expect:"])
    _curl.append(curl)
    return curl


async def enqueue(body: str) -> None:
    """Put one event into the queue."""
    await run_in_threadpool(deliver.delay, body)


async def start() -> None:
    """Nothing to open."""


async def stop() -> None:
    """Nothing to close."""
