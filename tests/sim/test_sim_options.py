"""Directed histories: limits that an operator sets for a subscription, and replays of its events."""

import random
from collections import Counter
from collections.abc import Callable

import pytest

from recapito.domain.filters.filter import Filter
from recapito.domain.resources.subscription import Batching
from recapito.intake.maintenance.retention import RetentionBounds
from tests.sim import planted_options
from tests.sim.behaviour import HEALTHY, answering
from tests.sim.books import State
from tests.sim.faults import Role, Trap
from tests.sim.machine import Parts
from tests.sim.plan import HOUR_S, draw_plan
from tests.sim.planted_options import pacing
from tests.sim.scene import Scene, act
from tests.sim.world import tell

SEEDS = 40
EVENTS = 6
ALL_KEPT = RetentionBounds(1_000_000)


async def replay_all(scene: Scene) -> None:
    """Two subscriptions get all events; everything is replayed to one of them, again until the server has done it."""
    await scene.topic()
    lane = await scene.subscribe("again")
    await scene.subscribe("once")
    for _ in range(EVENTS):
        await scene.publish()
    await scene.wait(60)
    place = lane.books.cursor.low[0] - 1
    if not await scene.people.replay(lane.id, 1, place):
        await scene.wait(90)
        scene.faults.disarm()
    await scene.quiet()
    await scene.people.replay(lane.id, 1, place)
    await scene.quiet()


def delivered(scene: Scene) -> Counter[str]:
    """The number of deliveries of each subscription."""
    return Counter({lane.now.name: lane.books.states[State.DELIVERED] for lane in scene.oracle.lanes.values()})


def test_a_replay_is_for_one_subscription() -> None:
    """Each run is a new delivery of every event to its subscription; the books of both agree in every commit."""
    assert delivered(act(replay_all, Parts(keeping=ALL_KEPT))) == {"again": 3 * EVENTS, "once": EVENTS}


@pytest.mark.parametrize("trap", list(Trap))
def test_a_fault_at_every_call_of_a_replay(trap: Trap) -> None:
    """Whichever commit or read intake dies at or fails, a run replays every event or none."""
    for number in range(4):

        async def script(scene: Scene, number: int = number) -> None:
            scene.loop.call_later(50, scene.faults.arm, Role.INTAKE, trap, number)
            await replay_all(scene)

        scene = act(script, Parts(keeping=ALL_KEPT))
        assert delivered(scene)["again"] in (2 * EVENTS, 3 * EVENTS)
        assert delivered(scene)["once"] == EVENTS


async def replay_too_soon(scene: Scene) -> None:
    """An operator asks for more than the lane has passed."""
    await scene.topic()
    lane = await scene.subscribe("slow", answering(200, 20, 20))
    await scene.publish(5)
    await scene.wait(1)
    await scene.people.replay(lane.id, 1, 100)
    await scene.quiet()


def test_what_the_lane_has_not_passed_is_not_replayed() -> None:
    """A replay ends at the place that its subscription has reached."""
    assert delivered(act(replay_too_soon, Parts(keeping=ALL_KEPT))) == {"slow": 5}


def test_an_eager_replay_is_found() -> None:
    """Planted: a replay beyond the place of its lane breaks the law."""
    with pytest.raises(AssertionError, match=r"replay .* has not passed"):
        act(replay_too_soon, Parts(keeping=ALL_KEPT, replayer=planted_options.EagerReplayer))


def test_a_backlog_drains_at_its_limit() -> None:
    """A backlog goes out at the rate that was set meanwhile, to its last event."""

    async def script(scene: Scene) -> None:
        await scene.topic()
        lane = await scene.subscribe("sub", answering(503), batching=Batching(10), filter=Filter())
        await scene.publish(200)
        await scene.wait(3600)
        await scene.people.limit(lane.id, 2, 4)
        scene.become("sub", HEALTHY)
        await scene.wait(60)
        await scene.people.retry_now(lane.id)
        before = lane.books.states[State.DELIVERED]
        await scene.wait(10)
        assert lane.books.states[State.DELIVERED] - before <= 4 * 12
        await scene.wait(120)
        assert lane.books.states[State.DELIVERED] == 200
        await scene.quiet()

    act(script)


BUGS: dict[str, tuple[Callable[[], Parts], set[str]]] = {
    "a limit that allows one request more": (lambda: Parts(dispatcher=pacing(planted_options.GreedyPace)), {"limit"}),
    "a rate that counts requests": (lambda: Parts(dispatcher=pacing(planted_options.HastyPace)), {"limit"}),
    "a rate that starves": (lambda: Parts(dispatcher=pacing(planted_options.WastefulPace)), {"I16", "I17", "L1"}),
    "a replay without a filter": (lambda: Parts(replayer=planted_options.OpenReplayer), {"replay"}),
    "a replay that names another position": (lambda: Parts(replayer=planted_options.DriftingReplayer), {"replay"}),
}


@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_found(name: str) -> None:
    """A checker notices, within a few histories in which much is limited and replayed."""
    make, invariants = BUGS[name]
    for seed in range(SEEDS):
        plan, rng = draw_plan(seed), random.Random(f"{seed}/options")
        plan.replays_s, plan.limits_s = (
            [rng.uniform(HOUR_S, plan.horizon_s - HOUR_S) for _ in range(12)] for _ in range(2)
        )
        plan.redrives_s = plan.damages_s = []
        story = tell(seed, make(), plan)
        if story.violations:
            assert story.violations[0].invariant in invariants, str(story.violations[0])
            return
    pytest.fail(f"{SEEDS} seeds did not notice {name}")
