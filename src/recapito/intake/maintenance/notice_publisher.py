"""Publishes the events of notices to the system topics of this server, or of this partition of a cluster."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from recapito.clock import Clock
from recapito.contracts.ledger import Notice
from recapito.contracts.log import Log, NewSegment
from recapito.contracts.registry import TAKEN_KIND, Document, Registry, has_subscription, system_topic_of
from recapito.domain.cluster.partition import Partition
from recapito.domain.dead_letter.blob_notice import BlobNotice, blob_created, decode_notice
from recapito.domain.events.segment import Publish, StampedEvent, pack
from recapito.errors import StoreFailed
from recapito.observability.journal import Journal

EventsByTopic = Mapping[int, list[StampedEvent]]


class ReadNotice(NamedTuple):
    """A notice with its number in the ledger of the partition that wrote the blob."""

    number: int
    notice: BlobNotice


class NoticePublisher:
    """Makes events of notices, and appends them together with a mark, in one commit.

    clock: the service's clock, for the time of publishing.
    closed: returns the reason why nothing may be stored now, None if it may.
    on_append: called after each commit, and after one that failed: it may be stored nevertheless.
    """

    def __init__(
        self,
        log: Log,
        registry: Registry,
        clock: Clock,
        closed: Callable[[], str | None],
        on_append: Callable[[], None],
        journal: Journal,
    ) -> None:
        self._log = log
        self._registry = registry
        self._clock = clock
        self._closed = closed
        self._on_append = on_append
        self._journal = journal

    def read(self, notices: Sequence[Notice]) -> list[ReadNotice]:
        """The notices that can be read; the journal has the others."""
        read = ((number, self._read(number, content, damaged)) for number, content, damaged in notices)
        return [ReadNotice(number, notice) for number, notice in read if notice is not None]

    def check_open(self, error: Callable[[str], Exception] = StoreFailed) -> None:
        """Raise an error of this kind, with the reason, if nothing may be stored now."""
        reason = self._closed()
        if reason is not None:
            raise error(reason)

    async def events_of(self, notices: Sequence[ReadNotice], writer: int = 0) -> EventsByTopic:
        """The events by system topic; accounts without a system topic or subscription here get none.

        writer: the partition that wrote the blobs.
        """
        by_topic: dict[int, list[StampedEvent]] = {}
        first = Partition(writer).first_id
        for number, notice in notices:
            topic = await system_topic_of(self._registry, notice.account)
            if topic is None or topic.source is None:
                continue
            if topic.id in by_topic or await has_subscription(self._registry, topic):
                by_topic.setdefault(topic.id, []).append(blob_created(notice, first + number, topic.source.resource_id))
        return by_topic

    async def append(self, by_topic: EventsByTopic, mark: Document, notices: int) -> bool:
        """Store events and mark; False if a topic was deleted meanwhile, so that the events must be made again."""
        now = self._clock.now()
        segments = [NewSegment(topic, len(events), *pack([Publish(now, events)])) for topic, events in by_topic.items()]
        try:
            await self._log.append_marked(segments, TAKEN_KIND, [mark])
        except KeyError:
            return False
        finally:
            self._on_append()  # also after a failure: it may be stored nevertheless
        self._journal("notice.published", blobs=sum(map(len, by_topic.values())), notices=notices)
        return True

    def _read(self, number: int, content: bytes, damaged: bool) -> BlobNotice | None:
        if damaged:
            self._journal("notice.damaged", number=number)
            return None
        try:
            return decode_notice(content)
        except msgspec.DecodeError as error:
            self._journal("notice.unreadable", why=str(error))
            return None
