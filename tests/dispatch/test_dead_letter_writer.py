"""The writer of dead letters by itself: when it looks again for letters to write."""

import asyncio
from collections.abc import Mapping

from recapito.clock import SECOND, ManualClock
from recapito.contracts.ledger import Burial
from recapito.dispatch.dead_letter_writer import DeadLetterWriter
from recapito.domain import limits
from recapito.domain.delivery.delivery import DeliveryId
from recapito.domain.events.schema import DeliverySchema, InputSchema
from recapito.domain.resources.subscription import DeadLetterDirectory, RetryPolicy
from recapito.errors import StoreFailed
from recapito.stores.memory import MemoryDisk, MemoryLedger
from tests.dispatch.bench import ODD, Bench
from tests.kit.dispatch import make_dispatch
from tests.sim.clock import BEGINNING
from tests.sim.loop import SimLoop, run
from tests.stores.values import settlement


def test_the_container_that_rests_least_is_looked_at_first() -> None:
    """A letter that waits for a rest to end is written when that rest ends, not when the longest does."""

    async def main(loop: SimLoop) -> int | None:
        clock = ManualClock(BEGINNING)
        bench = Bench(loop, 200, clock=clock)
        for n, container in enumerate(("first", "second", "first")):
            lane = await bench.ledger.open_lane(7, 1, bench.log.id, 1)
            letter = Burial(DeliveryId(1, n), clock.now(), container, b"{}")
            await bench.ledger.settle([settlement(lane, matched=1, bury=[letter])])
            await write_all(bench.writer)
            clock.move_to(clock.now() + SECOND)
        return await bench.writer.next_instant()

    assert run(1, main) == BEGINNING + limits.DEAD_LETTER_REST_NS


def test_a_full_group_is_not_followed_by_a_rest() -> None:
    """Letters beyond those that one file may have wait for no rest: the next file follows at once."""

    async def main(loop: SimLoop) -> list[object]:
        bench = Bench(loop, 200)
        context = bench.dispatcher._context
        writer = make_dispatch(bench.log, bench.ledger, bench.vault, context, bench.wall, group_events=2).writer
        lane = await bench.ledger.open_lane(7, 1, bench.log.id, 1)
        letters = [Burial(DeliveryId(1, n), bench.clock.now(), "box", b"{}") for n in range(5)]
        await bench.ledger.settle([settlement(lane, matched=5, bury=letters)])
        await write_all(writer)
        return [fields["events"] for event, fields in bench.journal if event == "deadletter.written"]

    assert run(1, main) == [2, 2, 1]


async def write_all(writer: DeadLetterWriter) -> None:
    """Write the groups that are due and do not rest."""
    while (group := await writer.next_group()) is not None:
        await writer.write(group)


class UncountingLedger(MemoryLedger):
    """A ledger that cannot count the first dead letters that were written."""

    failures = 2

    async def written(
        self, lane: int, path: str, notice: bytes | None = None, taken: int = 0, reasons: Mapping[str, int] = {}
    ) -> None:
        if self.failures:
            self.failures -= 1
            raise StoreFailed("dispatch.db: disk I/O error")
        await super().written(lane, path, notice, taken, reasons)


def test_a_letter_that_cannot_be_counted_is_reported_and_written_again() -> None:
    """Each failure is in the journal, and the writer does not try again at once."""

    async def main(loop: SimLoop) -> Bench:
        bench = Bench(loop, 404, ledger=UncountingLedger(MemoryDisk()))
        topic = await bench.topic(InputSchema.EVENT_GRID)
        await bench.subscribe(
            topic,
            DeliverySchema.EVENT_GRID,
            retry_policy=RetryPolicy(max_attempts=1),
            dead_letter=DeadLetterDirectory("box"),
        )
        running = asyncio.create_task(bench.service.run())
        await bench.publish(topic, ODD)
        await asyncio.sleep(3600)
        running.cancel()
        return bench

    events = [event for event, _ in run(1, main).journal]
    assert events.count("store.failed") == 2
    assert events.count("deadletter.written") == 1
