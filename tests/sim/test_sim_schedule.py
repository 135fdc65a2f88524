"""Directed histories: when a delivery is tried again, and when it is given up."""

from itertools import pairwise

import pytest

from recapito.domain.delivery.delivery import ATTEMPTS_EXCEEDED, TTL_EXCEEDED
from recapito.domain.instant import HOUR, SECOND
from recapito.domain.resources.subscription import Batching, DeadLetterDirectory, RetryPolicy
from tests.sim.behaviour import HEALTHY, answering, in_turn, refusing
from tests.sim.books import Owed, State
from tests.sim.facts import Watched
from tests.sim.scene import Scene, act, requests, sent_at

DELAYS_2021 = (10, 30, 60, 300, 600, 1800, 3600, 10800, 21600, 43200)
JITTER = 0.1
ANSWERED_S = 0.4  # an answer and a commit take at most so long


def only(lane: Watched) -> Owed:
    """The one delivery of a lane."""
    (owed,) = lane.books.owed.values()
    return owed


def gaps(owed: Owed) -> list[float]:
    """The time between each attempt and the next."""
    return [b - a for a, b in pairwise(sent_at(owed))]


def test_a_day_at_a_dead_endpoint() -> None:
    """A dead endpoint is tried at the documented times, jitter on top, and given up when the next attempt is due."""
    lanes: list[Watched] = []

    async def script(scene: Scene) -> None:
        await scene.topic()
        lanes.append(await scene.subscribe(behaviour=answering(500)))
        await scene.publish()
        await scene.quiet(60 * 3600)

    scene = act(script)
    owed = only(lanes[0])
    assert len(gaps(owed)) == len(DELAYS_2021)
    for gap, delay in zip(gaps(owed), DELAYS_2021, strict=True):
        assert delay <= gap <= delay * (1 + JITTER) + ANSWERED_S
    assert owed.state == State.DROPPED
    assert owed.reason == TTL_EXCEEDED
    settled = [line[0] for line in scene.oracle.trace if line[1] == "settled"]
    assert settled[-1] - owed.event.sent_at > 34 * HOUR  # not at 24 hours: only when the next attempt came due


def test_hourly_retries_of_2019() -> None:
    """The profile of 2019-05 retries every hour for a day, and holds nothing back."""
    lanes: list[Watched] = []

    async def script(scene: Scene) -> None:
        await scene.topic("2019-05")
        lanes.append(await scene.subscribe(behaviour=answering(404)))
        await scene.publish()
        await scene.quiet(60 * 3600)

    act(script)
    found = gaps(only(lanes[0]))
    assert 27 <= len(found) + 1 <= 30
    for gap, delay in zip(found, (10, 30, 60, 300, 600, 1800, *(3600,) * 30), strict=False):
        assert delay <= gap <= delay * (1 + JITTER) + ANSWERED_S


@pytest.mark.parametrize(
    ("status", "retry_after_s", "least_s"),
    [(500, 0, 10), (503, 0, 30), (408, 0, 120), (429, 0, 10), (429, 90, 90), (503, 7200, 3600), (500, 10**9, 3600)],
)
def test_the_latest_delay_wins(status: int, retry_after_s: int, least_s: int) -> None:
    """Schedule, the status code's minimum and Retry-After, capped at an hour: the latest of them counts."""
    lanes: list[Watched] = []

    async def script(scene: Scene) -> None:
        await scene.topic()
        sick = answering(status, retry_after_s=retry_after_s)
        lanes.append(await scene.subscribe(behaviour=in_turn(sick, HEALTHY)))
        await scene.publish()
        await scene.quiet()

    act(script)
    (gap,) = gaps(only(lanes[0]))
    assert least_s <= gap <= max(least_s, 10 * (1 + JITTER)) + ANSWERED_S


@pytest.mark.parametrize(("attempts", "status"), [(1, 500), (1, 404), (3, 500), (30, 500)])
def test_attempts_are_limited(attempts: int, status: int) -> None:
    """A delivery is tried as often as its policy says, and the last attempt wins over a code that is never retried."""
    lanes: list[Watched] = []

    async def script(scene: Scene) -> None:
        await scene.topic("2019-05")
        policy = RetryPolicy(max_attempts=attempts)
        lanes.append(await scene.subscribe(behaviour=answering(status), retry_policy=policy))
        await scene.publish()
        await scene.quiet(60 * 3600)

    act(script)
    owed = only(lanes[0])
    if attempts < 30:
        assert len(owed.arrivals) == attempts
        assert owed.reason == ATTEMPTS_EXCEEDED


