"""Redriving and purging dead letters, a bounded number in each call; one redrive call is one commit. Resending events.

A redriven event is a new delivery to its subscription, past its filter: a segment of the topic's log that only that
subscription takes. The mark that a letter was redriven is written in the same commit, so that neither a crash nor a
second call redrives it twice, and letters that were not redriven remain. An event of the log is resent in the same
way, as often as it is asked for: its segment names the place that it comes from, and there is no letter to mark.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import aclosing
from functools import partial
from itertools import chain
from typing import NamedTuple

import msgspec

from recapito.clock import Clock
from recapito.contracts.log import Log, NewSegment
from recapito.contracts.registry import Document
from recapito.domain import limits
from recapito.domain.dead_letter.parser import DeadLetter, restore
from recapito.domain.delivery.delivery import DeliveryId
from recapito.domain.events.event_grid import domain_topic_name
from recapito.domain.events.segment import Publish, StampedEvent, pack, resend_origin
from recapito.domain.filters.filter import TAKE_NONE
from recapito.domain.instant import SECOND
from recapito.domain.resources.subscription import Subscription
from recapito.domain.resources.topic import TopicKind
from recapito.errors import Conflict, InvalidInput, NotFound
from recapito.intake.dead_letters.search import (
    KIND,
    DeadLetterQuery,
    DeadLetterSearch,
    LetterFile,
    LetterOrigin,
    Name,
    Redriven,
)
from recapito.observability.journal import Journal

_encode_marks = msgspec.json.Encoder().encode


class Progress(msgspec.Struct, rename="camel"):
    """The result of one call. `next` is the name after which the next call continues; None at the end.

    `selected` counts the letters that the query takes; `kept` counts files that stay because the query takes only some
    of their letters.
    """

    selected: int = 0
    done: int = 0
    refused: int = 0
    kept: int = 0
    problems: list[str] = []
    next: str | None = None

    def refuse(self, name: object, reason: str, count: int = 1) -> None:
        """Count letters that cannot be redriven, with the reasons of the first few."""
        self.refused += count
        if len(self.problems) < limits.LETTER_PROBLEMS:
            self.problems = [*self.problems, f"{name}: {reason}"]


class ResendOrder(NamedTuple):
    """An event of the log, at a place of its topic, and the subscription that gets it again."""

    topic: int
    subscription: Subscription
    place: DeliveryId
    event: StampedEvent


class Redriver:
    """Sends dead letters again, or removes them.

    log: the log to append to.
    letters: finds dead letters and their marks.
    clock: the service's clock, for the time of publishing.
    wall: real time, which paces calls with a rate.
    check_open: raises Busy while intake takes no events.
    on_append: called after each commit, and after one that failed: it may be stored nevertheless.
    new_name: returns a new name for a redrive.
    journal: gets one line for each file.
    """

    def __init__(
        self,
        log: Log,
        letters: DeadLetterSearch,
        clock: Clock,
        wall: Clock,
        check_open: Callable[[], None],
        on_append: Callable[[], None],
        new_name: Callable[[], str],
        journal: Journal,
    ) -> None:
        self._log = log
        self.letters = letters
        self._clock = clock
        self._wall = wall
        self._check_open = check_open
        self._on_append = on_append
        self._new_name = new_name
        self._journal = journal
        self._lock = asyncio.Lock()

    async def redrive(
        self, selection: DeadLetterQuery, after: Name | None, limit: int, rate: int | None = None, dry_run: bool = False
    ) -> Progress:
        """Redrive at most `limit` letters that were not redriven before, at most `rate` of them per second."""
        started_at, progress = self._wall.now(), Progress()
        if rate is not None:
            limit = min(limit, rate * limits.REDRIVE_TURN_S)
        async with self._lock:
            batch = await self._choose(selection._replace(redriven=False), after, limit, progress)
            if not dry_run and (restored := [file for file in map(partial(_restore, progress), batch) if file.events]):
                self._check_open()
                await self._append(restored, self._new_name(), progress)
        if rate is not None:
            await self._wall.sleep_until(started_at + progress.done * SECOND // rate)
        return progress

    async def redrive_one(self, name: Name) -> Progress:
        """Redrive the letter of that name, unless it was redriven before."""
        progress = Progress()
        async with self._lock:
            file = await self.letters.find(name)
            if name.place in file.redriven:
                raise Conflict("AlreadyRedriven", "This dead letter was redriven already.")
            progress.selected = 1
            restored = _restore(progress, _Chosen(file, [name.place]))
            if restored.events:
                self._check_open()
                await self._append([restored], self._new_name(), progress)
        return progress

    async def _choose(
        self, selection: DeadLetterQuery, after: Name | None, limit: int, progress: Progress
    ) -> list["_Chosen"]:
        """The letters that one commit redrives: at most `limit`, and as many as fit into a segment."""
        batch: list[_Chosen] = []
        size = read = 0
        async with aclosing(self.letters.walk(selection, after)) as files:
            async for file, first in files:
                read += 1
                places = _meant(file, selection, progress, first)[: limit - progress.selected]
                progress.selected += len(places)
                size += sum(len(file.letters[place].record) for place in places)
                if places:
                    batch.append(_Chosen(file, places))
                if progress.selected >= limit or size >= limits.SEGMENT_BYTES or read >= limits.LETTER_FILES_READ:
                    progress.next = str(file.name(places[-1] if places else len(file.letters)))
                    break
        return batch

    async def resend(self, order: ResendOrder) -> int:
        """Append an event once more, for one subscription past its filter, and return its new position."""
        if order.subscription.filter == TAKE_NONE:
            raise InvalidInput("NoConsent", "The endpoint has not consented to its subscription.", "subscriptionId")
        self._check_open()
        origin = resend_origin(order.place.position, order.place.offset)
        packed = pack([Publish(self._clock.now(), [order.event])], order.subscription.id, origin)
        try:
            (position,) = await self._log.append_marked([NewSegment(order.topic, 1, *packed)], KIND, [])
        except KeyError:
            raise NotFound("TopicNotFound", "The topic was deleted.", "topic") from None
        finally:
            self._on_append()  # also after a failure: it may be stored nevertheless
        self._journal(
            "event.resent", subscription=order.subscription.name, id=order.event.id, origin=origin, position=position
        )
        return position

    async def purge(
        self, selection: DeadLetterQuery, after: Name | None, limit: int, dry_run: bool = False
    ) -> Progress:
        """Remove the files of which the query takes all letters; a file of which it takes only some stays whole."""
        progress, read = Progress(), 0
        async with self._lock, aclosing(self.letters.walk(selection, after)) as files:
            async for file, first in files:
                read += 1
                if first:  # the last call ended in this file, and dealt with all of it
                    continue
                places = _meant(file, selection, progress)
                progress.selected += len(places)
                whole = bool(places) and len(places) == len(file.letters)
                if whole and not dry_run:
                    await self.letters.remove(file)
                    progress.done += len(places)
                    self._journal("deadletter.purged", path=file.path, events=len(places))
                progress.kept += bool(places) and not whole
                if progress.selected >= limit or read >= limits.LETTER_FILES_READ:
                    progress.next = str(file.name(len(file.letters)))
                    break
        return progress

    async def _append(self, batch: list["_Restored"], name: str, progress: Progress) -> None:
        """Append restored events and their marks in one commit."""
        now = self._clock.now()
        segments = [list(file.segments(now)) for file in batch]
        marks = [file.mark(now, name) for file in batch]
        try:
            positions = iter(await self._log.append_marked([*chain(*segments)], KIND, marks))
        except KeyError:  # a topic was deleted, which must not hinder the others
            if len(batch) == 1:
                progress.refuse(batch[0].file.path, "the topic was deleted", len(batch[0].events))
                return
            for restored in batch:
                await self._append([restored], name, progress)
            return
        finally:
            self._on_append()  # also after a failure: it may be stored nevertheless
        for (file, events), own in zip(batch, segments, strict=True):
            progress.done += len(events)
            self._journal(
                "deadletter.redriven",
                redrive=name,
                topic=file.origin.topic.name,
                subscription=file.origin.subscription.name,
                path=file.path,
                events=len(events),
                positions=[next(positions) for _ in own],
            )


class _Chosen(NamedTuple):
    file: LetterFile
    places: list[int]


class _Restored(NamedTuple):
    """Events of a file, by the places of their letters."""

    file: LetterFile
    events: dict[int, StampedEvent]

    def segments(self, now: int) -> Iterator[NewSegment]:
        """The segments to append: for the one subscription only, with the key of their file."""
        topic, only = self.file.origin.topic.id, self.file.origin.subscription.id
        for part in _parts(list(self.events.values())):
            yield NewSegment(topic, len(part), *pack([Publish(now, part)], only, self.file.key))

    def mark(self, now: int, name: str) -> Document:
        """The mark of the file, with this redrive added."""
        return Document(self.file.key, _encode_marks([*self.file.marks, Redriven(now, name, list(self.events))]))


def _restore(progress: Progress, chosen: _Chosen) -> _Restored:
    """The events of the chosen letters; a letter without a readable event is refused."""
    file, places = chosen
    restored = _Restored(file, {})
    if file.origin.subscription.filter == TAKE_NONE:
        progress.refuse(file.name(places[0]), "the endpoint has not consented to its subscription", len(places))
        return restored
    for place in places:
        try:
            restored.events[place] = _restore_one(file.letters[place], file.origin)
        except InvalidInput as error:
            progress.refuse(file.name(place), error.message)
    return restored


def _meant(file: LetterFile, selection: DeadLetterQuery, progress: Progress, first: int = 0) -> list[int]:
    if file.problem is not None:
        progress.refuse(file.name(0), file.problem)
        return []
    return file.selected(selection, first)


def _restore_one(letter: DeadLetter, origin: LetterOrigin) -> StampedEvent:
    domain_topic = ""
    if origin.topic.kind is TopicKind.DOMAIN:
        domain_topic = origin.subscription.domain_topic or domain_topic_name(letter.topic)
    return restore(letter, origin.topic.input_schema, domain_topic)


def _parts(events: list[StampedEvent]) -> Iterator[list[StampedEvent]]:
    """Events in runs, each of which fits into a segment."""
    part: list[StampedEvent] = []
    size = 0
    for event in events:
        size += len(event.body)
        if part and (len(part) >= limits.SEGMENT_EVENTS or size > limits.SEGMENT_BYTES):
            yield part
            part, size = [], len(event.body)
        part.append(event)
    yield part
