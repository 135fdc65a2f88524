"""Directed histories: an operator asks to try now everything that is parked."""

import pytest

from recapito.dispatch.lane.rush import Rush, outlasts
from recapito.domain.delivery.delivery import Delivery, DeliveryId, Parked
from recapito.domain.delivery.hold import CLEAR, Hold
from recapito.domain.instant import HOUR
from recapito.domain.resources.subscription import RetryPolicy
from tests.sim.behaviour import HEALTHY, answering
from tests.sim.books import State
from tests.sim.facts import Watched
from tests.sim.machine import Parts, Role
from tests.sim.planted import RestlessLane, dispatching
from tests.sim.scene import Scene, act, requests

OWN_POLICY = RetryPolicy(10, 1440)  # and a 408 is retried after two minutes at the least


def test_a_hold_ends_and_everything_arrives() -> None:
    """An endpoint that is well again gets all that waits within a minute, hours before its hold would end."""
    lanes: list[Watched] = []

    async def script(scene: Scene) -> None:
        await scene.topic()
        lanes.append(await scene.subscribe(behaviour=answering(500)))
        await scene.publish(20)
        await scene.wait(3 * 3600)
        await scene.publish(20)
        scene.become("sub", HEALTHY)
        assert lanes[0].books.states[State.DELIVERED] == 0
        await scene.people.retry_now(lanes[0].id)
        await scene.wait(60)
        assert lanes[0].books.states[State.DELIVERED] == 40
        await scene.quiet()

    act(script)
    row = lanes[0].books.last_row
    assert row is not None and row.hold == CLEAR


def tried_once_more(parts: Parts | None = None, ask: int = 1) -> list[int]:
    """The number of attempts of each of 100 deliveries: one at first, and one for each request of the operator."""
    lanes: list[Watched] = []
    after: list[int] = []

    async def script(scene: Scene) -> None:
        await scene.topic()
        lanes.append(await scene.subscribe(behaviour=answering(408, 0.05, 0.05), retry_policy=OWN_POLICY))
        await scene.publish(100)
        await scene.wait(20)
        for _ in range(ask):
            await scene.people.retry_now(lanes[0].id)
            await scene.wait(20)
        after.extend(len(owed.arrivals) for owed in lanes[0].books.owed.values())
        scene.become("sub", HEALTHY)
        await scene.quiet()

    act(script, parts)
    assert lanes[0].books.states[State.DELIVERED] == 100
    return after


@pytest.mark.parametrize("ask", [1, 2])
def test_what_fails_again_waits_again(ask: int) -> None:
    """At an endpoint that still fails each delivery is tried once for each request, then it waits for its time."""
    assert tried_once_more(ask=ask) == [1 + ask] * 100


def test_a_crash_loses_nothing() -> None:
    """After a crash in the middle the rest is tried at once, and nothing of it twice."""
    lanes: list[Watched] = []

    async def script(scene: Scene) -> None:
        await scene.topic()
        lanes.append(await scene.subscribe(behaviour=answering(408, 0.05, 0.05), retry_policy=OWN_POLICY))
        await scene.publish(500)
        await scene.wait(40)
        scene.become("sub", HEALTHY)
        await scene.people.retry_now(lanes[0].id)
        await scene.wait(0.5)
        scene.machine.crash(Role.DISPATCH)
        await scene.wait(60)
        assert lanes[0].books.states[State.DELIVERED] == 500
        await scene.quiet()

    act(script)
    assert len(requests(lanes[0])) >= 1000
    assert lanes[0].books.states[State.DELIVERED] == 500


def test_a_restless_lane_is_found() -> None:
    """Planted: a rush that also takes what was tried since breaks I9."""
    with pytest.raises(AssertionError, match=r"I9.* early"):
        tried_once_more(Parts(dispatcher=dispatching(RestlessLane)))


def test_a_clock_that_stands_still() -> None:
    """Where no time passes, a delivery is still tried once in a rush, and again in the next."""
    row = _parked(5)
    rush = Rush(asked_at=5)
    assert rush.choose([row], now=5) == [row]
    assert rush.choose([row], now=5) == []
    assert Rush(asked_at=6).choose([row], now=5) == [row]
    assert Rush(asked_at=4).choose([row], now=5) == []


def _parked(tried_at: int) -> Parked:
    return Parked(100, Delivery(DeliveryId(1, 0), 0, b"{}", attempts=1, last_attempt_at=tried_at))


@pytest.mark.parametrize(
    ("hold", "now", "expected"),
    [
        (CLEAR, 10 * HOUR + 1, True),
        (CLEAR, 40 * HOUR, False),  # it was asked for too long ago
        (Hold(10, until=12 * HOUR, period=4 * HOUR, sweep_at=20 * HOUR), 11 * HOUR, True),
        (Hold(10, until=12 * HOUR, period=HOUR, sweep_at=20 * HOUR), 11 * HOUR, False),  # it is held again since
    ],
)
def test_a_restart(hold: Hold, now: int, expected: bool) -> None:
    """A lane that is opened takes up a request of the last day, unless it was held again since."""
    assert outlasts(10 * HOUR, hold, now) is expected
