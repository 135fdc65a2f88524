"""Directed histories of the profile `edge`: a cloud that is away for a week, throttles, refuses keys and comes back."""

import random
from itertools import pairwise
from typing import Any

import pytest

from recapito.dispatch.lane.lane import Lane
from recapito.domain.instant import SECOND
from recapito.domain.resources.subscription import Batching, DeadLetterDirectory, RetryPolicy
from tests.sim import planted
from tests.sim.behaviour import HEALTHY, Behaviour, answering, hanging, in_turn, refusing, throttling, unresolvable
from tests.sim.books import State
from tests.sim.facts import Watched
from tests.sim.faults import Role
from tests.sim.machine import Parts
from tests.sim.plan import draw_plan
from tests.sim.scene import Scene, Script, act, requests, sent_at
from tests.sim.world import tell

HOUR_S, DAY_S = 3600.0, 86400.0
PACKED = Batching(5000, 976)
BOX = DeadLetterDirectory(name="box")
ABSENCES: tuple[Behaviour, ...] = (refusing(), unresolvable(), answering(503), hanging())


def week(lanes: list[Watched], seed: int = 0, kills: bool = True, **settings: Any) -> Script:
    """Seven days away, a day of refused keys, hours of throttling; events all the while, and roles that are killed."""
    rng = random.Random(f"{seed}/week")

    async def pass_time(scene: Scene, seconds: float) -> None:
        for _ in range(int(seconds / (6 * HOUR_S))):
            await scene.wait(rng.uniform(1, 3 * HOUR_S))
            await scene.publish(rng.randrange(1, 40))
            if kills and rng.random() < 0.4:
                scene.machine.crash(rng.choice((Role.INTAKE, Role.DISPATCH)))
            await scene.wait(3 * HOUR_S)

    async def script(scene: Scene) -> None:
        await scene.topic("edge")
        lanes.append(await scene.subscribe("cloud", batching=PACKED, **settings))
        await scene.publish(100)
        await scene.wait(60)
        for _ in range(7):
            scene.become("cloud", rng.choice(ABSENCES))
            await pass_time(scene, DAY_S)
        scene.become("cloud", answering(rng.choice((401, 403, 404))))
        await pass_time(scene, DAY_S)
        scene.become("cloud", throttling(rng))
        await pass_time(scene, 12 * HOUR_S)
        scene.become("cloud", HEALTHY)
        await scene.quiet()
        await scene.close_the_books()

    return script


@pytest.mark.parametrize("seed", range(3))
def test_a_week_without_the_cloud(seed: int) -> None:
    """Nothing is lost and nothing is given up, the cloud gets each id, and few requests while it is away."""
    lanes: list[Watched] = []
    scene = act(week(lanes, seed), seed=seed)
    (lane,) = lanes
    assert {owed.state for owed in lane.books.owed.values()} == {State.DELIVERED}
    arrived = {event.id for arrival in requests(lane) for event in arrival.events}
    assert arrived == {event.id for event in scene.oracle.published.values() if event.id in scene.oracle.appended}
    assert scene.machine.crashes
    assert len(requests(lane)) < 9 * 24 * 6 * 2 + 500


def test_a_refused_key_holds_the_lane() -> None:
    """One request meets 401, then probes at most ten minutes apart; when the key is good again all goes out packed."""
    lanes: list[Watched] = []

    async def script(scene: Scene) -> None:
        await scene.topic("edge")
        lanes.append(await scene.subscribe("cloud", answering(401, 0.1, 0.1), batching=PACKED))
        for _ in range(10):
            await scene.publish(20)
            await scene.wait(HOUR_S)
        assert lanes[0].books.last_row is not None and lanes[0].books.last_row.hold.status == 401
        scene.become("cloud", HEALTHY)
        await scene.quiet()

    act(script)
    sent = requests(lanes[0])
    failed = [arrival.sent_at for arrival in sent if arrival.outcome and arrival.outcome.status == 401]
    gaps = [(after - before) / SECOND for before, after in pairwise(failed)]
    assert max(gaps) <= 601
    assert 60 < len(gaps) < 75
    assert len([arrival for arrival in sent if arrival.outcome and arrival.outcome.status == 200]) < 20
    assert lanes[0].books.states[State.DELIVERED] == 200


