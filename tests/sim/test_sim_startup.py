"""Directed histories: a role dies while it starts, wherever it is; tiny limits; a disk that is full."""

import pytest

from recapito.domain.resources.subscription import DeadLetterDirectory, RetryPolicy
from tests.sim.behaviour import HEALTHY, answering, in_turn
from tests.sim.books import State
from tests.sim.faults import Role
from tests.sim.machine import Parts
from tests.sim.plan import draw_plan
from tests.sim.scene import Scene, act
from tests.sim.tiny import AMPLE, Tiny, draw_tiny

BOX = DeadLetterDirectory(name="box")


async def _begin(scene: Scene) -> None:
    """Two topics with all that a start finds: unread and parked events, dead letters, a lane that is going."""
    scene.faults.quick_disk = True
    await scene.topic()
    await scene.topic(name="other")
    await scene.subscribe("well")
    await scene.subscribe("sick", in_turn(answering(503), answering(503), HEALTHY))
    await scene.subscribe("dead", answering(400), retry_policy=RetryPolicy(max_attempts=1), dead_letter=BOX)
    await scene.subscribe("elsewhere", topic="other")
    await scene.publish(3)
    await scene.publish(2, topic="other")
    await scene.wait(5)
    await scene.people.delete_subscription("other", "elsewhere")


def starts(parts: Parts, role: Role, waits: int) -> tuple[Scene, bool]:
    """A role is killed, and dies again after N waits of its next start; whether it came to that."""
    left: list[int] = [waits]

    async def script(scene: Scene) -> None:
        await _begin(scene)
        parts.falls = lambda started: left.pop() if left and started is role else None
        scene.machine.crash(role)
        await scene.publish(2)
        await scene.wait(400)
        scene.machine.steady()
        await scene.publish(1)
        await scene.quiet()
        await scene.close_the_books()

    scene = act(script, parts)
    return scene, scene.machine.crashes > 1


@pytest.mark.parametrize("role", list(Role))
def test_a_role_dies_at_every_wait_of_its_start(role: Role) -> None:
    """Whatever it has read, opened or settled by then: nothing is lost, and all comes to its end."""
    deaths = 0
    for waits in range(40):
        scene, died = starts(Parts(), role, waits)
        deaths += died
        states = {owed.state for lane in scene.oracle.lanes.values() for owed in lane.books.owed.values()}
        assert states <= {State.DELIVERED, State.DEAD_LETTERED, State.DROPPED}
    assert deaths > 3


def test_a_role_that_dies_at_each_start_comes_up_in_the_end() -> None:
    """Twenty starts in a row fail, each a little later than the one before."""
    left = list(range(20, 0, -1))
    parts = Parts()

    async def script(scene: Scene) -> None:
        await _begin(scene)
        parts.falls = lambda role: left.pop() if left and role is Role.DISPATCH else None
        scene.machine.crash(Role.DISPATCH)
        await scene.publish(2)
        await scene.quiet()
        await scene.close_the_books()

    scene = act(script, parts)
    assert scene.machine.crashes == 21 and not left


def test_everything_works_with_limits_of_one() -> None:
    """One request, one row, one entry, one letter at a time: slower, and all arrives."""
    tiny = Tiny(1, 2, 1, 1, 1, 1, 1, 1)

    async def script(scene: Scene) -> None:
        await _begin(scene)
        await scene.publish(5)  # all in all fewer than hold a lane back
        await scene.quiet()
        await scene.close_the_books()

    scene = act(script, Parts(tiny=tiny, segment_bytes=1))
    files = [path for _, path in scene.machine.files.files]
    dead = [owed for lane in scene.oracle.lanes.values() for owed in lane.books.owed.values() if owed.burial]
    assert len(files) == len(dead) == 8


@pytest.mark.parametrize("seconds", [1.0, 30.0, 600.0])
def test_a_full_disk_loses_nothing(seconds: float) -> None:
    """While no commit is stored publishers are refused and dispatch tries at a pace; afterwards all arrives."""

    async def script(scene: Scene) -> None:
        await _begin(scene)
        scene.faults.full_disk = True
        before, commits = len(scene.oracle.appended), scene.faults.commits[Role.DISPATCH]
        await scene.publish(5)
        await scene.wait(seconds)
        assert len(scene.oracle.appended) == before
        assert scene.faults.commits[Role.DISPATCH] - commits < 20 + 15 * seconds
        scene.faults.full_disk = False
        scene.oracle.disturb()
        await scene.publish(5)
        await scene.quiet()
        await scene.close_the_books()
        assert len(scene.oracle.appended) == before + 5

    act(script)


def test_seeds_draw_them() -> None:
    """Tiny limits, full disks and deaths at the start are in many seeds, in none that is calm, and not in all."""
    plans = [draw_plan(seed) for seed in range(300)]
    for has in (lambda p: p.tiny != AMPLE, lambda p: p.full_disks_s, lambda p: p.start_crashes):
        assert 50 < sum(bool(has(plan)) for plan in plans) < 250
    assert not any(plan.full_disks_s or plan.start_crashes for plan in plans if plan.calm)
    assert draw_tiny(7) == draw_tiny(7)
