"""Replay: which events of the log go to a subscription again, page by page, and what is refused."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from recapito.contracts.log import EntryKind, NewSegment
from recapito.domain import limits
from recapito.domain.events.schema_table import accept
from recapito.domain.events.segment import Publish, Segment, pack
from recapito.domain.filters.filter import Filter
from recapito.domain.instant import SECOND
from recapito.domain.resources.subscription import FilterSince, Subscription
from recapito.domain.resources.topic import Topic
from recapito.errors import Busy, Conflict, InvalidInput, NotFound
from recapito.intake.publish.replayer import Replayed, Replayer, ReplayStart
from recapito.stores.memory import MemoryDisk, MemoryLedger, MemoryLog
from tests.dispatch.published import published
from tests.intake.doubles import StillClock
from tests.kit.resources import a_subscription, a_topic

BEGIN = 1_000_000 * SECOND


class World:
    """A topic whose event number n was published at second n, in a segment of its own."""

    def __init__(self, enabled: bool = True) -> None:
        self.log, self.ledger, self.clock = MemoryLog(), MemoryLedger(MemoryDisk()), StillClock()
        self.closed: str | None = None
        self.told: list[str] = []
        self.replayer = Replayer(
            self.log, self.log, self.ledger, self.clock, enabled, self._check_open, lambda: None, self._note
        )

    def _check_open(self) -> None:
        if self.closed:
            raise Busy(self.closed)

    def _note(self, event: str, **fields: object) -> None:
        self.told.append(event)

    async def begin(self) -> Topic:
        self.topic = await self.log.put_topic(a_topic())
        return self.topic

    async def publish(self, *numbers: int, data: str = "0") -> None:
        for n in numbers:
            now = BEGIN + n * SECOND
            events = accept(self.topic, {}, published(self.topic.input_schema, data), now, lambda: "id")
            await self.log.append([NewSegment(self.topic.id, 1, *pack([Publish(now, events)]))])

    async def subscribe(self, name: str = "late", **settings: Any) -> Subscription:
        return await self.log.put_subscription(a_subscription(topic=self.topic.id, name=name, **settings))

    async def replayed(self) -> list[tuple[int, str, bytes]]:
        """The replayed segments: for whom, from where, and their events."""
        entries = await self.log.read(self.topic.id, await self.log.first(self.topic.id), 1 << 40)
        segments = [Segment(entry.columns, entry.body) for entry in entries if entry.kind is EntryKind.SEGMENT]
        return [(segment.only, segment.origin, segment.body) for segment in segments if segment.only]


def play(test: Callable[[World], Awaitable[None]], **options: Any) -> None:
    asyncio.run(test(World(**options)))


def test_events_from_before_a_subscription() -> None:
    """A new subscription gets what was published before it, byte for byte, each with the position it comes from."""

    async def test(world: World) -> None:
        await world.begin()
        await world.publish(1, 2, data='{"big":12345678901234567890, "k":1e400}')
        subscription = await world.subscribe()
        await world.publish(3)  # which it gets anyway
        result = await world.replayer.replay(subscription.id, ReplayStart(position=1), None)
        assert result == Replayed(1, 3, None, 2, 2, 0)
        found = await world.replayed()
        assert [(only, origin) for only, origin, _ in found] == [(subscription.id, f"replay:{n}") for n in (2, 3)]
        assert all(b'{"big":12345678901234567890, "k":1e400}' in body for _, _, body in found)
        again = await world.replayer.replay(subscription.id, ReplayStart(position=1), None, dry_run=True)
        assert (again.selected, again.done) == (2, 0)
        assert len(await world.replayed()) == 2
        assert world.told == ["subscription.replayed"]

    play(test)


@pytest.mark.parametrize(("since", "start"), [(0, 1), (5, 6), (5.5, 7), (10, 11), (11, 12)])
def test_from_a_time(since: float, start: int) -> None:
    """A time is found among the positions: the first event that was published then or later."""

    async def test(world: World) -> None:
        await world.begin()
        await world.publish(*range(1, 11))
        subscription = await world.subscribe()
        result = await world.replayer.replay(subscription.id, ReplayStart(since=BEGIN + int(since * SECOND)), None)
        assert (max(result.start, 2), result.selected) == (max(start, 2), 12 - max(start, 2))

    play(test)


def test_the_filter_of_now_selects() -> None:
    """Only events that the subscription's filter takes are replayed, and never a replayed one."""

    async def test(world: World) -> None:
        await world.begin()
        await world.publish(1, 2)
        all_types = await world.subscribe("all")
        none = await world.subscribe("none", filters=(FilterSince(0, Filter(event_types=("Other",))),))
        await world.replayer.replay(all_types.id, ReplayStart(position=1), None)
        later = await world.subscribe("later")
        assert (await world.replayer.replay(none.id, ReplayStart(position=1), None)).selected == 0
        assert (await world.replayer.replay(later.id, ReplayStart(position=1), None)).selected == 2

    play(test)


def test_beyond_what_is_kept() -> None:
    """A position or a time from which on events were trimmed is refused, and the answer says from where there are."""

    async def test(world: World) -> None:
        await world.begin()
        await world.publish(*range(1, 11))
        subscription = await world.subscribe()
        await world.log.trim(world.topic.id, 6)
        for start in (ReplayStart(position=5), ReplayStart(since=BEGIN + 4 * SECOND)):
            with pytest.raises(InvalidInput, match="at position 6, published at 1970-01-12T13:46:45") as refused:
                await world.replayer.replay(subscription.id, start, None)
            assert refused.value.code == "BeyondKeptEvents"
        for start in (ReplayStart(position=6), ReplayStart(since=BEGIN + 5 * SECOND)):
            assert (await world.replayer.replay(subscription.id, start, None, dry_run=True)).selected == 6

    play(test)


def test_pages() -> None:
    """A call takes as much as a commit does and says where to go on; together the calls take everything once."""

    async def test(world: World) -> None:
        await world.begin()
        await world.publish(*range(1, 8), data=json.dumps("x" * (limits.SEGMENT_BYTES // 5)))
        subscription = await world.subscribe()
        position, until, pages = 1, None, 0
        while position is not None:
            page = await world.replayer.replay(subscription.id, ReplayStart(position=position), until)
            position, until, pages = page.next, page.until, pages + 1
        assert pages == 2
        assert [origin for _, origin, _ in await world.replayed()] == [f"replay:{n}" for n in range(2, 9)]

    play(test)


def test_what_is_refused() -> None:
    """Nothing is replayed while it is off, without a subscription, or while intake takes no events."""

    async def test(world: World) -> None:
        await world.begin()
        await world.publish(1)
        subscription = await world.subscribe()
        world.closed = "the disk is full"
        with pytest.raises(Busy):
            await world.replayer.replay(subscription.id, ReplayStart(position=1), None)
        with pytest.raises(NotFound):
            await world.replayer.replay(99, ReplayStart(position=1), None)
        assert not await world.replayed()

    play(test)

    async def off(world: World) -> None:
        with pytest.raises(Conflict, match=r"history\.replay"):
            await world.replayer.replay(1, ReplayStart(position=1), None)

    play(off, enabled=False)