def poisoned(lanes: list[Watched]) -> Script:
    """A full request with two events that the cloud refuses."""

    async def script(scene: Scene) -> None:
        await scene.topic("edge")
        lanes.append(await scene.subscribe_picky(status=400, batching=PACKED, dead_letter=BOX))
        scene.network.endpoint("http://sub/").behaviour = HEALTHY
        await scene.publish(300, subject="good")
        await scene.publish(1, subject="bad")
        await scene.publish(300, subject="good")
        await scene.publish(1, subject="bad")
        await scene.quiet()
        await scene.close_the_books()

    return script


def test_a_refused_batch_is_cut_until_the_bad_event_is_found() -> None:
    """The refused events become dead letters; the others arrive at once, by a bounded number of requests."""
    lanes: list[Watched] = []
    act(poisoned(lanes))
    states = lanes[0].books.states
    assert (states[State.DELIVERED], states[State.DEAD_LETTERED]) == (600, 2)
    assert len(requests(lanes[0])) < 150
    good = [owed for owed in lanes[0].books.owed.values() if owed.event.subject == "good"]
    assert max((owed.success_at - owed.event.sent_at) / SECOND for owed in good) < 30


def pressed(lanes: list[Watched]) -> Script:
    """A cloud that asks for two minutes, three times, of a subscription that allows two attempts."""

    async def script(scene: Scene) -> None:
        await scene.topic("edge")
        busy = answering(429, 0.1, 0.1, retry_after_s=120)
        lanes.append(await scene.subscribe("cloud", in_turn(busy, busy, busy, HEALTHY), retry_policy=RetryPolicy(2)))
        await scene.publish()
        await scene.quiet()

    return script


def test_pressure_is_no_attempt() -> None:
    """The lane waits for as long as it was asked to, and counts none of it."""
    lanes: list[Watched] = []
    act(pressed(lanes))
    (owed,) = lanes[0].books.owed.values()
    assert owed.state is State.DELIVERED
    assert [round(at) for at in sent_at(owed)] == [0, 120, 240, 360]


def test_a_limit_that_the_subscription_sets_counts() -> None:
    """An hour of life ends a kept event too."""
    lanes: list[Watched] = []

    async def script(scene: Scene) -> None:
        await scene.topic("edge")
        lanes.append(await scene.subscribe("cloud", refusing(), retry_policy=RetryPolicy(ttl_minutes=60)))
        await scene.publish(3)
        await scene.wait(3 * HOUR_S)

    act(script)
    assert {owed.reason for owed in lanes[0].books.owed.values()} == {"TimeToLiveExceeded"}


@pytest.mark.parametrize("seed", [0, 1, 2, 3, 4, 6, 13, 18])
def test_a_random_storm_under_this_profile(seed: int) -> None:
    """The plan of a seed, with all its faults, in which every topic keeps its events."""
    plan = draw_plan(seed)
    plan.default_profile, plan.profiles = "edge", [None for _ in plan.profiles]
    story = tell(seed, Parts(), plan)
    assert not story.violations, str(story.violations[0])


def absent(lanes: list[Watched]) -> Script:
    """Half a day without the cloud, for events that go one by one."""

    async def script(scene: Scene) -> None:
        await scene.topic("edge")
        lanes.append(await scene.subscribe("cloud", refusing()))
        await scene.publish(100)
        await scene.wait(DAY_S / 2)

    return script


PLANTED: dict[str, tuple[type[Lane], Script, str]] = {
    "a lane that forgets that events are kept": (planted.ForgettingLane, week([], kills=False), "kept"),
    "a lane that is never held": (planted.FearlessLane, absent([]), "away"),
    "a refused batch that ends as a whole": (planted.UncutLane, poisoned([]), "kept"),
    "pressure that counts": (planted.CountingLane, pressed([]), "I9"),
}


@pytest.mark.parametrize("name", PLANTED)
def test_the_laws_of_kept_events_find_a_planted_bug(name: str) -> None:
    """Each of these lanes breaks a promise to keep events, and a checker finds it without reading its hold."""
    lane, script, law = PLANTED[name]
    found: list[str] = []

    async def main(scene: Scene) -> None:
        scene.oracle.watches_holds = False
        end = scene.oracle.on_violation

        def note() -> None:
            found.append(scene.oracle.violations[0].invariant)
            end()

        scene.oracle.on_violation = note
        await script(scene)

    with pytest.raises(AssertionError, match=law):
        act(main, Parts(dispatcher=planted.dispatching(lane)))
    assert found[0] == law
