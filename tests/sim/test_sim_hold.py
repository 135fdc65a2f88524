"""Directed histories: delayed delivery and probation, and what happens when the endpoint is back."""

from bisect import bisect_right
from itertools import pairwise

import pytest

from recapito.domain import limits
from recapito.domain.delivery.hold import CLEAR
from recapito.domain.filters.filter import Filter
from recapito.domain.instant import SECOND
from recapito.domain.resources.subscription import Batching, RetryPolicy
from tests.sim.behaviour import HEALTHY, answering
from tests.sim.books import State
from tests.sim.endpoints import Arrival
from tests.sim.facts import Watched
from tests.sim.scene import Scene, act, requests


def times_s(arrivals: list[Arrival]) -> list[float]:
    """When requests were sent, in seconds since the first."""
    return [(arrival.sent_at - arrivals[0].sent_at) / SECOND for arrival in arrivals]


def test_ten_events_hold_a_subscription_back() -> None:
    """Ten events that fail hold retries and new deliveries; probes go ever more seldom, then sweeps; success clears."""
    lanes: list[Watched] = []

    async def script(scene: Scene) -> None:
        await scene.topic()
        lanes.append(await scene.subscribe(behaviour=answering(500, 0.1, 0.1)))
        await scene.publish(20)
        for _ in range(14):
            await scene.wait(3600)
            await scene.publish()
        scene.become("sub", HEALTHY)
        await scene.quiet()

    act(script)
    sent = requests(lanes[0])
    failed = times_s([arrival for arrival in sent if arrival.outcome and arrival.outcome.status == 500])
    gaps = [b - a for a, b in pairwise(failed[9:])]
    assert gaps[:7] == pytest.approx([60, 120, 240, 480, 960, 1920, 3840], abs=1)
    sweeps = [at for at, gap in zip(failed[10:], gaps, strict=True) if gap > 3900]
    assert sweeps == pytest.approx([4 * 3600, 8 * 3600, 12 * 3600], abs=60)
    assert sum(at < sweeps[0] + 60 for at in failed) == 10 + 7 + 24  # everything that waited, once
    row = lanes[0].books.last_row
    assert row is not None and row.hold == CLEAR
    assert lanes[0].books.states[State.DELIVERED] > 30


def test_one_success_is_enough() -> None:
    """Nine failures, a success and nine failures more hold nothing back."""
    lanes: list[Watched] = []

    async def script(scene: Scene) -> None:
        await scene.topic()
        lanes.append(await scene.subscribe(behaviour=answering(500)))
        for round in range(2):
            scene.become("sub", answering(500))
            for _ in range(9):
                await scene.publish()
                await scene.wait(0.9)
            scene.become("sub", HEALTHY)
            await scene.publish()
            await scene.wait(3600 * (round + 1))

    act(script)
    assert all(state.hold.period == 0 for state in [lanes[0].books.last_row] if state)
    assert lanes[0].books.states[State.DELIVERED] == 20


def test_probation_holds_at_the_first_not_found() -> None:
    """In a profile with a probation table one 404 holds the subscription for five minutes, then ten."""
    lanes: list[Watched] = []

    async def script(scene: Scene) -> None:
        await scene.topic("2026-02")
        lanes.append(await scene.subscribe(behaviour=answering(404, 0.1, 0.1)))
        await scene.publish()
        await scene.wait(10)
        await scene.publish(5)
        await scene.wait(3600)
        scene.become("sub", HEALTHY)
        await scene.quiet()

    act(script)
    assert times_s(requests(lanes[0]))[:4] == pytest.approx([0, 300, 900, 2100], abs=2)
    assert lanes[0].books.states[State.DELIVERED] == 6


def test_other_subscriptions_do_not_notice() -> None:
    """A held subscription and one that hangs delay no other."""
    lanes: list[Watched] = []

    async def script(scene: Scene) -> None:
        await scene.topic()
        await scene.subscribe("dead", answering(500))
        await scene.subscribe("slow", answering(200, 29.0, 29.9))
        lanes.append(await scene.subscribe("well"))
        for _ in range(50):
            await scene.publish(3)
            await scene.wait(20)
        scene.become("dead", HEALTHY)
        await scene.quiet()

    act(script)
    for owed in lanes[0].books.owed.values():
        assert owed.arrivals[0].sent_at - owed.event.sent_at < 5 * SECOND


