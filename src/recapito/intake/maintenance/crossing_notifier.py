"""Notices in a cluster of several partitions, any of which may have the system topic of the storage account.

The law: a notice crosses to every partition, this one included, and is done only when all have taken it. Each has its
own pace: a partition that does not answer, or is closed, delays no other.
"""

import asyncio
from collections.abc import Sequence
from itertools import accumulate
from typing import Protocol

from recapito.clock import Clock
from recapito.contracts.ledger import Notice
from recapito.contracts.registry import TAKEN, TAKEN_KIND, Registry
from recapito.domain import limits
from recapito.errors import Busy, StoreFailed
from recapito.intake.maintenance.blob_notifier import NoticeLoop, NoticeReader
from recapito.intake.maintenance.notice_taker import NoticeTaker
from recapito.observability.journal import Journal


class Crossing(Protocol):
    """The way of notices to the other partitions."""

    @property
    def others(self) -> Sequence[int]:
        """The numbers of the other partitions."""

    async def cross(self, partition: int, notices: Sequence[Notice]) -> str | None:
        """Have a partition take notices; the reason why it did not, or may not have."""


class CrossingNotifier(NoticeLoop):
    """Has every partition take the notices of this one.

    taker: that of this partition, whose number is `number`.
    """

    def __init__(
        self,
        registry: Registry,
        ledger: NoticeReader,
        housekeeping: Clock,
        journal: Journal,
        crossing: Crossing,
        taker: NoticeTaker,
        number: int,
    ) -> None:
        super().__init__(registry, ledger, housekeeping, journal)
        self._crossing = crossing
        self._taker = taker
        self._number = number
        self._crossed = dict.fromkeys([number, *crossing.others], 0)  # the last number that each one has taken

    async def run_once(self) -> int:
        """Give each partition its next page, and return the number of notices given.

        StoreFailed names the partitions that have not taken theirs; the others have.
        """
        taken = await self._known_taken()
        self._crossed = {partition: max(last, taken) for partition, last in self._crossed.items()}
        pages = {after: await self._read_page(after) for after in set(self._crossed.values())}
        asked = {partition: page for partition, after in self._crossed.items() if (page := pages[after])}
        answers = await asyncio.gather(*(self._give(partition, page) for partition, page in asked.items()))
        reasons = dict(zip(asked, answers, strict=True))
        self._crossed |= {partition: asked[partition][-1].number for partition in asked if reasons[partition] is None}
        await self._settle(taken)
        failed = [f"partition {partition}: {reason}" for partition, reason in reasons.items() if reason is not None]
        if failed:
            raise StoreFailed("Notices wait for " + "; ".join(failed))
        return sum(map(len, asked.values()))

    async def _read_page(self, after: int) -> list[Notice]:
        """The notices after a number, at least one if there is one, as far as their bytes fit into one call."""
        notices = await self._ledger.notices(after, limits.NOTICES)
        sizes = accumulate(len(notice.content) for notice in notices)
        return notices[: max(1, sum(size <= limits.NOTICE_PAGE_BYTES for size in sizes))]

    async def _settle(self, taken: int) -> None:
        """Let go of the notices that every partition has taken."""
        done = min(self._crossed.values())
        if done > taken:
            await self._registry.put_document(TAKEN_KIND, TAKEN, str(done).encode())
            self._taken = done

    async def _give(self, partition: int, notices: Sequence[Notice]) -> str | None:
        """Have a partition take a page; the reason why it did not, or may not have. Damaged notices stay at home."""
        if partition != self._number:
            return await self._crossing.cross(partition, [notice for notice in notices if not notice.damaged])
        try:
            await self._taker.take(partition, notices)
        except (Busy, StoreFailed) as error:
            return str(error)
        return None
