"""The janitor trims log entries that every subscription has passed, and forgets subscriptions that have ended.

The law: no entry is trimmed that a lane still has to read. A subscription without a lane counts with its position of
creation; the ends of topics are read before the subscriptions, so that one created meanwhile loses nothing.
"""

import asyncio
from collections.abc import Callable, Set
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple, Protocol

from recapito.clock import Clock
from recapito.contracts.ledger import LaneRow, LaneVersions
from recapito.contracts.log import Log
from recapito.contracts.registry import Registry
from recapito.domain import limits
from recapito.domain.instant import SECOND
from recapito.domain.resources.subscription import Subscription
from recapito.errors import SettingsError, StoreFailed
from recapito.intake.maintenance.retention import NOTHING, Retention, RetentionBounds
from recapito.intake.publish.disk_watch import DiskWatch
from recapito.observability.journal import Journal, Trouble, silent

EVERY_NS = 1 * SECOND
LONGEST_NS = 5 * SECOND
REST = 30  # times as long as a round took: thousands of subscriptions must not keep a processor busy
PAGE = 1000


class LaneReader(Protocol):
    """The part of the Ledger that is read here."""

    async def lanes(self) -> list[LaneRow]:
        """All lanes, in the order of their ids."""

    async def lane_versions(self) -> LaneVersions:
        """Sums that differ after each commit that changes a lane, while none is renewed."""

    async def damaged_counts(self, after: int) -> dict[str, int]:
        """How many records were set aside after a number, by table."""


class Swept(NamedTuple):
    """The result of one round: the number of trimmed entries, and the ids of forgotten subscriptions."""

    trimmed: int
    forgotten: list[int]


def allowed() -> AbstractContextManager[bool]:
    """Trimming without a lock: no backup runs."""
    return nullcontext(True)


class Janitor:
    """Keeps the log short.

    log, registry, ledger: the stores; the ledger is only read.
    housekeeping: real time, for the pace of rounds and the age of kept entries.
    trimming: entered around each slice; yields whether the slice may be trimmed now.
    disk: checked each second; without room retention keeps nothing.
    journal: gets a line for each failed round.
    keeping: how much retention keeps.
    on_survey: called in each round with the ids of the topics that have subscriptions.
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
        keeping: RetentionBounds = NOTHING,
        on_survey: Callable[[Set[int]], None] = lambda topics: None,
    ) -> None:
        self._on_survey = on_survey
        self._log = log
        self._registry = registry
        self._ledger = ledger
        self._housekeeping = housekeeping
        self._trimming = trimming
        self._disk = disk
        self._mark = 0
        self._journal = journal
        self._trouble = Trouble()
        self._ends: dict[int, int] = {}  # the new ends of topics that have grown since the last round
        self._retention = Retention(log, keeping)
        self._due: dict[int, int] = {}  # topic -> the position below which it is to be trimmed
        self._renewed = 0
        self._unsurveyed = True  # a topic or a subscription has changed, or a topic has grown, since the last survey
        self._surveyed: tuple[LaneVersions, int] | None = None  # the lanes at the last survey
        self._floors: dict[int, int] = {}  # the result of the last survey

    async def run(self) -> None:
        """Run rounds, forever: every second, or fewer if they take long. A failed one leaves its work to the next."""
        while True:
            began = self._housekeeping.now()
            try:
                await self.run_once()
                self._trouble.end()
            except (StoreFailed, SettingsError) as error:  # the store, or the lock around trimming
                if self._trouble.is_news(str(error)):
                    self._journal("janitor.failed", error=error)
            await self._rest(min(REST * (self._housekeeping.now() - began), LONGEST_NS))

    async def _rest(self, ns: int) -> None:
        """Wait for the next round, at least a second; while the disk has no room, no longer."""
        for second in range(max(ns // EVERY_NS, 1)):
            if second and self._disk is not None:
                short = self._disk.reason()  # a publish that was refused since the last look; looking may reopen
                self._disk.look()
                if short or self._disk.reason():
                    return
            await self._housekeeping.sleep_until(self._housekeeping.now() + EVERY_NS)

    async def run_once(self) -> Swept:
        """One round: check the disk, forget ended subscriptions, trim.

        While neither the log nor a lane has changed, the floors of the last survey hold.
        """
        if self._disk is not None:
            self._disk.look()
        news = await self._log.news(self._mark)
        self._mark = news.mark
        self._ends.update(news.ends)
        self._unsurveyed |= bool(news.ends or news.topics or news.subscriptions)
        self._renewed = await self._count_renewed()  # before the cursors are read
        lanes = (await self._ledger.lane_versions(), self._renewed)
        ended: list[int] = []
        if self._unsurveyed or lanes != self._surveyed:
            self._unsurveyed = True  # until this round has forgotten what it finds ended
            self._floors, ended = await self._survey({lane.id: lane for lane in await self._ledger.lanes()})
        self._on_survey(self._floors.keys())
        for id in ended:
            await self._registry.forget(id)
        self._unsurveyed, self._surveyed = False, lanes
        return Swept(await self._trim_all(self._floors), ended)

    async def _survey(self, lanes: dict[int, LaneRow]) -> tuple[dict[int, int], list[int]]:
        """The floor of each topic with subscriptions, and the ids of deleted subscriptions whose lane has ended."""
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
            if damage.table == "subscription":  # its floor is unknown, so everything stays
                floors[damage.topic] = 0
        return floors, ended

    def _floor(self, subscription: Subscription, lane: LaneRow | None) -> int:
        """The first position that a subscription may still need. A cursor of another log does not count."""
        if lane is None or lane.damaged or lane.log_id != self._log.id:
            return subscription.created_position
        return lane.cursor.low[0]

    async def _trim_all(self, floors: dict[int, int]) -> int:
        """Trim passed entries, except those that retention keeps. Topics that cannot be trimmed now stay due."""
        now, total = self._housekeeping.now(), 0
        for topic in self._ends.keys() | floors.keys():
            end = self._ends.get(topic)
            await self._retention.passed(topic, floors.get(topic, 0 if end is None else end + 1), now)
            self._ends.pop(topic, None)
        self._due |= self._retention.release(now, self._disk is not None and self._disk.reason() is not None)
        self._retention.forget(floors)
        for topic, below in list(self._due.items()):
            floor = min(below, floors.get(topic, below))  # a lane that began again may need what it had passed
            trimmed = await self._trim(topic, floor)
            if trimmed is None:
                return total
            if floor == below:
                del self._due[topic]
            total += trimmed
        return total

    async def _count_renewed(self) -> int:
        """The number of lanes that began again, ever: the ledger sets each damaged row aside in the same commit."""
        return (await self._ledger.damaged_counts(0)).get("lane", 0)

    async def _trim(self, topic: int, below: int) -> int | None:
        """Trim in slices, so that publishes get their turn in between; None if trimming is not allowed now."""
        total = 0
        while True:
            with self._trimming() as may_cut:
                if not may_cut or await self._count_renewed() != self._renewed:
                    return None  # a backup runs, or a lane began again and may need what it had passed
                cut = await self._log.trim(topic, below)
            total += cut
            if cut < limits.TRIM_SLICE:
                return total
            await asyncio.sleep(0)
