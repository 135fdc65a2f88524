"""Notices of dead-letter blobs become events of the system topic of their storage account.

Dispatch keeps each notice until intake has stored a higher number; that number and the events are one commit. So no
notice is lost, whichever role stops when, and none is published twice.
"""

import asyncio
from abc import ABC, abstractmethod
from typing import Protocol

from recapito.clock import Clock
from recapito.contracts.ledger import Notice
from recapito.contracts.registry import TAKEN, TAKEN_KIND, Document, Registry
from recapito.domain import limits
from recapito.domain.instant import SECOND
from recapito.errors import RecordDamaged, StoreFailed
from recapito.intake.maintenance.notice_publisher import NoticePublisher
from recapito.observability.journal import Journal, Trouble

RETRY_NS = 1 * SECOND


class NoticeReader(Protocol):
    """The part of the Ledger that is read here."""

    async def notices(self, after: int, limit: int) -> list[Notice]:
        """Notices in the order of their numbers, after a number."""


class NoticeLoop(ABC):
    """Publishes notices at each ring. `run` is its loop, one task; `run_once` is that of a subclass.

    registry, ledger: the stores, of which the ledger is only read.
    housekeeping: real time, for the pause after a failure.
    journal: gets a line for each failure.
    news: set by dispatch in the same process; otherwise `ring` sets it.
    """

    def __init__(
        self,
        registry: Registry,
        ledger: NoticeReader,
        housekeeping: Clock,
        journal: Journal,
        news: asyncio.Event | None = None,
    ) -> None:
        self._registry = registry
        self._ledger = ledger
        self._housekeeping = housekeeping
        self._journal = journal
        self._taken: int | None = None
        self._news = news or asyncio.Event()
        self._news.set()  # there may be notices from before the start
        self._busy = False
        self._trouble = Trouble()

    def ring(self) -> None:
        """Wake the loop: there may be a notice."""
        self._news.set()

    def quiet(self) -> bool:
        """True when the loop has nothing to do until the next ring."""
        return not self._busy and not self._news.is_set()

    async def run(self) -> None:
        """At each ring publish all notices, forever. After a failure of the store it tries again a second later."""
        while True:
            await self._news.wait()
            self._busy = True
            self._news.clear()
            try:
                while await self.run_once():
                    continue
                self._trouble.end()
            except StoreFailed as error:
                self._taken = None  # it may be stored nevertheless
                if self._trouble.is_news(str(error)):
                    self._journal("notice.failed", why=str(error))
                await self._housekeeping.sleep_until(self._housekeeping.now() + RETRY_NS)
                self._news.set()
            finally:
                self._busy = False

    @abstractmethod
    async def run_once(self) -> int:
        """Publish one page of notices, and return their number."""

    async def _known_taken(self) -> int:
        if self._taken is None:
            self._taken = await self._read_taken()
        return self._taken

    async def _read_taken(self) -> int:
        """The number of the last published notice. A damaged document counts as 0: kept notices are published again."""
        try:
            return int(await self._registry.document(TAKEN_KIND, TAKEN) or 0)
        except RecordDamaged:
            await self._registry.put_document(TAKEN_KIND, TAKEN, b"0")
            return 0


class BlobNotifier(NoticeLoop):
    """Publishes notices to the system topics of this server."""

    def __init__(
        self,
        publisher: NoticePublisher,
        registry: Registry,
        ledger: NoticeReader,
        housekeeping: Clock,
        journal: Journal,
        news: asyncio.Event | None = None,
    ) -> None:
        super().__init__(registry, ledger, housekeeping, journal, news)
        self._publisher = publisher

    async def run_once(self) -> int:
        """Publish one page of notices in one commit, and return their number."""
        notices = await self._ledger.notices(await self._known_taken(), limits.NOTICES)
        if not notices:
            return 0
        self._publisher.check_open()
        last = notices[-1].number
        by_topic = await self._publisher.events_of(self._publisher.read(notices))
        if await self._publisher.append(by_topic, Document(TAKEN, str(last).encode()), len(notices)):
            self._taken = last
        return len(notices)
