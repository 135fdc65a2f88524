"""Dispatch as a whole, on virtual time: what endpoints and the vault get of topics in each input schema."""

import asyncio
import gc
import json
from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from recapito.clock import ManualClock
from recapito.contracts.ledger import Burial, DueDeliveries, LaneCounts, LaneRow, Settlement
from recapito.dispatch.lane.in_flight import InFlight
from recapito.domain import limits
from recapito.domain.capacity import Room
from recapito.domain.delivery.batch import Batch
from recapito.domain.delivery.cursor import Cursor
from recapito.domain.delivery.delivery import DeliveryId
from recapito.domain.delivery.hold import CLEAR
from recapito.domain.events.schema import BodyForm, DeliverySchema, InputSchema
from recapito.domain.resources.subscription import (
    Batching,
    DeadLetterDirectory,
    DynamicAttribute,
    RetryPolicy,
    StaticAttribute,
)
from recapito.errors import StoreFailed
from recapito.stores.memory import MemoryDisk, MemoryLedger
from tests.dispatch.bench import ODD, PAIRS, Bench
from tests.kit.dispatch import make_dispatch
from tests.sim.clock import BEGINNING
from tests.sim.loop import SimLoop, run


@pytest.mark.parametrize(("schema", "delivered"), PAIRS)
def test_an_event_that_fails_and_succeeds(schema: InputSchema, delivered: DeliverySchema) -> None:
    """An event sent again from its parked row is, byte for byte, the event that was sent at first."""

    async def main(loop: SimLoop) -> list[Batch]:
        bench = Bench(loop, 503, 200)
        topic = await bench.topic(schema)
        await bench.subscribe(topic, delivered)
        running = asyncio.create_task(bench.service.run())
        await bench.publish(topic, ODD)
        await asyncio.sleep(120)
        running.cancel()
        return bench.got

    first, second = run(1, main)
    assert (first.body, first.form, first.output_id) == (second.body, second.form, second.output_id)
    assert (first.attempts_before, second.attempts_before) == (0, 1)
    assert ODD.encode() in first.body
    assert first.form is (BodyForm.CLOUD_EVENT if delivered is DeliverySchema.CLOUD_EVENT else BodyForm.EVENTS)


@pytest.mark.parametrize(("schema", "delivered"), PAIRS)
def test_an_event_that_dies(schema: InputSchema, delivered: DeliverySchema) -> None:
    """Its record is in the subscription's schema, with the data untouched and no header of the subscriber's."""
    secret = StaticAttribute("Authorization", "Bearer s3cret", secret=True)

    async def main(loop: SimLoop) -> tuple[list[Batch], dict[tuple[str, str], bytes]]:
        bench = Bench(loop, 404)
        topic = await bench.topic(schema)
        policy = RetryPolicy(max_attempts=1)
        box = DeadLetterDirectory("box")
        await bench.subscribe(topic, delivered, retry_policy=policy, dead_letter=box, attributes=(secret,))
        running = asyncio.create_task(bench.service.run())
        await bench.publish(topic, ODD)
        await asyncio.sleep(600)
        running.cancel()
        return bench.got, bench.vault.files

    (batch,), files = run(1, main)
    ((_, content),) = files.items()
    (record,) = json.loads(content)
    assert [header.value for header in batch.headers] == ["Bearer s3cret"]
    assert ODD.encode() in content and b"s3cret" not in content
    if delivered is DeliverySchema.CLOUD_EVENT:
        assert list(record)[-4:] == ["deadletterreason", "deliveryattempts", "lastdeliveryoutcome", "publishtime"]
    elif delivered is DeliverySchema.CUSTOM:
        assert list(record)[-2:] == ["lastDeliveryAttemptTime", "data"]
    else:
        assert list(record)[-6:-4] == ["data", "deadLetterReason"]


def test_what_is_answered_is_freed_at_once() -> None:
    """A request and its flight are gone as soon as it is settled, without the garbage collector."""

    async def main(loop: SimLoop) -> tuple[int, list[object]]:
        bench = Bench(loop, 200)
        topic = await bench.topic(InputSchema.EVENT_GRID)
        await bench.subscribe(topic, DeliverySchema.EVENT_GRID)
        running = asyncio.create_task(bench.service.run())
        await bench.publish(topic, "1", "2", "3")
        await asyncio.sleep(10)
        running.cancel()
        return len(bench.got), [each for each in gc.get_objects() if isinstance(each, InFlight)]

    gc.collect()
    gc.disable()
    try:
        assert run(1, main) == (3, [])
    finally:
        gc.enable()


