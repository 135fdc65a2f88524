"""One short history, crashed and failed at every commit and every read that it makes, and at many of its awaits."""

from collections import Counter
from functools import partial

import pytest

from recapito.domain.filters.filter import Filter
from recapito.domain.resources.subscription import Batching, DeadLetterDirectory, RetryPolicy
from tests.sim.behaviour import HEALTHY, after, answering, in_turn
from tests.sim.faults import Role, Trap
from tests.sim.scene import Scene, Script, act

BOX = DeadLetterDirectory(name="box")
STRIDE = 7  # every await takes a minute


async def history(scene: Scene) -> None:
    """Publish one and several, fan out, succeed, fail, retry, answer late, bury, change a filter, delete."""
    people = scene.people
    await scene.wait(0.5)
    await people.put_topic("orders", None)
    twice = RetryPolicy(max_attempts=2)
    for name, behaviour, settings in (
        ("well", HEALTHY, {"batching": Batching(max_events=3)}),
        ("dead", answering(500), {"retry_policy": twice, "dead_letter": BOX}),
        ("late", in_turn(after(35), HEALTHY), {}),
        ("short", in_turn(answering(503), HEALTHY), {}),
    ):
        scene.become(name, behaviour)
        await people.put_subscription("orders", people.fixed_draft(name, name, **settings))
    await people.publish("orders", 1)
    await people.publish("orders", 3)
    await scene.wait(60)
    await people.put_subscription("orders", people.fixed_draft("well", "well", filter=Filter(event_types=("A",))))
    await people.publish("orders", 2, type="A")
    await people.delete_subscription("orders", "short")
    await scene.wait(400)
    scene.faults.disarm()
    await scene.wait(90)
    await people.publish("orders", 1)
    await scene.quiet()
    await scene.close_the_books()


async def lonely_history(scene: Scene) -> None:
    """One event dies, and nothing that happens later would wake anybody."""
    await scene.wait(90)
    await scene.topic()
    once = RetryPolicy(max_attempts=1)
    await scene.subscribe("dead", answering(500), retry_policy=once, dead_letter=BOX)
    await scene.publish()
    await scene.wait(120)
    scene.faults.disarm()
    await scene.quiet()
    await scene.close_the_books()


def calls() -> tuple[Counter[Role], Counter[Role]]:
    """How many commits and reads the undisturbed history makes."""
    scene = act(history)
    return scene.faults.commits, scene.faults.reads


@pytest.mark.parametrize("role", list(Role))
@pytest.mark.parametrize("trap", [trap for trap in Trap if trap is not Trap.FAIL_READ])
def test_every_commit(role: Role, trap: Trap) -> None:
    """Whichever commit a role dies at, or fails, nothing is lost and everything comes to its end."""
    commits, _ = calls()
    for number in range(commits[role]):
        _play(role, trap, number)


@pytest.mark.parametrize("trap", list(Trap))
def test_every_call_when_nobody_rings_again(trap: Trap) -> None:
    """Dispatch finds what is left to do by itself, whichever of its calls failed."""
    scene = act(lonely_history)
    calls = scene.faults.reads if trap is Trap.FAIL_READ else scene.faults.commits
    for number in range(calls[Role.DISPATCH]):
        _play(Role.DISPATCH, trap, number, lonely_history)


@pytest.mark.parametrize("role", list(Role))
def test_every_read(role: Role) -> None:
    """Whichever read fails, the work goes on."""
    _, reads = calls()
    for number in range(reads[role]):
        _play(role, Trap.FAIL_READ, number)


@pytest.mark.parametrize("role", list(Role))
@pytest.mark.parametrize("how", ["crash", "stop"])
def test_many_awaits(role: Role, how: str) -> None:
    """Wherever a role is killed or cancelled between two steps, nothing is lost and everything comes to its end."""
    rounds = act(history).loop.rounds
    for number in range(STRIDE // 2, rounds * 2 // 3, STRIDE):

        async def script(scene: Scene, number: int = number) -> None:
            crash = partial(scene.machine.crash, role)
            cancel = partial(scene.machine.cancel, role)
            scene.loop.interruptions[number] = crash if how == "crash" else cancel
            await history(scene)

        try:
            act(script)
        except AssertionError as error:
            raise AssertionError(f"{how} of {role} before round {number}: {error}") from error


def _play(role: Role, trap: Trap, number: int, play: Script = history) -> None:
    async def script(scene: Scene) -> None:
        scene.faults.arm(role, trap, number)
        await play(scene)

    try:
        act(script)
    except AssertionError as error:
        raise AssertionError(f"{trap} at call {number} of {role}: {error}") from error
