"""Directed histories: something in our own code fails on one event."""

import random
from collections.abc import Callable

from recapito.contracts.ledger import Settlement
from recapito.domain.resources.subscription import Batching
from tests.sim.behaviour import HEALTHY, answering
from tests.sim.books import State
from tests.sim.facts import Watched
from tests.sim.faults import Role
from tests.sim.machine import Parts
from tests.sim.scene import Scene, act
from tests.sim.storage import MemoryStorage


class Poison:
    """Random numbers of which the first fails, while `harmful`: a bug in the middle of settling a failed batch."""

    def __init__(self) -> None:
        self.harmful = True
        self._calls = 0

    def __call__(self, rng: random.Random) -> Callable[[], float]:
        return self._draw

    def _draw(self) -> float:
        self._calls += 1
        if self.harmful and self._calls == 1:
            raise ZeroDivisionError("poison")
        return 0.5


def test_a_poisonous_event_stops_its_lane_and_nothing_else() -> None:
    """A lane that fails half-way through a batch settles nothing of it; others go on; a restart loses nothing."""
    lanes: list[Watched] = []
    poison = Poison()

    async def script(scene: Scene) -> None:
        await scene.topic()
        lanes.append(await scene.subscribe("ill", answering(500), batching=Batching(max_events=10)))
        lanes.append(await scene.subscribe("well"))
        await scene.publish(5)
        await scene.wait(60)
        await scene.publish(5)
        await scene.wait(60)
        assert lanes[1].books.states[State.DELIVERED] == 10
        assert lanes[0].books.states[State.UNREAD] == 10
        poison.harmful = False
        scene.become("ill", HEALTHY)
        scene.machine.crash(Role.DISPATCH)
        await scene.quiet()
        await scene.close_the_books()

    act(script, Parts(jitter=poison, poisoned=True))
    assert lanes[0].books.states[State.DELIVERED] == 10


def test_a_lane_that_can_not_be_settled_stops_and_nothing_else() -> None:
    """Another process settled a lane: it stops, others that share its commits go on; a restart loses nothing."""
    lanes: list[Watched] = []
    storage = MemoryStorage()

    async def script(scene: Scene) -> None:
        await scene.topic()
        lanes.extend([await scene.subscribe("stale"), await scene.subscribe("well")])
        await scene.publish(5)
        await scene.wait(60)
        ledger = storage.open_ledger(write=True)
        row = await ledger.lane(lanes[0].id)
        await ledger.settle([Settlement(row.id, row.version, row.cursor, row.hold)])
        await scene.publish(1)
        await scene.wait(60)
        assert [lane.books.states[State.DELIVERED] for lane in lanes] == [5, 6]
        scene.machine.crash(Role.DISPATCH)
        await scene.quiet()
        await scene.close_the_books()

    act(script, Parts(storage=storage, poisoned=True))
    assert [lane.books.states[State.DELIVERED] for lane in lanes] == [6, 6]
