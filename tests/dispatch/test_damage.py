"""Damage as dispatch meets it, on virtual time: what is lost is counted, and all else is delivered."""

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace

from recapito.clock import Clock
from recapito.contracts.ledger import LaneCounts, LaneRow
from recapito.dispatch.status_reporter import StatusReporter
from recapito.domain.delivery.cursor import Cursor
from recapito.domain.delivery.delivery import CORRUPT
from recapito.domain.events.schema import DeliverySchema, InputSchema
from recapito.domain.instant import SECOND
from recapito.domain.resources.topic import Topic
from recapito.errors import StoreFailed
from recapito.stores.memory import MemoryLedger
from tests.dispatch.bench import Bench
from tests.kit.dispatch import make_dispatch
from tests.sim.loop import SimLoop, run
from tests.stores.spoil import MemorySpoiler


class Scene(Bench):
    """A bench whose disks can be damaged, and whose dispatcher can be started."""

    def __init__(self, loop: SimLoop, *statuses: int) -> None:
        super().__init__(loop, *statuses)
        self.log_disk, self.ledger_disk = MemorySpoiler(self.log._disk), MemorySpoiler(self.ledger._disk)
        self.running: list[asyncio.Task[None]] = []

    async def begin(self, *names: str) -> Topic:
        """A topic with these subscriptions."""
        topic = await self.topic(InputSchema.EVENT_GRID)
        for name in names:
            await self.subscribe(topic, DeliverySchema.EVENT_GRID, name)
        return topic

    async def dispatch(self, seconds: float = 10, **changes: Any) -> None:
        """Run a new dispatcher for N seconds, with these changes of its context."""
        for task in self.running:
            task.cancel()
        context = dataclasses.replace(self.dispatcher._context, **changes)
        context.segments._entries.clear()
        self.service = make_dispatch(self.log, self.ledger, self.vault, context, self.wall)
        self.dispatcher = self.service.dispatcher
        self.running = [asyncio.create_task(self.service.run())]
        await asyncio.sleep(seconds)

    @property
    def stopped(self) -> dict[int, str]:
        """The lanes that have stopped, as it is reported."""
        return StatusReporter(self.dispatcher, self.dispatcher._context).report().stopped

    async def books(self, lane: int) -> LaneCounts:
        """The books of a lane."""
        row = await self.ledger.lane(lane)
        assert row is not None and not row.damaged
        return row.counts


def play(story: Callable[[Scene], Awaitable[None]], *statuses: int) -> None:
    """Tell a story with endpoints that answer so."""

    async def main(loop: SimLoop) -> None:
        scene = Scene(loop, *statuses or (200,))
        await story(scene)
        for task in scene.running:
            task.cancel()

    run(1, main)


def test_a_damaged_segment_and_a_damaged_mark_are_passed() -> None:
    """Each lane counts the events of the segment as matched and dropped; the mark has none; what follows arrives."""

    async def story(scene: Scene) -> None:
        topic = await scene.begin("a", "b")
        for data in ("1", "2", "3"):
            await scene.publish(topic, data)
        assert scene.log_disk.entry(topic.id, 1) and scene.log_disk.entry(topic.id, 5)
        await scene.dispatch()
        assert len(scene.got) == 4
        for lane in (1, 2):
            assert await scene.books(lane) == LaneCounts(matched=3, delivered=2, dropped={CORRUPT: 1})
        assert [damage.position for damage in await scene.ledger.damaged(0, 9)] == [5]

    play(story)


def test_a_lane_with_a_damaged_row_begins_again() -> None:
    """The entries that the log still has are sent once more: nothing is lost. The other lane goes on where it was."""

    async def story(scene: Scene) -> None:
        topic = await scene.begin("a", "b")
        await scene.publish(topic, "1", "2")
        await scene.dispatch()
        assert len(scene.got) == 4
        scene.ledger_disk.lane(1)
        await scene.publish(topic, "3")
        await scene.dispatch()
        assert len(scene.got) == 4 + 3 + 1
        assert await scene.books(1) == LaneCounts(matched=3, delivered=3)
        assert [damage.table for damage in await scene.ledger.damaged(0, 9)] == ["lane"]
        assert scene.stopped == {}

    play(story)