def test_a_held_lane_with_a_sparse_filter_does_not_pin_the_log() -> None:
    """Held, a filter that takes next to nothing goes on reading, and parks what it finds."""
    lanes: list[Watched] = []
    trimmed: list[int] = []

    async def script(scene: Scene) -> None:
        await scene.topic("2026-02")
        rare = Filter(event_types=("Rare",))
        lanes.append(await scene.subscribe(behaviour=answering(404), filter=rare))
        await scene.publish(40, type="Common")
        await scene.publish(1, type="Rare")
        await scene.wait(60)
        for _ in range(20):
            await scene.publish(20, type="Common")
            await scene.publish(1, type="Rare")
            await scene.wait(300)
        for _ in range(3):
            await scene.machine.request(scene.machine.sweep)
            await scene.wait(10)
        trimmed.extend(line[3] for line in scene.oracle.trace if line[1] == "trimmed")
        assert lanes[0].books.last_row is not None and lanes[0].books.last_row.hold.on
        scene.become("sub", HEALTHY)
        await scene.quiet()

    act(script)
    assert max(trimmed) > 40
    assert lanes[0].books.states[State.DELIVERED] == 21


def test_a_recovered_endpoint_gets_its_backlog_without_a_stampede() -> None:
    """Ten thousand parked deliveries: the window restarts at one and grows by one with each answer."""
    lanes: list[Watched] = []
    recovered: list[int] = []

    async def script(scene: Scene) -> None:
        scene.faults.quick_disk = True
        await scene.topic()
        large = Batching(max_events=1000, preferred_kilobytes=1024)
        never_held = RetryPolicy(max_attempts=29)
        lanes.append(await scene.subscribe(behaviour=answering(500), batching=large, retry_policy=never_held))
        for _ in range(10):
            await scene.publish(1000)
        await scene.wait(1200)
        assert lanes[0].books.states[State.PARKED] == 10_000
        await scene.subscribe(behaviour=answering(200, 0.05, 0.1), batching=Batching())  # the same, one by one
        recovered.append(scene.clock.now())
        await scene.quiet()

    act(script)
    sent = [arrival for arrival in requests(lanes[0]) if arrival.sent_at > recovered[0]]
    heard = sorted(arrival.heard_at for arrival in sent if arrival.heard_at)
    for n, arrival in enumerate(sent):
        answers = bisect_right(heard, arrival.sent_at)
        assert n + 1 - answers <= min(answers + 1, limits.WINDOW_REQUESTS)
    assert lanes[0].books.states[State.DELIVERED] == 10_000


def test_what_is_for_others_is_passed_when_a_hold_ends() -> None:
    """A held lane of which nothing is pending passes, at the end of its hold, what came meanwhile and is not for it."""
    lanes: list[Watched] = []

    async def script(scene: Scene) -> None:
        await scene.topic()
        mine = Filter(event_types=("Mine",))
        lanes.append(
            await scene.subscribe(behaviour=answering(404), filter=mine)  # which is never retried
        )
        await scene.subscribe("well")  # everything is read for it, so that the tail knows the wake keys
        await scene.publish(20, type="Mine")
        await scene.quiet()
        await scene.publish(1, type="Other")
        await scene.wait(20)
        assert lanes[0].books.last_row is not None and lanes[0].books.last_row.hold.on and lanes[0].books.unread
        await scene.wait(8 * 3600)

    act(script)
    assert not lanes[0].books.unread


def test_another_endpoint_is_not_held_for_the_failures_of_the_last() -> None:
    """A subscription that gets another URL receives new events at once, not when the hold would have ended."""
    lanes: list[Watched] = []

    async def script(scene: Scene) -> None:
        await scene.topic()
        lanes.append(await scene.subscribe(behaviour=answering(500)))
        await scene.publish(20)
        await scene.wait(3600)
        await scene.people.put_subscription("orders", scene.people.fixed_draft("sub", "mended"))
        await scene.publish()
        await scene.wait(10)

    act(script)
    assert requests(lanes[0])[-1].url.startswith("http://mended/")
    assert lanes[0].books.last_row is not None and lanes[0].books.last_row.hold == CLEAR
