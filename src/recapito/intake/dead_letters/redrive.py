"""Redriving and purging dead letters, a bounded number in each call; what a call redrives is one commit.

A redriven event is a new delivery to its subscription, past its filter: a segment of the topic's log that only that
subscription takes. The mark that a letter was redriven is written in the same commit, so that neither a crash nor a
second call redrives it twice, and what was not redriven is still there.
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
from recapito.domain.events.event_grid import domain_topic_name
from recapito.domain.events.segment import Publish, StampedEvent, pack
from recapito.domain.filters.filter import TAKE_NONE
from recapito.domain.instant import SECOND
from recapito.domain.resources.topic import TopicKind
from recapito.errors import InvalidInput
from recapito.intake.dead_letters.search import KIND, DeadLetterQuery, DeadLetterSearch, File, Name, Origin, Redriven
from recapito.observability.journal import Journal

_encode_marks = msgspec.json.Encoder().encode


class Progress(msgspec.Struct, rename="camel"):
    """What one call has done. `next` is where the next one goes on; None when there is no more.

    `selected` counts what is meant; `kept` are files that stay because not all of their letters are meant.
    """

    selected: int = 0
    done: int = 0
    refused: int = 0
    kept: int = 0
    problems: list[str] = []
    next: str | None = None

    def refuse(self, what: object, why: str, count: int = 1) -> None:
        """Count what can not be done, and say why of the first few."""
        self.refused += count
        if len(self.problems) < limits.LETTER_PROBLEMS:
            self.problems = [*self.problems, f"{what}: {why}"]


class Redriver:
    """Sends dead letters again, or removes them. `wall` paces calls by real time; `new_name` names a redrive."""

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
        self._one_at_a_time = asyncio.Lock()

    async def redrive(
        self, selection: DeadLetterQuery, after: Name | None, limit: int, rate: int | None = None, dry_run: bool = False
    ) -> Progress:
        """Redrive at most `limit` letters that are meant and were not redriven, at most `rate` of them a second."""
        started_at, progress = self._wall.now(), Progress()
        if rate is not None:
            limit = min(limit, rate * limits.REDRIVE_TURN_S)
        async with self._one_at_a_time:
            batch = await self._choose(selection._replace(redriven=False), after, limit, progress)
            if not dry_run and (restored := [one for one in map(partial(_restore, progress), batch) if one.events]):
                self._check_open()
                await self._append(restored, self._new_name(), progress)
        if rate is not None:
            await self._wall.sleep_until(started_at + progress.done * SECOND // rate)
        return progress

    async def _choose(
        self, selection: DeadLetterQuery, after: Name | None, limit: int, progress: Progress
    ) -> list["_Chosen"]:
        """The letters that one commit redrives: as many as are wanted and fit into a segment's size."""
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

    async def purge(
        self, selection: DeadLetterQuery, after: Name | None, limit: int, dry_run: bool = False
    ) -> Progress:
        """Remove the files of which all letters are meant; a file of which only some are meant stays whole."""
        progress, read = Progress(), 0
        async with self._one_at_a_time, aclosing(self.letters.walk(selection, after)) as files:
            async for file, first in files:
                read += 1
                if first:  # behind a name of the last call: its file was dealt with whole
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
        """Append what was restored, with the marks that it was, in one commit."""
        now = self._clock.now()
        segments = [list(one.segments(now)) for one in batch]
        marks = [one.mark(now, name) for one in batch]
        try:
            positions = iter(await self._log.append_marked([*chain(*segments)], KIND, marks))
        except KeyError:  # a topic was deleted, which must not keep the others from theirs
            if len(batch) == 1:
                progress.refuse(batch[0].file.path, "the topic was deleted", len(batch[0].events))
                return
            for one in batch:
                await self._append([one], name, progress)
            return
        finally:
            self._on_append()  # also after a failure: it may be stored all the same
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
    file: File
    places: list[int]


class _Restored(NamedTuple):
    """Events of a file, by the places of their letters."""

    file: File
    events: dict[int, StampedEvent]

    def segments(self, now: int) -> Iterator[NewSegment]:
        """What is appended: for the subscription alone, with the file that it comes from."""
        topic, only = self.file.origin.topic.id, self.file.origin.subscription.id
        for part in _parts(list(self.events.values())):
            yield NewSegment(topic, len(part), *pack([Publish(now, part)], only, self.file.key))

    def mark(self, now: int, name: str) -> Document:
        """What says that this was done."""
        return Document(self.file.key, _encode_marks([*self.file.marks, Redriven(now, name, list(self.events))]))


def _restore(progress: Progress, chosen: _Chosen) -> _Restored:
    """The events of the letters that were chosen; those that are none are told of."""
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


def _meant(file: File, selection: DeadLetterQuery, progress: Progress, first: int = 0) -> list[int]:
    if file.problem is not None:
        progress.refuse(file.name(0), file.problem)
        return []
    return file.selected(selection, first)


def _restore_one(letter: DeadLetter, origin: Origin) -> StampedEvent:
    domain_topic = ""
    if origin.topic.kind is TopicKind.DOMAIN:
        domain_topic = origin.subscription.domain_topic or domain_topic_name(letter.topic)
    return restore(letter, origin.topic.input_schema, domain_topic)


def _parts(events: list[StampedEvent]) -> Iterator[list[StampedEvent]]:
    """Events in runs that fit into a segment each."""
    part: list[StampedEvent] = []
    size = 0
    for event in events:
        size += len(event.body)
        if part and (len(part) >= limits.SEGMENT_EVENTS or size > limits.SEGMENT_BYTES):
            yield part
            part, size = [], len(event.body)
        part.append(event)
    yield part