def test_a_lane_that_is_refused_because_of_damage_begins_again() -> None:
    """A row that rots under a running lane refuses its settlement: the lane is renewed, not stopped."""

    async def story(scene: Scene) -> None:
        topic = await scene.begin("a")
        await scene.dispatch()
        stored = scene.ledger._disk.lanes[1]
        stored.lane = replace(stored.lane, version=99)
        stored.rotten = True
        await scene.publish(topic, "1")
        await asyncio.sleep(10)
        assert scene.stopped == {}
        assert await scene.books(1) == LaneCounts(matched=1, delivered=1)

    play(story)


def test_a_topic_with_an_unknown_profile_leaves_its_lanes_out() -> None:
    """A later version stored the topic: its lane is not opened and says why, and the other topic is served."""

    async def story(scene: Scene) -> None:
        topic = await scene.begin("a")
        other = await scene.log.put_topic(replace(topic, id=0, version=0, name="other", profile="2091-01"))
        await scene.subscribe(other, DeliverySchema.EVENT_GRID, "b")
        await scene.publish(topic, "1")
        await scene.publish(other, "2")
        await scene.dispatch()
        assert await scene.books(1) == LaneCounts(matched=1, delivered=1)
        assert list(scene.stopped) == [2] and "'2091-01' is unknown" in scene.stopped[2]
        assert ("lane.stopped", {"lane": 2, "why": scene.stopped[2]}) in scene.journal

    play(story)


@contextmanager
def _lock(wall: Clock, tries: list[int], tries_until_free: int) -> Iterator[bool]:
    tries.append(wall.now())
    yield len(tries) > tries_until_free


def test_a_lane_begins_again_only_while_nothing_is_trimmed() -> None:
    """The renewal waits for the lock, a backup's for five seconds at most: it reads where the log begins under it."""

    async def story(scene: Scene) -> None:
        topic = await scene.begin("a")
        await scene.publish(topic, "1")
        await scene.dispatch()
        for tries_until_free, longest_s in ((3, 1), (1000, 6)):
            tries: list[int] = []
            scene.ledger_disk.lane(1)
            await scene.dispatch(20, no_trimming=partial(_lock, scene.wall, tries, tries_until_free))
            assert 3 < len(tries) <= 30
            assert tries[-1] - tries[0] <= longest_s * SECOND
            assert scene.stopped == {}

    play(story)


class UnsureLedger(MemoryLedger):
    """Renews a lane, and says once that it failed."""

    failures = 1

    async def renew_lane(self, id: int, topic: int, log_id: str, position: int) -> LaneRow:
        renewed = await super().renew_lane(id, topic, log_id, position)
        if self.failures:
            self.failures -= 1
            raise StoreFailed("the commit is unknown")
        return renewed


def test_a_lane_whose_renewal_seemed_to_fail_begins_again() -> None:
    """Its row has a lower version than what is to be settled: it was renewed, and the lane goes on from there."""

    async def story(scene: Scene) -> None:
        topic = await scene.begin("a")
        scene.ledger = UnsureLedger(scene.ledger._disk)
        await scene.dispatch()
        await scene.publish(topic, "1")
        await asyncio.sleep(10)
        scene.ledger_disk.lane(1, "version")
        await scene.publish(topic, "2")
        await asyncio.sleep(10)
        assert scene.stopped == {}
        assert await scene.books(1) == LaneCounts(matched=2, delivered=2)

    play(story)


@pytest.mark.parametrize("part", ["cursor", "version", "books"])
def test_an_idle_lane_with_a_damaged_row_is_found(part: str) -> None:
    """Nothing happens that would settle it: dispatch looks at its row within minutes, and mends or renews it."""

    async def story(scene: Scene) -> None:
        topic = await scene.begin("a")
        await scene.dispatch()
        await scene.publish(topic, "1")
        await asyncio.sleep(10)
        assert scene.ledger_disk.lane(1, part)
        await asyncio.sleep(200)
        assert await scene.books(1) == LaneCounts(matched=1, delivered=1)
        assert len(await scene.ledger.damaged(0, 9)) == (part != "cursor")
        assert scene.stopped == {}

    play(story)


