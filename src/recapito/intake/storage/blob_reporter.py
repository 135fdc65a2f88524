"""Stores the events of blob changes, and finds the changes whose event a crash or a failed commit left out."""

import asyncio
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
        self._left: dict[str, ChangeNote] | None = None  # changes in doubt; None until the notes were read
        self._settling = asyncio.Lock()
        self._sequencer = 0

    async def begin(self, change: BlobChange, scheme: str) -> ChangeNote | None:
        """Note a change before it is asked for; None if no subscription wants its event.

        Former changes of the blob that are in doubt are settled first, while the blob still shows them.
        Busy if its event could not be stored now, OSError if the storage service could not be asked about the blob,
        another failure of `UNSETTLED` if a former change is still in doubt: the change should not be made.
        """
        topics = await self._accounts.topics(change.account)
        if not topics:
            return None
        self._publisher.check_open()
        await self._service.check(change.account)
        for former in [note for note in self._in_doubt().values() if note.change.same_blob(change)]:
            await self._settle(former)
        facts = await self._service.look(change) if change.event_type == BLOB_DELETED else None
        note = ChangeNote(str(uuid.uuid4()), change, scheme, self._wall.now(), facts)
        self._notes.put(note)
        self._under_way[note.id] = topics
        return note

    async def made(self, note: ChangeNote, answer: Mapping[str, str]) -> None:
        """Return when the event of a change that the service confirmed is stored. A failure leaves the note."""
        number = self._next_number()  # of the answer: another change of the blob may be answered before this is stored
        try:
            change = note.change
            facts = note.facts or (None if change.complete else await self._service.look(change))
            await self._store(note, number, self._under_way[note.id], answer, facts)
            self._forget(note)
        finally:
            self.doubtful(note)

    def not_made(self, note: ChangeNote) -> None:
        """Forget a change that the service refused."""
        self._forget(note)

    def _forget(self, note: ChangeNote) -> None:
        self._notes.remove(note.id)
        self._under_way.pop(note.id, None)

    def doubtful(self, note: ChangeNote) -> None:
        """Leave a change whose answer was lost to `run`, which asks the service; nothing if it is settled already."""
        if self._under_way.pop(note.id, None) is not None:
            self._in_doubt()[note.id] = note

    async def run(self) -> None:
        """Settle the notes that a crash or a failure left, forever."""
        told: set[str] = set()
        while True:
            reasons = await self._turn()
            for why in reasons - told:  # once for each, not every few seconds
                self._journal("blob.not_settled", why=why)
            told = reasons
            await self._wall.sleep_until(self._wall.now() + RECOVER_NS)

    async def _turn(self) -> set[str]:
        """Settle what can be settled; the reasons why some cannot."""
        try:
            left = list(self._in_doubt().values())
        except OSError as error:
            return {str(error)}
        reasons = set()
        for note in left:
            try:
                await self._settle(note)
            except UNSETTLED as error:
                reasons.add(str(error))
        return reasons

    def _in_doubt(self) -> dict[str, ChangeNote]:
        if self._left is None:
            self._left = {note.id: note for note in self._notes.left()}
        return self._left

    async def _settle(self, note: ChangeNote) -> None:
        """Report a change if the service made it and its event is not in the log; a failure leaves the note."""
        async with self._settling:
            left = self._in_doubt()
            if note.id not in left:
                return
            topics = await self._accounts.topics(note.change.account)
            facts = await self._service.look(note.change) if topics else None
            if topics and _was_made(note, facts):
                left_out = [topic for topic in topics if not await self._is_stored(topic, note.id)]
                await self._store(note, self._next_number(), left_out, {}, note.facts or facts)
                self._journal("blob.found_again", api=note.change.api, topics=len(left_out))
            self._notes.remove(note.id)
            del left[note.id]

    def _next_number(self) -> int:
        """The next sequencer. After a restart it goes on by the clocks; the service's was not set back meanwhile."""
        self._sequencer = max(self._sequencer + 1, self._wall.now(), self._clock.now())
        return self._sequencer

    async def _store(
        self, note: ChangeNote, number: int, topics: list[Topic], answer: Mapping[str, str], facts: BlobFacts | None
    ) -> None:
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
    """Whether the blob, as it is now, shows that a change was made.

    The service dates a blob in whole seconds of its own clock; reckoned in ours, that is up to one second too early.
    """
    if note.change.event_type == BLOB_DELETED:
        return facts is None and note.facts is not None
    return facts is not None and facts.modified_s >= note.at // SECOND - 1
