"""Directed histories: many subscriptions that wait for events which seldom come."""

from recapito.domain.filters.filter import Condition, Filter, Operator
from tests.sim.behaviour import HEALTHY, answering
from tests.sim.books import State
from tests.sim.facts import Watched
from tests.sim.faults import Role
from tests.sim.machine import Parts
from tests.sim.scene import Scene, act

SAVED_S = 5
LOW = Filter(event_types=("stock.low",))
LOW_IN_A = Filter(event_types=("Stock.Low",), subject_ends_with="/A")
A = Filter(subject_begins_with="STOCK/a")
OF_STOCK = Filter(conditions=(Condition(Operator.STRING_BEGINS_WITH, "Subject", ("stock",)),))
SLEEPY = (LOW, LOW_IN_A, A, OF_STOCK)


async def sleepers(scene: Scene, count: int) -> list[Watched]:
    """N subscriptions of each sleepy kind."""
    return [
        await scene.subscribe(f"sleeper-{n}-{kind}", filter=SLEEPY[kind]) for n in range(count) for kind in range(4)
    ]


def test_sleepers_get_what_comes_at_once() -> None:
    """A lane that slept through a hundred publishes gets the next matching event as soon as all others."""
    lanes: list[Watched] = []

    async def script(scene: Scene) -> None:
        await scene.topic()
        lanes.append(await scene.subscribe("awake"))
        lanes.extend(await sleepers(scene, 3))
        for _ in range(100):
            await scene.publish(1, type="Order.Paid", subject="orders/1")
        await scene.publish(1, type="Stock.Low", subject="stock/a")
        await scene.wait(1)
        for lane in lanes:
            assert lane.books.states[State.DELIVERED] == (101 if lane is lanes[0] else 1)
        await scene.quiet()
        await scene.close_the_books()

    act(script)


def test_sleepers_do_not_pin_the_log() -> None:
    """The cursor of a lane that matches nothing is stored five seconds later, and the log is trimmed behind it."""

    async def script(scene: Scene) -> None:
        await scene.topic()
        lanes = [await scene.subscribe("awake"), *await sleepers(scene, 3)]
        for _ in range(20):
            await scene.publish(3, type="Order.Paid", subject="orders/1")
        await scene.wait(SAVED_S + 1)
        assert len({lane.books.cursor for lane in lanes}) == 1
        assert {lane.books.last_row.counts.unmatched for lane in lanes[1:] if lane.books.last_row} == {60}
        await scene.quiet()
        await scene.close_the_books()

    act(script)


def test_sleepers_and_crashes() -> None:
    """A process that dies while lanes sleep leaves nothing behind that they would miss, even with next to no cache."""
    for storm in range(4):

        async def script(scene: Scene, storm: int = storm) -> None:
            await scene.topic()
            lanes = await sleepers(scene, 2)
            for n in range(12):
                await scene.publish(2, type="Order.Paid", subject="orders/1")
                if n % 4 == storm:
                    scene.machine.crash(Role.DISPATCH)
                if n == 6:
                    await scene.publish(1, type="Stock.Low", subject="stock/a")
                await scene.wait(storm * 2)
            await scene.wait(120)
            assert all(lane.books.states[State.DELIVERED] == 1 for lane in lanes)
            await scene.quiet()
            await scene.close_the_books()

        act(script, Parts(segment_bytes=1), seed=storm)


def test_a_held_sleeper_wakes() -> None:
    """A lane that is held back while it sleeps gets what it missed when its hold ends."""

    async def script(scene: Scene) -> None:
        await scene.topic()
        ill = await scene.subscribe("ill", answering(500), filter=LOW)
        await scene.subscribe("well", filter=LOW)
        for _ in range(12):
            await scene.publish(1, type="Stock.Low")
            await scene.publish(1, type="Order.Paid")
        await scene.wait(60)
        scene.become("ill", HEALTHY)
        await scene.publish(5, type="Order.Paid")
        await scene.publish(1, type="Stock.Low")
        await scene.quiet()
        assert ill.books.states[State.DELIVERED] == 13
        await scene.close_the_books()

    act(script)