def test_a_forgotten_lane_with_a_damaged_row_is_gone() -> None:
    """No news name a lane that went with its topic: the review closes it, and dispatch has it no more either."""

    async def story(scene: Scene) -> None:
        topic = await scene.begin("a")
        await scene.dispatch()
        await scene.log.delete_topic(topic.id)
        scene.dispatcher.notify()
        await asyncio.sleep(10)
        await scene.log.forget(1)
        assert scene.ledger_disk.lane(1)
        await asyncio.sleep(200)
        assert await scene.ledger.lane(1) is None
        assert scene.dispatcher.lanes == []

    play(story)


@pytest.mark.parametrize("change", [{"topic": 9}, {"ended": True}])
def test_a_row_that_contradicts_its_subscription_is_damaged(change: dict[str, Any]) -> None:
    """Another topic, or an end without a deletion: the lane begins again instead of reading wrong events or none."""

    async def story(scene: Scene) -> None:
        topic = await scene.begin("a")
        await scene.dispatch()
        stored = scene.ledger._disk.lanes[1]
        stored.lane = replace(stored.lane, **change)
        await scene.publish(topic, "1")
        await scene.dispatch()
        assert await scene.books(1) == LaneCounts(matched=1, delivered=1)

    play(story)


def test_a_damaged_subscription_stops_its_lane_alone() -> None:
    """It is reported and keeps its row; the others are served; a running lane stops when news of it come."""

    async def story(scene: Scene) -> None:
        topic = await scene.begin("a", "b")
        await scene.publish(topic, "1")
        await scene.dispatch()
        scene.log_disk.subscription(1)
        await scene.publish(topic, "2")
        await scene.dispatch()
        assert list(scene.stopped) == [1]
        assert await scene.books(1) == LaneCounts(matched=1, delivered=1)
        assert await scene.books(2) == LaneCounts(matched=2, delivered=2)
        scene.log_disk.subscription(2)
        scene.log._disk.changes.append((scene.log._disk.mark + 1, topic.id, 2))
        scene.log._disk.mark += 1
        scene.dispatcher.notify()
        await asyncio.sleep(1)
        assert sorted(scene.stopped) == [1, 2]

    play(story)


def test_a_damaged_topic_stops_its_lanes_at_a_start() -> None:
    """The schema of its events is unknown. Lanes that run already go on with the topic that they have."""

    async def story(scene: Scene) -> None:
        topic = await scene.begin("a")
        await scene.dispatch()
        scene.log_disk.topic(topic.id)
        await scene.publish(topic, "1")
        await asyncio.sleep(1)
        assert (len(scene.got), scene.stopped) == (1, {})
        await scene.dispatch()
        assert list(scene.stopped) == [1]

    play(story)


def test_a_cursor_of_another_log_stops_its_lane() -> None:
    """Positions of another log mean nothing here: going on could lose or repeat anything."""

    async def story(scene: Scene) -> None:
        topic = await scene.begin("a")
        await scene.ledger.open_lane(1, topic.id, "another log", 2)
        await scene.publish(topic, "1")
        await scene.dispatch()
        assert "belongs to another log" in scene.stopped[1]
        assert scene.got == []

    play(story)


@pytest.mark.parametrize(("position", "stops"), [(4, False), (5, True)])
def test_a_cursor_past_the_end_stops_its_lane(position: int, stops: bool) -> None:
    """An old log was put back: its next positions are new events, which a lane that is past them would never send."""

    async def story(scene: Scene) -> None:
        topic = await scene.begin("a")  # entries 1 and 2
        await scene.publish(topic, "1")
        row = await scene.ledger.open_lane(1, topic.id, scene.log.id, position)
        assert row.cursor == Cursor((position, 0))
        await scene.dispatch()
        assert [why for why in scene.stopped.values() if "past the log's end, 3" in why] == list(scene.stopped.values())
        assert bool(scene.stopped) is stops

    play(story)
