"""The janitor trims what every subscription has passed and nobody keeps, and forgets subscriptions that have ended.

The law: nothing is trimmed that a lane has still to read. A subscription without a lane counts with the position at
which it was created; the ends of topics are read before the subscriptions, so that one created meanwhile loses nothing.
"""

import asyncio
from collections.abc import Callable, Set
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple, Protocol

from recapito.clock import Clock
from recapito.contracts.ledger import LaneRow
from recapito.contracts.log import Log
from recapito.contracts.registry import Registry
from recapito.domain import limits
from recapito.domain.instant import SECOND
from recapito.domain.resources.subscription import Subscription
from recapito.errors import SettingsError, StoreFailed
from recapito.intake.maintenance.retention import NOTHING, Keeping, Retention
from recapito.intake.publish.disk_watch import DiskWatch
from recapito.observability.journal import Journal, silent

EVERY_NS = 1 * SECOND
PAGE = 1000


class LaneReader(Protocol):
    """The part of the Ledger that intake may see."""

    async def lanes(self) -> list[LaneRow]:
        """All lanes, in the order of their ids."""


class Swept(NamedTuple):
    """What one round did: how many entries were trimmed, and which subscriptions were forgotten."""

    trimmed: int
    forgotten: list[int]


def allowed() -> AbstractContextManager[bool]:
    """Trimming is allowed: nobody takes a backup."""
    return nullcontext(True)


def unheard(topics: Set[int]) -> None:
    """Nobody wants to know which topics have subscriptions."""


class Janitor:
    """Keeps the log short. `trimming` is entered around each slice and says whether it may be cut now.

    `subscribed` is told, each round, which topics have subscriptions.
    """

    def __init__(
        self,
        log: Log,
        registry: Registry,
        ledger: LaneReader,
        housekeeping: Clock,
        trimming: Callable[[], AbstractContextManager[bool]] = allowed,
        disk: DiskWatch | None = None,
        journal: Journal = silent,
        keeping: Keeping = NOTHING,
    ) -> None:
        self.subscribed: Callable[[Set[int]], None] = unheard
        self._log = log
        self._registry = registry
        self._ledger = ledger
        self._housekeeping = housekeeping
        self._trimming = trimming
        self._disk = disk
        self._mark = 0
        self._journal = journal
        self._ends: dict[int, int] = {}  # of topics that have grown and were not looked at since
        self._retention = Retention(log, keeping)
        self._due: dict[int, int] = {}  # topic -> below which position it is to be trimmed

    async def run(self) -> None:
        """A round every second, for ever. A round that fails leaves its work to the next one."""
        while True:
            try:
                await self.run_once()
            except (StoreFailed, SettingsError) as error:  # the store, or the lock around trimming
                self._journal("janitor.failed", error=error)
            await self._housekeeping.sleep_until(self._housekeeping.now() + EVERY_NS)

    async def run_once(self) -> Swept:
        """One round: look at the disk, forget, trim."""
        if self._disk is not None:
            self._disk.look()
        news = await self._log.news(self._mark)
        self._mark = news.mark
        self._ends.update(news.ends)
        lanes = {lane.id: lane for lane in await self._ledger.lanes()}
        floors, ended = await self._survey(lanes)
        self.subscribed(floors.keys())
        for id in ended:
            await self._registry.forget(id)
        return Swept(await self._trim_all(floors), ended)

    async def _survey(self, lanes: dict[int, LaneRow]) -> tuple[dict[int, int], list[int]]:
        """The floor of each topic that has subscriptions, and the deleted ones whose lane has ended."""
        floors: dict[int, int] = {}
        ended: list[int] = []
        after = 0
        while page := await self._registry.subscriptions(None, after, PAGE):
            for subscription in page:
                lane = lanes.get(subscription.id)
                if subscription.deleted_position is not None and lane is not None and lane.ended:
                    ended.append(subscription.id)
                else:
                    floor = self._floor(subscription, lane)
                    floors[subscription.topic] = min(floor, floors.get(subscription.topic, floor))
            after = page[-1].id
        for damage in await self._registry.damaged_records():
            if damage.table == "subscription":  # nobody knows what it still needs
                floors[damage.topic] = 0
        return floors, ended

    def _floor(self, subscription: Subscription, lane: LaneRow | None) -> int:
        """The first position that a subscription may still need. A cursor of another log says nothing here."""
        if lane is None or lane.damaged or lane.log_id != self._log.id:
            return subscription.created_position
        return lane.cursor.low[0]

    async def _trim_all(self, floors: dict[int, int]) -> int:
        """Trim what is passed, but for what is kept. What can not be trimmed now stays due."""
        now, total = self._housekeeping.now(), 0
        for topic in self._ends.keys() | floors.keys():
            end = self._ends.get(topic)
            await self._retention.passed(topic, floors.get(topic, 0 if end is None else end + 1), now)
            self._ends.pop(topic, None)
        self._due |= self._retention.release(now, self._disk is not None and self._disk.reason() is not None)
        self._retention.forget(floors)
        for topic, below in list(self._due.items()):
            trimmed = await self._trim(topic, below)
            if trimmed is None:
                return total
            del self._due[topic]
            total += trimmed
        return total

    async def _trim(self, topic: int, below: int) -> int | None:
        """Cut in slices, so that publishes come in between; None if cutting is not allowed now."""
        total = 0
        while True:
            with self._trimming() as may_cut:
                if not may_cut:
                    return None
                cut = await self._log.trim(topic, below)
            total += cut
            if cut < limits.TRIM_SLICE:
                return total
            await asyncio.sleep(0)
