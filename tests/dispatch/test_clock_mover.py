"""Moving a manual clock: how long it waits for an answer, and what it says has happened."""

import asyncio
from itertools import count

from msgspec.structs import replace

from recapito.clock import ManualClock
from recapito.contracts.ledger import LaneCounts
from recapito.dispatch.clock_mover import Books, ClockMover
from recapito.domain.events.schema import DeliverySchema, InputSchema
from recapito.domain.filters.filter import Filter
from recapito.domain.instant import MILLISECOND, SECOND
from recapito.domain.resources.subscription import Batching, DynamicAttribute, FilterSince
from tests.dispatch.bench import Bench
from tests.sim.clock import BEGINNING
from tests.sim.loop import SimLoop, run

BY_NUMBER = (DynamicAttribute("X-N", "data.n"),)


def test_what_happened_is_what_the_books_gained() -> None:
    """New lanes count from nothing, and lanes that ended meanwhile take nothing away."""
    before = Books(3, {1: LaneCounts(matched=5, delivered=4), 2: LaneCounts(matched=7, delivered=7)}, 4)
    after = Books(
        9, {1: LaneCounts(matched=6, delivered=4, dropped={"Canceled": 1}), 3: LaneCounts(matched=3, delivered=2)}, 0
    )
    assert after.since(before) == {
        "attempts": 6,
        "delivered": 2,
        "deadLettered": 0,
        "dropped": 1,
        "pending": 2,
    }


def test_what_is_unread_or_on_the_wire_is_pending() -> None:
    """Two requests hang, and what waits behind them is not read: all of it is pending, but not what does not match."""

    async def main(loop: SimLoop) -> list[object]:
        clock = ManualClock(BEGINNING)
        bench = Bench(loop, 200, clock=clock)
        bench.delay_s = 1_000_000
        topic = await bench.topic(InputSchema.EVENT_GRID)
        await bench.subscribe(topic, DeliverySchema.EVENT_GRID)
        await bench.subscribe(topic, DeliverySchema.EVENT_GRID, "odd", batching=Batching(3), attributes=BY_NUMBER)
        nothing = FilterSince(0, Filter(event_types=("never",)))
        idle = await bench.subscribe(topic, DeliverySchema.EVENT_GRID, "idle")
        await bench.log.put_subscription(replace(idle, filters=(nothing,)))
        running = asyncio.create_task(bench.service.run())
        mover = ClockMover(clock, bench.wall, bench.service, bench.ledger, patience=SECOND)
        moved = [await mover.advance(0)]
        for _ in range(2):
            await bench.publish(topic, *(f'{{"n":{n % 2}}}' for n in range(10)))
            bench.dispatcher.notify()
            moved.append(await mover.advance(0))
        bench.delay_s = 0
        moved.append(await mover.advance(3600))
        running.cancel()
        return [happened["pending"] for happened in moved]

    assert run(1, main) == [0, 20, 40, 0]


def test_patience_ends_though_somebody_looks_round() -> None:
    """A request that is not answered is waited for as long as patience allows, whichever lane has work meanwhile."""

    async def main(loop: SimLoop) -> int:
        clock, looks = ManualClock(BEGINNING), count()
        bench = Bench(loop, 200, clock=clock)
        bench.delay_s = 1_000_000
        topic = await bench.topic(InputSchema.EVENT_GRID)
        await bench.subscribe(topic, DeliverySchema.EVENT_GRID)
        running = asyncio.create_task(bench.service.run())
        await bench.publish(topic, "1")
        mover = ClockMover(clock, bench.wall, bench.service, bench.ledger, patience=3 * SECOND)
        mover.wait_for(lambda: next(looks) % 1000 != 0)
        began = bench.wall.now()
        await mover.advance(0)
        running.cancel()
        return bench.wall.now() - began

    assert 3 * SECOND <= run(1, main) <= 3 * SECOND + 10 * MILLISECOND


def test_another_part_is_waited_for() -> None:
    """The clock does not move on while a part of the service that was named has work at this instant."""

    async def main(loop: SimLoop) -> list[bool]:
        clock = ManualClock(BEGINNING)
        bench = Bench(loop, 200, clock=clock)
        running = asyncio.create_task(bench.service.run())
        mover = ClockMover(clock, bench.wall, bench.service, bench.ledger, patience=SECOND)
        answers = [True, True, False, False]
        mover.wait_for(lambda: answers.pop() if answers else True)
        await mover.advance(1)
        running.cancel()
        return answers

    assert run(1, main) == []