def test_a_change_of_schema_and_headers_counts_from_the_next_attempt() -> None:
    """Events wait as they are stored: the retry has the schema, the form and the headers of now."""

    async def main(loop: SimLoop) -> list[Batch]:
        bench = Bench(loop, 503, 200)
        topic = await bench.topic(InputSchema.EVENT_GRID)
        before = await bench.subscribe(topic, DeliverySchema.EVENT_GRID)
        running = asyncio.create_task(bench.service.run())
        await bench.publish(topic, ODD)
        await asyncio.sleep(5)
        attributes = (DynamicAttribute("X-Big", "data.big"),)
        batching = Batching(max_events=10)
        await bench.subscribe(
            topic,
            DeliverySchema.CLOUD_EVENT,
            id=before.id,
            version=before.version,
            attributes=attributes,
            batching=batching,
        )
        bench.dispatcher.notify()
        await asyncio.sleep(120)
        running.cancel()
        return bench.got

    first, second = run(1, main)
    assert (first.form, first.headers) == (BodyForm.EVENTS, ())
    assert second.form is BodyForm.CLOUD_EVENTS
    assert [tuple(header) for header in second.headers] == [("X-Big", "12345678901234567890", False)]
    assert json.loads(second.body)[0]["specversion"] == "1.0"
    assert ODD.encode() in second.body


class CountingLedger(MemoryLedger):
    """Remembers how many deliveries each commit dropped."""

    def __init__(self) -> None:
        super().__init__(MemoryDisk())
        self.dropped: list[int] = []

    async def settle(self, settlements: Sequence[Settlement]) -> None:
        self.dropped.append(sum(len(settlement.drop) for settlement in settlements))
        await super().settle(settlements)


def test_many_lanes_that_end_do_not_hold_up_the_others() -> None:
    """Each commit takes a bounded part of what many deleted subscriptions leave; in the end all of it is counted."""
    lanes = 24

    async def main(loop: SimLoop) -> tuple[list[int], set[int]]:
        ledger = CountingLedger()
        bench = Bench(loop, 200, ledger=ledger)
        topic = await bench.topic(InputSchema.EVENT_GRID)
        made = [await bench.subscribe(topic, DeliverySchema.EVENT_GRID, f"sub-{n}") for n in range(lanes)]
        await bench.publish(topic, *["1"] * limits.PARKED_SLICE)
        for one in made:
            await bench.log.delete_subscription(one.id)
        running = asyncio.create_task(bench.service.run())
        await asyncio.sleep(60)
        running.cancel()
        return ledger.dropped, {sum(lane.counts.dropped.values()) for lane in await ledger.lanes()}

    dropped, counted = run(1, main)
    assert counted == {limits.PARKED_SLICE}
    assert max(dropped) <= limits.GATHERED_ROWS + limits.PARKED_SLICE + lanes * limits.PARKED_SLICE_LEAST


class OpeningLedger(MemoryLedger):
    """Remembers the lanes that it was asked to open, each of which is a write."""

    def __init__(self) -> None:
        super().__init__(MemoryDisk())
        self.opened: list[int] = []

    async def open_lane(self, id: int, topic: int, log_id: str, position: int) -> LaneRow:
        self.opened.append(id)
        return await super().open_lane(id, topic, log_id, position)


def test_a_restart_reads_the_stored_lanes_in_one_go() -> None:
    """Only a lane without a row is opened in the ledger."""

    async def main(loop: SimLoop) -> list[int]:
        ledger = OpeningLedger()
        bench = Bench(loop, 200, ledger=ledger)
        topic = await bench.topic(InputSchema.EVENT_GRID)
        made = [await bench.subscribe(topic, DeliverySchema.EVENT_GRID, f"sub-{n}") for n in range(2)]
        await bench.dispatcher.start()
        made.append(await bench.subscribe(topic, DeliverySchema.EVENT_GRID, "new"))
        restarted = make_dispatch(bench.log, ledger, bench.vault, bench.dispatcher._context, bench.wall).dispatcher
        await restarted.start()
        assert [lane.id for lane in restarted.lanes] == [subscription.id for subscription in made]
        return ledger.opened

    assert run(1, main) == [1, 2, 3]


class FullLedger(MemoryLedger):
    """On a disk that is full: everything can be read, nothing is settled."""

    full = True

    async def settle(self, settlements: Sequence[Settlement]) -> None:
        if self.full:
            raise StoreFailed("database or disk is full")
        await super().settle(settlements)


