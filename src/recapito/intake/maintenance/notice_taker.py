"""Takes the notices of dead-letter blobs that any partition of a cluster of several wrote.

The law: the events of a page and the mark of the partition that it came from are one commit, and pages of a partition
are taken one at a time. So a page that comes again, whole or with more behind it, publishes only the rest.
"""

from collections.abc import Sequence

from recapito.contracts.ledger import Notice
from recapito.contracts.registry import TAKEN_KIND, Document, Registry
from recapito.domain.dead_letter.blob_notice import CrossedMark, decode_mark, encode_mark
from recapito.errors import Busy, RecordDamaged
from recapito.intake.maintenance.notice_publisher import NoticePublisher


class NoticeTaker:
    """Publishes the notices of all partitions to the system topics of this one."""

    def __init__(self, publisher: NoticePublisher, registry: Registry) -> None:
        self._publisher = publisher
        self._registry = registry
        self._taking: set[int] = set()

    async def take(self, writer: int, notices: Sequence[Notice]) -> None:
        """Return when each event that a system topic of this partition needs is stored.

        Busy if nothing may be stored now, or an earlier page is still being taken; StoreFailed if it is unknown whether
        the events are stored.
        """
        self._publisher.check_open(Busy)
        if writer in self._taking:  # its caller has given up waiting: no second page waits here
            raise Busy("An earlier page of notices is still being taken.")
        self._taking.add(writer)
        try:
            await self._take(writer, notices)
        finally:
            self._taking.discard(writer)

    async def _take(self, writer: int, notices: Sequence[Notice]) -> None:
        """A page without an event that is needed leaves no mark: there is nothing that could be published twice."""
        key = f"from-{writer}"
        mark = await self._mark(key)
        fresh = [each for each in self._publisher.read(notices) if not mark.knows(*each)]
        while by_topic := await self._publisher.events_of(fresh, writer):
            document = Document(key, encode_mark(mark.with_taken(fresh)))
            if await self._publisher.append(by_topic, document, len(fresh)):
                return

    async def _mark(self, key: str) -> CrossedMark:
        """The mark of a partition. A damaged one counts as none: the page is published once more."""
        try:
            content = await self._registry.document(TAKEN_KIND, key)
            return CrossedMark() if content is None else decode_mark(content)
        except RecordDamaged:
            await self._registry.put_document(TAKEN_KIND, key, encode_mark(CrossedMark()))
            return CrossedMark()
