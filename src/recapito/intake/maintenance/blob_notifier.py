"""Notices of dead-letter blobs become events of the system topic over their storage account.

Dispatch keeps a notice until the number that intake has written down has passed it; that number and the events are one
commit. So no notice is lost, whichever role stops where, and none is published twice.
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
from recapito.observability.journal import Journal

RETRY_NS = 1 * SECOND


class NoticeReader(Protocol):
    """What is read of the ledger."""

    async def notices(self, after: int, limit: int) -> list[Notice]:
        """Notices in the order of their numbers, from the first after a number on."""


class BlobNotifier:
    """Takes notices over. `run` is its loop, one task; `closed` says why nothing may be stored now, if so."""

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
        self._rung = asyncio.Event()
        self._rung.set()  # there may be some from before
        self._busy = False

    def ring(self) -> None:
        """There may be a notice."""
        self._rung.set()

    def quiet(self) -> bool:
        """True when nothing is to be done until it rings."""
        return not self._busy and not self._rung.is_set()

    async def run(self) -> None:
        """Take over what there is, at each ring, for ever. What fails is tried again a second later."""
        while True:
            await self._rung.wait()
            self._busy = True
            self._rung.clear()
            try:
                while await self.run_once():
                    continue
            except StoreFailed as error:
                self._taken = None  # it may be stored all the same
                self._journal("notice.failed", why=str(error))
                await self._housekeeping.sleep_until(self._housekeeping.now() + RETRY_NS)
                self._rung.set()
            finally:
                self._busy = False

    async def run_once(self) -> int:
        """Take over a page of notices in one commit: how many."""
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
        except KeyError:  # a topic was deleted meanwhile: it is not found again
            return len(notices)
        finally:
            self._on_append()  # also after a failure: it may be stored all the same
        self._taken = last
        self._journal("notice.published", blobs=sum(map(len, by_topic.values())), notices=len(notices))
        return len(notices)

    async def _read_taken(self) -> int:
        """The number of the last notice taken. If its document is damaged, all that are kept are taken once more."""
        try:
            return int(await self._registry.document(TAKEN_KIND, TAKEN) or 0)
        except RecordDamaged:
            await self._registry.put_document(TAKEN_KIND, TAKEN, b"0")
            return 0

    async def _events(self, notices: list[Notice]) -> dict[int, list[StampedEvent]]:
        """The events of notices, by the topics over their accounts; of an account that has none, none."""
        found: dict[int, list[StampedEvent]] = {}
        for number, content in notices:
            notice = self._read(content)
            topic = None if notice is None else await system_topic_of(self._registry, notice.account)
            if notice is None or topic is None or topic.source is None:
                continue
            if topic.id in found or await has_subscription(self._registry, topic):
                found.setdefault(topic.id, []).append(blob_created(notice, number, topic.source.resource_id))
        return found

    def _read(self, content: bytes) -> BlobNotice | None:
        try:
            return decode_notice(content)
        except msgspec.DecodeError as error:
            self._journal("notice.unreadable", why=str(error))
            return None
