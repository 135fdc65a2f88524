"""Stores the events of blob changes, and finds the changes whose event a crash or a failed commit left out."""

import uuid
from collections.abc import Mapping
from contextlib import suppress
from typing import Protocol

from recapito.clock import Clock
from recapito.contracts.log import Log
from recapito.domain import limits
from recapito.domain.instant import SECOND
from recapito.domain.resources.topic import Topic
from recapito.domain.storage.blob_change import BlobChange
from recapito.domain.storage.blob_event import BlobFacts, blob_event
from recapito.domain.storage.event_names import BLOB_DELETED
from recapito.errors import AppendFailed, Busy, NotFound, RecordDamaged, StoreFailed
from recapito.intake.publish.publisher import Publisher
from recapito.intake.storage.change_notes import ChangeNote, ChangeNotes
from recapito.intake.storage.reported_accounts import ReportedAccounts
from recapito.observability.journal import Journal

RECOVER_NS = 5 * SECOND
_ALL = 2**62

UNSETTLED = (OSError, Busy, AppendFailed, StoreFailed, RecordDamaged)
"""Failures that leave the note of a change: whether its event is stored is settled later."""


class BlobInspector(Protocol):
    """Asks the storage service about blobs."""

    async def check(self, account: str) -> None:
        """Raise OSError if `look` could never ask about a blob of this account."""

    async def look(self, change: BlobChange) -> BlobFacts | None:
        """The facts of a blob; None if there is no such blob. OSError if the storage service cannot be asked."""


class BlobReporter:
    """Reports blob changes to the system topics of their storage account. `run` is its loop, one task.

    log: only read here; the publisher writes.
    clock: the service's clock, for the time of an event.
    wall: real time, by which the storage service dates blobs, and for pauses.
    """

    def __init__(
        self,
        log: Log,
        accounts: ReportedAccounts,
        publisher: Publisher,
        clock: Clock,
        wall: Clock,
        service: BlobInspector,
        notes: ChangeNotes,
        journal: Journal,
    ) -> None:
        self._log = log
        self._accounts = accounts
        self._publisher = publisher
        self._clock = clock
        self._wall = wall
        self._service = service
        self._notes = notes
        self._journal = journal
        self._under_way: dict[str, list[Topic]] = {}  # the topics of each change that a client waits for
        self._sequencer = 0
        self._failing = ""

    async def begin(self, change: BlobChange, scheme: str) -> ChangeNote | None:
        """Note a change before it is asked for; None if no subscription wants its event.

        Busy if its event could not be stored now, OSError if the storage service could not be asked about the blob: the
        change should not be made.
        """
        topics = await self._accounts.topics(change.account)
        if not topics:
            return None
        self._publisher.check_open()
        await self._service.check(change.account)
        facts = await self._service.look(change) if change.event_type == BLOB_DELETED else None
        note = ChangeNote(str(uuid.uuid4()), change, scheme, self._wall.now(), facts)
        self._notes.put(note)
        self._under_way[note.id] = topics
        return note

    async def made(self, note: ChangeNote, answer: Mapping[str, str]) -> None:
        """Return when the event of a change that the service confirmed is stored. A failure leaves the note."""
        try:
            change = note.change
            facts = note.facts or (None if change.complete else await self._service.look(change))
            await self._store(note, self._under_way[note.id], answer, facts)
            self._notes.remove(note.id)
        finally:
            self._under_way.pop(note.id, None)

    def not_made(self, note: ChangeNote) -> None:
        """Forget a change that the service refused."""
        self._notes.remove(note.id)
        self._under_way.pop(note.id, None)

    def doubtful(self, note: ChangeNote) -> None:
        """Leave a change whose answer was lost to `run`, which asks the service."""
        self._under_way.pop(note.id, None)

    async def run(self) -> None:
        """Settle the notes that a crash or a failure left, forever."""
        while True:
            try:
                left = [note for note in self._notes.left() if note.id not in self._under_way]
            except OSError as error:
                left = []
                self._report_once(error)
            for note in left:
                await self._settle(note)
            await self._wall.sleep_until(self._wall.now() + RECOVER_NS)

    async def _settle(self, note: ChangeNote) -> None:
        """Report a change if the service made it and its event is not in the log; a failure leaves the note."""
        try:
            topics = await self._accounts.topics(note.change.account)
            facts = await self._service.look(note.change) if topics else None
            if topics and _was_made(note, facts):
                left_out = [topic for topic in topics if not await self._is_stored(topic, note.id)]
                await self._store(note, left_out, {}, note.facts or facts)
                self._journal("blob.found_again", api=note.change.api, topics=len(left_out))
            self._notes.remove(note.id)
            self._failing = ""
        except UNSETTLED as error:
            self._report_once(error)

    def _report_once(self, error: Exception) -> None:
        """Journal a failure once for each reason, not every few seconds."""
        if self._failing != str(error):
            self._failing = str(error)
            self._journal("blob.not_settled", why=str(error))

    async def _store(
        self, note: ChangeNote, topics: list[Topic], answer: Mapping[str, str], facts: BlobFacts | None
    ) -> None:
        self._sequencer = max(self._sequencer + 1, self._wall.now())
        number = self._sequencer
        for topic in topics:
            assert topic.source is not None
            source = topic.source.resource_id
            event = blob_event(note.change, note.id, note.scheme, source, self._clock.now(), number, answer, facts)
            with suppress(NotFound):  # the topic was deleted meanwhile, and its event with it
                await self._publisher.publish(topic, [event], len(event.body))

    async def _is_stored(self, topic: Topic, id: str) -> bool:
        below: int | None = _ALL
        while below is not None:
            found = await self._log.search(topic.id, id.encode(), below, limits.SEARCH_SLICE)
            if found.positions:
                return True
            below = found.below
        return False


def _was_made(note: ChangeNote, facts: BlobFacts | None) -> bool:
    """Whether the blob, as it is now, shows that a change was made. The service dates a blob in whole seconds."""
    if note.change.event_type == BLOB_DELETED:
        return facts is None and note.facts is not None
    return facts is not None and facts.modified_s >= note.at // SECOND
