"""Dead letters that are redriven, on virtual time: delivered as they were to the one subscription that lost them."""

import asyncio
import json
from typing import Any

import pytest
from msgspec.structs import replace

from recapito.contracts.ledger import LaneCounts
from recapito.domain.delivery.batch import Batch
from recapito.domain.delivery.delivery import DeliveryId
from recapito.domain.events.schema import DeliverySchema, InputSchema
from recapito.domain.events.segment import Segment, StampedEvent
from recapito.domain.filters.filter import Filter
from recapito.domain.resources.subscription import DeadLetterDirectory, FilterSince, RetryPolicy
from recapito.intake.dead_letters.redrive import Redriver, ResendOrder
from recapito.intake.dead_letters.search import DeadLetterQuery, DeadLetterSearch
from recapito.observability.journal import silent
from tests.dispatch.bench import ODD, PAIRS, Bench
from tests.sim.loop import SimLoop, run

ONCE = RetryPolicy(max_attempts=1)
BOX = DeadLetterDirectory("box")


def redriver(bench: Bench) -> Redriver:
    """A redriver of the letters that the bench has buried."""
    letters = DeadLetterSearch(bench.log, bench.vault)
    clock = bench.clock
    return Redriver(bench.log, letters, clock, clock, lambda: None, bench.dispatcher.notify, lambda: "again", silent)


@pytest.mark.parametrize(("schema", "delivered"), PAIRS)
def test_delivered_as_before(schema: InputSchema, delivered: DeliverySchema) -> None:
    """A dead letter is sent again byte for byte in each schema, as a new delivery with no attempts behind it."""

    async def main(loop: SimLoop) -> list[Batch]:
        bench = Bench(loop, 404, 200)
        topic = await bench.topic(schema)
        await bench.subscribe(topic, delivered, retry_policy=ONCE, dead_letter=BOX)
        running = asyncio.create_task(bench.service.run())
        await bench.publish(topic, ODD)
        await asyncio.sleep(600)
        assert (await redriver(bench).redrive(DeadLetterQuery(), None, 100)).done == 1
        await asyncio.sleep(1)
        running.cancel()
        return bench.got

    first, second = run(1, main)
    assert (second.body, second.form) == (first.body, first.form)
    assert second.output_id != first.output_id
    assert (first.attempts_before, second.attempts_before) == (0, 0)


def test_only_for_who_lost_it() -> None:
    """Past its filter of now, and to no other subscription of the topic, awake or asleep; the books balance."""

    async def main(loop: SimLoop) -> tuple[list[Batch], list[LaneCounts]]:
        bench = Bench(loop, 404, 200)
        topic = await bench.topic(InputSchema.EVENT_GRID)
        lost: Any = await bench.subscribe(topic, DeliverySchema.EVENT_GRID, retry_policy=ONCE, dead_letter=BOX)
        running = asyncio.create_task(bench.service.run())
        await bench.publish(topic, ODD)
        await asyncio.sleep(600)
        narrow = (FilterSince(0, Filter(event_types=("Never",))),)
        await bench.log.put_subscription(replace(lost, filters=narrow))
        for name, filters in (("all", lost.filters), ("never", narrow)):
            await bench.log.put_subscription(replace(lost, id=0, version=0, name=name, filters=filters))
        bench.dispatcher.notify()
        await asyncio.sleep(60)
        assert (await redriver(bench).redrive(DeadLetterQuery(subscription="sub"), None, 100)).done == 1
        await asyncio.sleep(60)
        running.cancel()
        return bench.got, [lane.counts for lane in await bench.ledger.lanes()]

    got, (lost, every, never) = run(1, main)
    assert len(got) == 2
    assert (lost.matched, lost.dead_lettered, lost.delivered, lost.pending) == (2, 1, 1, 0)
    assert lost.reasons == {"MaxDeliveryAttemptsExceeded": 1}
    assert (every.matched, every.unmatched) == (0, 1)
    assert (never.matched, never.pending) == (0, 0)


def test_a_redriven_event_may_die_again() -> None:
    """It is buried anew in a file of its own, the old letter stays marked, and only the new one can be redriven."""

    async def main(loop: SimLoop) -> None:
        bench = Bench(loop, 404)
        topic = await bench.topic(InputSchema.EVENT_GRID)
        await bench.subscribe(topic, DeliverySchema.EVENT_GRID, retry_policy=ONCE, dead_letter=BOX)
        running = asyncio.create_task(bench.service.run())
        await bench.publish(topic, ODD)
        await asyncio.sleep(600)
        for files in (2, 3):
            assert (await redriver(bench).redrive(DeadLetterQuery(), None, 100)).done == 1
            await asyncio.sleep(600)
            assert len(bench.vault.files) == files
        records = [json.loads(content) for content in bench.vault.files.values()]
        assert [len(one) for one in records] == [1, 1, 1]
        assert {one[0]["id"] for one in records} == {records[0][0]["id"]}
        running.cancel()

    run(1, main)


def test_a_resent_event_is_a_new_delivery() -> None:
    """A delivered event is delivered once more to one subscription, byte for byte, and the books balance."""

    async def main(loop: SimLoop) -> tuple[list[Batch], list[LaneCounts]]:
        bench = Bench(loop, 200)
        topic = await bench.topic(InputSchema.EVENT_GRID)
        mine = await bench.subscribe(topic, DeliverySchema.EVENT_GRID)
        await bench.log.put_subscription(replace(mine, id=0, version=0, name="other"))
        running = asyncio.create_task(bench.service.run())
        await bench.publish(topic, ODD)
        await asyncio.sleep(60)
        (entry,) = await bench.log.read(topic.id, 4, 1)
        segment = Segment(entry.columns, entry.body)
        event = StampedEvent(segment.event(0), segment.type(0), segment.subjects[0], segment.versions[0], "", "odd")
        assert await redriver(bench).resend(ResendOrder(topic.id, mine, DeliveryId(4, 0), event)) == 5
        await asyncio.sleep(60)
        running.cancel()
        return bench.got, [lane.counts for lane in await bench.ledger.lanes()]

    got, (mine, other) = run(1, main)
    assert [batch.subscription for batch in got].count("sub") == 2
    assert len({batch.body for batch in got}) == 1 and {batch.attempts_before for batch in got} == {0}
    assert (mine.matched, mine.delivered, mine.pending) == (2, 2, 0)
    assert (other.matched, other.delivered, other.unmatched, other.pending) == (1, 1, 1, 0)