def test_time_to_live_is_looked_at_only_when_an_attempt_is_due() -> None:
    """An event that expires between two attempts waits for the next one's time, and is then given up untried."""
    lanes: list[Watched] = []

    async def script(scene: Scene) -> None:
        await scene.topic()
        policy = RetryPolicy(ttl_minutes=2)
        lanes.append(await scene.subscribe(behaviour=answering(500), retry_policy=policy))
        await scene.publish()
        await scene.wait(300)
        assert only(lanes[0]).state is State.PARKED  # expired at 120 s, due at about 400 s
        await scene.quiet()

    act(script)
    assert len(only(lanes[0]).arrivals) == 4
    assert only(lanes[0]).reason == TTL_EXCEEDED


def test_a_policy_of_ones_own_is_never_skipped() -> None:
    """Under any policy but the default the number of attempts is determined; the default may skip during a hold."""
    lanes: list[Watched] = []

    async def script(scene: Scene) -> None:
        await scene.topic()
        for name, policy in (("mine", RetryPolicy(12, 1440)), ("default", RetryPolicy())):
            lanes.append(await scene.subscribe(name, refusing(), retry_policy=policy))
        for _ in range(30):
            await scene.publish()
            await scene.wait(1)
        await scene.quiet(60 * 3600)

    act(script)
    mine, default = lanes
    skipped = [o.parked.delivery.skipped for o in mine.books.owed.values() if o.parked]
    assert skipped and not any(skipped)
    assert any(o.parked.delivery.skipped for o in default.books.owed.values() if o.parked)


def test_each_event_of_a_failed_batch_keeps_its_own_attempts() -> None:
    """Events with different pasts fail together, and each has one attempt more; after two failures each goes alone."""
    lanes: list[Watched] = []

    async def script(scene: Scene) -> None:
        await scene.topic()
        lanes.append(await scene.subscribe(behaviour=answering(500), batching=Batching(max_events=10)))
        await scene.publish(2)
        await scene.wait(30)
        await scene.publish(3)
        await scene.wait(2)
        scene.clock.suspend(60 * SECOND)  # all five come due while the machine sleeps
        scene.oracle.suspended()
        await scene.wait(8)
        scene.become("sub", HEALTHY)
        await scene.quiet()

    act(script)
    rows = [owed.parked.delivery.attempts for owed in lanes[0].books.owed.values() if owed.parked]
    assert rows == [3, 3, 2, 2, 2]
    for arrival in requests(lanes[0]):
        assert len(arrival.events) == 1 or arrival.batch.attempts_before < 2
    assert any(len(arrival.events) == 3 and arrival.batch.attempts_before == 1 for arrival in requests(lanes[0]))


def test_batches_never_wait() -> None:
    """A lonely event goes at once, though its batch could take a thousand."""
    lanes: list[Watched] = []

    async def script(scene: Scene) -> None:
        await scene.topic()
        lanes.append(await scene.subscribe(batching=Batching(max_events=1000, preferred_kilobytes=1024)))
        await scene.publish()
        await scene.quiet()

    act(script)
    (arrival,) = requests(lanes[0])
    assert arrival.sent_at - only(lanes[0]).event.sent_at < SECOND


@pytest.mark.parametrize("buried", [False, True])
@pytest.mark.parametrize("status", [400, 413])
def test_a_bad_request_was_once_retried_without_dead_letters(status: int, buried: bool) -> None:
    """In the profiles of 2019 it is given up at once only where dead letters are set up."""
    lanes: list[Watched] = []
    settings = {"dead_letter": DeadLetterDirectory(name="box")} if buried else {}

    async def script(scene: Scene) -> None:
        await scene.topic("2019-07")
        lanes.append(await scene.subscribe(behaviour=in_turn(answering(status), HEALTHY), **settings))
        await scene.publish()
        await scene.quiet()

    act(script)
    assert only(lanes[0]).state is (State.DEAD_LETTERED if buried else State.DELIVERED)
