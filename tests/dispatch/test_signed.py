"""Signed subscriptions in dispatch: the message id of first attempts, retries and batches."""

import asyncio

from msgspec.structs import replace

from recapito.domain.delivery.batch import Batch
from recapito.domain.events.schema import DeliverySchema, InputSchema
from recapito.domain.resources.delivery_options import DeliveryOptions
from recapito.domain.resources.subscription import Batching
from tests.dispatch.bench import Bench
from tests.sim.loop import SimLoop, run

SEALED = (b"sealed",)


def test_a_retry_keeps_the_message_id() -> None:
    """All attempts of an event, alone or in the same batch, have one id; other events and subscriptions another."""

    async def main(loop: SimLoop) -> list[Batch]:
        bench = Bench(loop, 503, 503, 503, 200)
        topic = await bench.topic(InputSchema.EVENT_GRID)
        options = DeliveryOptions(signing=SEALED)
        await bench.subscribe(topic, DeliverySchema.EVENT_GRID, "one", own_options=options)
        await bench.subscribe(topic, DeliverySchema.EVENT_GRID, "two", own_options=options, batching=Batching(10, 64))
        running = asyncio.create_task(bench.service.run())
        await bench.publish(topic, "1", "2")
        await asyncio.sleep(120)
        running.cancel()
        return bench.got

    ids: dict[tuple[str, bytes], set[str]] = {}
    sent = run(1, main)
    for batch in sent:
        assert batch.signing is not None
        assert batch.signing.sealed == SEALED
        ids.setdefault((batch.subscription, batch.body), set()).add(batch.signing.message_id)
    assert len(sent) > len(ids) == 3
    assert all(len(found) == 1 for found in ids.values())
    assert len(set.union(*ids.values())) == 3


def test_a_change_of_the_options_reaches_the_lane() -> None:
    """From the change on requests are signed; without a secret they are not."""

    async def main(loop: SimLoop) -> list[Batch]:
        bench = Bench(loop, 200)
        topic = await bench.topic(InputSchema.EVENT_GRID)
        plain = await bench.subscribe(topic, DeliverySchema.EVENT_GRID)
        running = asyncio.create_task(bench.service.run())
        await bench.publish(topic, "1")
        await asyncio.sleep(1)
        await bench.log.put_subscription(replace(plain, own_options=DeliveryOptions(signing=SEALED)))
        await bench.publish(topic, "2")
        await asyncio.sleep(1)
        running.cancel()
        return bench.got

    first, second = run(1, main)
    assert first.signing is None
    assert second.signing is not None