def test_what_can_not_be_settled_is_not_sent_again() -> None:
    """While commits fail, nothing is repeated and nothing new is sent; when they succeed, all is settled."""

    async def main(loop: SimLoop) -> tuple[int, int]:
        ledger = FullLedger(MemoryDisk())
        bench = Bench(loop, 200, ledger=ledger)
        topic = await bench.topic(InputSchema.EVENT_GRID)
        subscription = await bench.subscribe(topic, DeliverySchema.EVENT_GRID)
        running = asyncio.create_task(bench.service.run())
        await bench.publish(topic, "1")
        await asyncio.sleep(60)
        await bench.publish(topic, "2", "3")
        await asyncio.sleep(600)
        sent, ledger.full = len(bench.got), False
        await asyncio.sleep(30)
        running.cancel()
        lane = await ledger.lane(subscription.id)
        assert lane is not None
        return sent, lane.counts.delivered

    sent, delivered = run(1, main)
    assert (sent, delivered) == (1, 3)


@pytest.mark.parametrize(("free", "sent_at_once"), [(1 << 40, 5), (0, 1)])
def test_a_failing_endpoint_gets_nothing_new_while_room_is_short(free: int, sent_at_once: int) -> None:
    """A failed delivery is parked, and there may be no room for it: its retry shows when to go on."""

    async def main(loop: SimLoop) -> tuple[int, int]:
        bench = Bench(loop, 503, 200)
        bench.room = Room(free, 1000)
        topic = await bench.topic(InputSchema.EVENT_GRID)
        subscription = await bench.subscribe(topic, DeliverySchema.EVENT_GRID)
        running = asyncio.create_task(bench.service.run())
        await bench.publish(topic, "1", "2", "3", "4", "5")
        await asyncio.sleep(5)
        sent = len(bench.got)
        await asyncio.sleep(120)
        running.cancel()
        lane = await bench.ledger.lane(subscription.id)
        assert lane is not None
        return sent, lane.counts.delivered

    assert run(1, main) == (sent_at_once, 5)


def test_lanes_go_on_when_there_is_room_again() -> None:
    """A lane that waited for room hears of it, not only of its next retry."""

    async def main(loop: SimLoop) -> tuple[int, int]:
        bench = Bench(loop, 503, 200)
        bench.room = Room(0, 1000)
        topic = await bench.topic(InputSchema.EVENT_GRID)
        await bench.subscribe(topic, DeliverySchema.EVENT_GRID)
        running = asyncio.create_task(bench.service.run())
        await bench.publish(topic, "1", "2", "3")
        await asyncio.sleep(1)
        before, bench.room = len(bench.got), Room(1 << 40, 1000)
        bench.dispatcher.notify()  # as intake does every second
        await asyncio.sleep(1)
        running.cancel()
        return before, len(bench.got)

    assert run(1, main) == (1, 3)


def test_a_deleted_subscription_drops_at_once_what_waits() -> None:
    """Parked deliveries go when their subscription is deleted, though the clock stands still from then on."""

    async def main(loop: SimLoop) -> LaneCounts:
        clock = ManualClock(BEGINNING)
        bench = Bench(loop, 503, clock=clock)
        topic = await bench.topic(InputSchema.EVENT_GRID)
        subscription = await bench.subscribe(topic, DeliverySchema.EVENT_GRID)
        running = asyncio.create_task(bench.service.run())
        await bench.publish(topic, "1", "2")
        await asyncio.sleep(1)
        await bench.log.delete_subscription(subscription.id)
        bench.dispatcher.notify()
        await asyncio.sleep(1)
        running.cancel()
        (lane,) = await bench.ledger.lanes()
        return lane.counts

    counts = run(1, main)
    assert (counts.matched, counts.dropped, counts.parked) == (2, {"Canceled": 2}, 0)


def test_a_profile_that_holds_nobody_back_ends_a_hold() -> None:
    """A topic that goes back to 2019-05 sends at once what was held, retries and new events alike."""

    async def main(loop: SimLoop) -> tuple[int, int]:
        bench = Bench(loop, 500)
        topic = await bench.topic(InputSchema.EVENT_GRID)
        await bench.subscribe(topic, DeliverySchema.EVENT_GRID)
        running = asyncio.create_task(bench.service.run())
        await bench.publish(topic, *map(str, range(12)))
        await asyncio.sleep(100)
        held = len(bench.got)
        await bench.log.put_topic(replace(topic, profile="2019-05"))
        bench.dispatcher.notify()
        await asyncio.sleep(5)
        running.cancel()
        return held, len(bench.got)

    assert run(1, main) == (11, 11 + 12)  # the probe was the newest of all, and its retry is due as well


