"""Limits that an operator sets for a lane: events per second and requests in flight, on virtual time."""

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from recapito.dispatch.capacity import Pace
from recapito.domain.events.schema import DeliverySchema, InputSchema
from recapito.domain.instant import MILLISECOND, SECOND
from recapito.domain.resources.delivery_options import DeliveryOptions
from recapito.domain.resources.subscription import Batching, RetryPolicy
from tests.dispatch.bench import Bench
from tests.sim.loop import SimLoop, run

EVENTS = 300


@given(st.integers(1, 1000), st.lists(st.tuples(st.integers(1, 2000), st.integers(0, 3000)), max_size=60))
def test_a_pace_is_kept(rate: int, wishes: list[tuple[int, int]]) -> None:
    """In any N seconds at most N + 2 seconds' worth of events go, and a lane never waits longer than two seconds."""
    pace, now = Pace(), 10**18
    pace.use(DeliveryOptions(events_per_second=rate))
    sent: list[tuple[int, int]] = []
    for events, pause_ms in wishes:
        now += pause_ms * MILLISECOND
        resumes_at = pace.resumes_at(now)
        assert resumes_at is None or now < resumes_at <= now + 2 * SECOND
        if resumes_at is None:
            batch = pace.events(events)
            assert 1 <= batch <= min(rate, events)
            pace.sent(batch, now)
            sent.append((now, batch))
    for n, (since, _) in enumerate(sent):
        total = 0
        for at, batch in sent[n:]:
            total += batch
            assert total <= rate * ((at - since) / SECOND + 2) + 1e-6


def deliver(statuses: tuple[int, ...], seconds: float, options: DeliveryOptions, **settings: Any) -> tuple[int, int]:
    """The events that went to the endpoint within these seconds, and the most requests that were open at once."""

    async def main(loop: SimLoop) -> tuple[int, int]:
        bench = Bench(loop, *statuses)
        open_requests: list[int] = []
        topic = await bench.topic(InputSchema.EVENT_GRID)
        await bench.subscribe(topic, DeliverySchema.EVENT_GRID, own_options=options, **settings)
        running = asyncio.create_task(bench.service.run())
        for _ in range(3):
            await bench.publish(topic, *map(str, range(EVENTS // 3)))
        for _ in range(int(seconds * 100)):
            await asyncio.sleep(0.01)
            open_requests.append(bench.dispatcher.under_way)
        sent = sum(batch.events for batch in bench.got)
        await asyncio.sleep(3600)
        assert sum(batch.events for batch in bench.got) >= EVENTS
        running.cancel()
        return sent, max(open_requests)

    return run(1, main)


@pytest.mark.parametrize("batching", [Batching(), Batching(100, 64)])
def test_events_per_second(batching: Batching) -> None:
    """A lane with a rate sends as many events as it may and no more, one by one or in batches."""
    sent, _ = deliver((200,), 10, DeliveryOptions(events_per_second=10), batching=batching)
    assert 95 <= sent <= 120


def test_retries_count() -> None:
    """Failed attempts and retries keep to the rate too."""
    policy = RetryPolicy(29, 1440)
    sent, _ = deliver((503,), 60, DeliveryOptions(events_per_second=10), retry_policy=policy)
    assert 300 <= sent <= 620


def test_requests_in_flight() -> None:
    """A lane with a limit of two has two requests open; without it, more."""
    assert deliver((200,), 2, DeliveryOptions(max_requests=2))[1] == 2
    assert deliver((200,), 2, DeliveryOptions())[1] > 2


def test_a_limit_is_lifted() -> None:
    """A change of the limit counts at once for all that waits."""

    async def main(loop: SimLoop) -> tuple[int, int]:
        bench = Bench(loop, 200)
        topic = await bench.topic(InputSchema.EVENT_GRID)
        slow = await bench.subscribe(topic, DeliverySchema.EVENT_GRID, own_options=DeliveryOptions(events_per_second=1))
        running = asyncio.create_task(bench.service.run())
        await bench.publish(topic, *map(str, range(EVENTS)))
        await asyncio.sleep(10)
        before = len(bench.got)
        await bench.log.put_subscription(replace(slow, own_options=DeliveryOptions()))
        bench.dispatcher.notify()
        await asyncio.sleep(5)
        running.cancel()
        return before, len(bench.got)

    before, after = run(1, main)
    assert 9 <= before <= 12
    assert after == EVENTS
