"""The writer of dead letters by itself: when it looks again for letters to write."""

from recapito.clock import SECOND, ManualClock
from recapito.contracts.ledger import Burial
from recapito.dispatch.dead_letter_writer import DeadLetterWriter
from recapito.domain import limits
from recapito.domain.delivery.delivery import DeliveryId
from tests.dispatch.bench import Bench
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


async def write_all(writer: DeadLetterWriter) -> None:
    """Write the groups that are due and do not rest."""
    while (group := await writer.next_group()) is not None:
        await writer.write(group)