def test_dead_letters_without_a_subscription_stop_nobody() -> None:
    """A lane that the log does not know has its dead letters written, and the other lanes go on."""

    async def main(loop: SimLoop) -> tuple[int, list[tuple[str, str]]]:
        bench = Bench(loop, 200)
        topic = await bench.topic(InputSchema.EVENT_GRID)
        await bench.subscribe(topic, DeliverySchema.EVENT_GRID)
        lane = await bench.ledger.open_lane(99, topic.id, bench.log.id, 1)
        letter = Burial(DeliveryId(1, 0), 0, "box", b"{}")
        cursor = Cursor((2, 0))
        await bench.ledger.settle([Settlement(99, lane.version, cursor, CLEAR, matched=1, bury=[letter])])
        running = asyncio.create_task(bench.service.run())
        await asyncio.sleep(60)
        await bench.publish(topic, "1")
        await asyncio.sleep(60)
        running.cancel()
        return len(bench.got), list(bench.vault.files)

    sent, ((container, path),) = run(1, main)
    assert (sent, container, path.split("/")[0]) == (1, "box", "LANE-99")


def test_a_window_is_filled_in_one_go() -> None:
    """An endpoint that answers well gets as many requests as its window has, though one step sends only a few."""

    async def main(loop: SimLoop) -> int:
        bench = Bench(loop, 200)
        topic = await bench.topic(InputSchema.EVENT_GRID)
        await bench.subscribe(topic, DeliverySchema.EVENT_GRID)
        running = asyncio.create_task(bench.service.run())
        await bench.publish(topic, *map(str, range(3 * limits.WINDOW_REQUESTS)))
        await asyncio.sleep(10)
        bench.delay_s = 20
        await bench.publish(topic, *map(str, range(2 * limits.WINDOW_REQUESTS)))
        await asyncio.sleep(1)
        running.cancel()
        return bench.dispatcher.under_way

    assert run(1, main) == limits.WINDOW_REQUESTS


def test_a_deleted_subscription_ends_at_once() -> None:
    """Its lane ends when its books are seen to be empty; nothing else has to happen for that."""

    async def main(loop: SimLoop) -> bool:
        bench = Bench(loop, 200)
        topic = await bench.topic(InputSchema.EVENT_GRID)
        subscription = await bench.subscribe(topic, DeliverySchema.EVENT_GRID)
        running = asyncio.create_task(bench.service.run())
        await bench.publish(topic, "1")
        await asyncio.sleep(1)
        await bench.log.delete_subscription(subscription.id)
        bench.dispatcher.notify()
        await asyncio.sleep(1)
        running.cancel()
        (lane,) = await bench.ledger.lanes()
        return lane.ended

    assert run(1, main)


def test_short_room_ends_no_retry() -> None:
    """A held lane that reads nothing new for want of room still ends its sweep, and tries again what is parked."""

    async def main(loop: SimLoop) -> int:
        bench = Bench(loop, *[500] * 60, 200)
        topic = await bench.topic(InputSchema.EVENT_GRID)
        await bench.subscribe(topic, DeliverySchema.EVENT_GRID)
        running = asyncio.create_task(bench.service.run())
        await bench.publish(topic, *map(str, range(30)))
        await asyncio.sleep(3600)
        bench.room = Room(0, 1000)
        await asyncio.sleep(40 * 3600)
        running.cancel()
        (lane,) = await bench.ledger.lanes()
        return lane.counts.parked

    assert run(1, main) == 0


def test_a_question_that_fails_holds_up_no_other() -> None:
    """The store cannot read what one lane has parked: the other lane gets its retries all the same."""

    class Torn(MemoryLedger):
        async def due(self, lane: int, now: int, limit: int, at_least: int = 1) -> DueDeliveries:
            if lane == 1:
                raise StoreFailed("dispatch.db: database disk image is malformed")
            return await super().due(lane, now, limit, at_least)

    async def main(loop: SimLoop) -> list[int]:
        bench = Bench(loop, 500, 500, 200, ledger=Torn(MemoryDisk()))
        topic = await bench.topic(InputSchema.EVENT_GRID)
        for name in ("torn", "sound"):
            await bench.subscribe(topic, DeliverySchema.EVENT_GRID, name)
        running = asyncio.create_task(bench.service.run())
        await bench.publish(topic, "1")
        await asyncio.sleep(60)
        running.cancel()
        return [lane.counts.delivered for lane in await bench.ledger.lanes()]

    assert run(1, main) == [0, 1]
