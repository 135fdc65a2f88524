"""Notices of dead-letter blobs become events of the system topic of their storage account.

Dispatch keeps each notice until intake has stored a higher number; that number and the events are one commit. So no
notice is lost, whichever role stops when, and none is published twice.
"""

import asyncio
from collections.abc import Callable
from typing import Protocol

import msgspec

from recapito.clock import Clock
from recapito.contracts.ledger import Notice
from recapito.contracts.log import Log, NewSegment
from recapito.contracts.registry import TAKEN, TAKEN_KIND, Document, Registry, has_subscription, system_topic_of
from recapito.domain import limits
from recapito.domain.dead_letter.blob_notice import BlobNotice, blob_created, decode_notice
from recapito.domain.events.segment import Publish, StampedEvent, pack
from recapito.domain.instant import SECOND
from recapito.errors import RecordDamaged, StoreFailed
from recapito.observability.journal import Journal, Trouble

RETRY_NS = 1 * SECOND


class NoticeReader(Protocol):
    """The part of the Ledger that is read here."""

    async def notices(self, after: int, limit: int) -> list[Notice]:
        """Notices in the order of their numbers, after a number."""


class BlobNotifier:
    """Publishes the events of notices. `run` is its loop, one task.

    log, registry, ledger: the stores; the ledger is only read.
    clock: the service's clock, for the time of publishing.
    housekeeping: real time, for the pause after a failure.
    closed: returns the reason why nothing may be stored now, None if it may.
    on_append: called after each commit, and after one that failed: it may be stored nevertheless.
    journal: gets a line for each commit and each failure.
    news: set by dispatch in the same process; otherwise `ring` sets it.
    """

    def __init__(
        self,
        log: Log,
        registry: Registry,
        ledger: NoticeReader,
        clock: Clock,
        housekeeping: Clock,
        closed: Callable[[], str | None],
        on_append: Callable[[], None],
        journal: Journal,
        news: asyncio.Event | None = None,
    ) -> None:
        self._log = log
        self._registry = registry
        self._ledger = ledger
        self._clock = clock
        self._housekeeping = housekeeping
        self._closed = closed
        self._on_append = on_append
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

    async def run_once(self) -> int:
        """Publish one page of notices in one commit, and return their number."""
        if self._taken is None:
            self._taken = await self._read_taken()
        notices = await self._ledger.notices(self._taken, limits.NOTICES)
        if not notices:
            return 0
        reason = self._closed()
        if reason is not None:
            raise StoreFailed(reason)
        by_topic = await self._events(notices)
        now, last = self._clock.now(), notices[-1].number
        segments = [NewSegment(topic, len(events), *pack([Publish(now, events)])) for topic, events in by_topic.items()]
        try:
            await self._log.append_marked(segments, TAKEN_KIND, [Document(TAKEN, str(last).encode())])
        except KeyError:  # a topic was deleted meanwhile; the next run does not find it
            return len(notices)
        finally:
            self._on_append()  # also after a failure: it may be stored nevertheless
        self._taken = last
        self._journal("notice.published", blobs=sum(map(len, by_topic.values())), notices=len(notices))
        return len(notices)

    async def _read_taken(self) -> int:
        """The number of the last published notice. A damaged document counts as 0: kept notices are published again."""
        try:
            return int(await self._registry.document(TAKEN_KIND, TAKEN) or 0)
        except RecordDamaged:
            await self._registry.put_document(TAKEN_KIND, TAKEN, b"0")
            return 0

    async def _events(self, notices: list[Notice]) -> dict[int, list[StampedEvent]]:
        """The events of notices by system topic; accounts without a system topic or subscription get none."""
        by_topic: dict[int, list[StampedEvent]] = {}
        for number, content, damaged in notices:
            notice = self._read(number, content, damaged)
            topic = None if notice is None else await system_topic_of(self._registry, notice.account)
            if notice is None or topic is None or topic.source is None:
                continue
            if topic.id in by_topic or await has_subscription(self._registry, topic):
                by_topic.setdefault(topic.id, []).append(blob_created(notice, number, topic.source.resource_id))
        return by_topic

    def _read(self, number: int, content: bytes, damaged: bool) -> BlobNotice | None:
        if damaged:
            self._journal("notice.damaged", number=number)
            return None
        try:
            return decode_notice(content)
        except msgspec.DecodeError as error:
            self._journal("notice.unreadable", why=str(error))
            return None
