"""Directed histories: dead letters are redriven by an intake that dies or fails at every step."""

from collections import Counter
from functools import partial

import pytest

from recapito.domain.filters.filter import Filter
from recapito.domain.resources.subscription import DeadLetterDirectory, RetryPolicy
from tests.sim import planted, planted_stores
from tests.sim.behaviour import HEALTHY, answering
from tests.sim.books import State
from tests.sim.faults import Role, Trap
from tests.sim.machine import Parts
from tests.sim.planted_stores import PlantedStorage
from tests.sim.scene import Scene, act

BOX = DeadLetterDirectory(name="box")
LETTERS = 5
COMMIT_TRAPS = [trap for trap in Trap if trap is not Trap.FAIL_READ]
STRIDE = 3


async def die(scene: Scene) -> None:
    """Events die and are written, in several files; then their endpoint recovers."""
    await scene.topic()
    once = RetryPolicy(max_attempts=1)
    await scene.subscribe("dead", answering(500), retry_policy=once, dead_letter=BOX)
    await scene.subscribe("well")
    for number in (1, LETTERS - 1):
        await scene.publish(number)
        await scene.wait(400)
    scene.become("dead", HEALTHY)


async def redrive_all(scene: Scene) -> None:
    """Redrive two at a time; what was not done, because the server failed or died, is done when it is well again."""
    await scene.people.redrive(limit=2)
    await scene.wait(90)
    scene.faults.disarm()
    await scene.people.redrive(limit=2)
    await scene.quiet()
    await scene.close_the_books()


async def history(scene: Scene) -> None:
    """All of it."""
    await die(scene)
    await redrive_all(scene)


def fates(scene: Scene, name: str) -> Counter[State]:
    """The states of all deliveries of a subscription."""
    (lane,) = [lane for lane in scene.oracle.lanes.values() if lane.now.name == name]
    return Counter(owed.state for owed in lane.books.owed.values())


def check_all_once(scene: Scene) -> None:
    """Every letter was redriven once and arrived at its own subscription only."""
    assert set(scene.oracle.redriven.values()) == {1}
    assert scene.oracle.redriven.total() == LETTERS
    assert fates(scene, "dead") == {State.DEAD_LETTERED: LETTERS, State.DELIVERED: LETTERS}
    assert fates(scene, "well") == {State.DELIVERED: LETTERS}


def test_all_is_redriven_once() -> None:
    """Each letter is a new delivery to its own subscription."""
    check_all_once(act(history))


@pytest.mark.parametrize("trap", list(Trap))
def test_a_fault_at_every_call_of_a_redrive(trap: Trap) -> None:
    """Whichever commit or read intake dies at or fails, each letter is redriven once and none is lost."""
    for number in range(_calls(trap)):
        _play(Role.INTAKE, trap, number)


@pytest.mark.parametrize("trap", list(Trap))
def test_a_fault_at_every_call_of_what_is_redriven(trap: Trap) -> None:
    """Whichever commit or read dispatch dies at or fails while it delivers them, none is lost."""
    for number in range(12):
        _play(Role.DISPATCH, trap, number)


@pytest.mark.parametrize("how", ["crash", "stop"])
def test_the_end_of_intake_at_every_await_of_a_redrive(how: str) -> None:
    """Wherever intake is killed or cancelled between two steps, each letter is redriven once and none is lost."""
    rounds: list[int] = []

    async def look(scene: Scene) -> None:
        await die(scene)
        rounds.append(scene.loop.rounds)
        await scene.people.redrive(limit=2)
        rounds.append(scene.loop.rounds)
        await redrive_all(scene)

    act(look)
    for number in range(*rounds, STRIDE):

        async def script(scene: Scene, number: int = number) -> None:
            end = scene.machine.crash if how == "crash" else scene.machine.cancel
            scene.loop.interruptions[number] = partial(end, Role.INTAKE)
            await history(scene)

        check_all_once(act(script))


def test_a_vault_that_is_down_redrives_nothing_and_loses_nothing() -> None:
    """While the vault is out of reach a redrive is refused; afterwards each letter is redriven once."""

    async def script(scene: Scene) -> None:
        await die(scene)
        scene.machine.vault.down.add("box")
        assert await scene.people.redrive() == 0
        scene.machine.vault.down.clear()
        await redrive_all(scene)

    check_all_once(act(script))


def test_what_was_redriven_may_die_again() -> None:
    """An event that dies a second time has a second letter, which is redriven like the first; filters do not count."""

    async def script(scene: Scene) -> None:
        await die(scene)
        never = Filter(event_types=("Never.Seen",))
        once = RetryPolicy(max_attempts=1)
        await scene.subscribe("dead", answering(500), retry_policy=once, dead_letter=BOX, filter=never)
        assert await scene.people.redrive() == LETTERS
        await scene.wait(400)
        scene.become("dead", HEALTHY)
        await redrive_all(scene)

    scene = act(script)
    assert set(scene.oracle.redriven.values()) == {1}
    assert fates(scene, "dead") == {State.DEAD_LETTERED: 2 * LETTERS, State.DELIVERED: LETTERS}


BUGS = {
    "a log that forgets what was redriven": (
        lambda: Parts(storage=PlantedStorage(log=planted_stores.MarklessLog)),
        "I5",
    ),
    "a log that marks and appends nothing": (
        lambda: Parts(storage=PlantedStorage(log=planted_stores.MarkingLog)),
        "I3",
    ),
    "a redrive for everybody": (lambda: Parts(storage=PlantedStorage(log=planted_stores.SharingLog)), "I8"),
    "a redrive that marks in a second commit": (lambda: Parts(redriver=planted.SlowMarkingRedriver), "I5"),
}


@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_found(name: str) -> None:
    """The checkers notice it at one of the commits."""
    make, invariant = BUGS[name]
    for number in range(_calls(Trap.CRASH_AFTER)):
        try:
            _play(Role.INTAKE, Trap.CRASH_AFTER, number, make())
        except AssertionError as error:
            assert f"['{invariant}" in str(error), error
            return
    pytest.fail(f"no checker noticed {name}")


def _calls(trap: Trap) -> int:
    """How many commits, or reads, of intake a redrive takes."""
    taken: list[int] = []

    async def script(scene: Scene) -> None:
        await die(scene)
        calls = scene.faults.reads if trap is Trap.FAIL_READ else scene.faults.commits
        before = calls[Role.INTAKE]
        await scene.people.redrive(limit=2)
        taken.append(calls[Role.INTAKE] - before)

    act(script)
    return taken[0]


def _play(role: Role, trap: Trap, number: int, parts: Parts | None = None) -> None:
    async def script(scene: Scene) -> None:
        await die(scene)
        scene.faults.arm(role, trap, number)
        await redrive_all(scene)

    try:
        check_all_once(act(script, parts))
    except AssertionError as error:
        raise AssertionError(f"{trap} at call {number} of {role}: {error}") from error
