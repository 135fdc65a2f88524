"""Dead letters in the vaults: walked subscription by subscription, file by file, and never held all at once.

A letter is named by its subscription's id, its file's path and its place in the file; walks go in that order, so the
next walk starts at the name of the last letter. Redriven letters have a mark in the registry, one per file.
"""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncGenerator
from contextlib import aclosing
from itertools import islice
from typing import NamedTuple

import msgspec

from recapito.contracts.registry import Registry
from recapito.contracts.vault import Vault, VaultUnavailable
from recapito.domain import limits
from recapito.domain.dead_letter.parser import DeadLetter, hour_of, read_dead_letters
from recapito.domain.instant import HOUR
from recapito.domain.resources.subscription import Subscription
from recapito.domain.resources.topic import Topic, TopicKind
from recapito.errors import Busy, InvalidInput, NotFound, RecordDamaged

KIND = "redriven"
PAGE = 100
WALKED = 1000  # subscriptions read in one page
UNAVAILABLE_RETRY_S = 30
NOWHERE = 0  # no topic has this id
DAMAGED = b"damaged"  # stands for marks that cannot be read


class Redriven(msgspec.Struct, frozen=True, array_like=True):
    """The mark of letters of a file that were redriven: when, under which name, and their places in the file."""

    at: int
    redrive: str
    places: list[int]


class DeadLetterQuery(NamedTuple):
    """Selects letters; None selects all. Times are those of the hours in which files were written.

    Names and types compare without case; `subject` is a prefix; `redriven` selects letters that were redriven, or were
    not.
    """

    topic: str | None = None
    subscription: str | None = None
    since: int | None = None
    until: int | None = None
    reason: str | None = None
    event_type: str | None = None
    subject: str | None = None
    redriven: bool | None = None

    def takes_subscription(self, topic: Topic, subscription: Subscription) -> bool:
        """Whether the query may take letters of this subscription."""
        return all(
            wanted is None or wanted.lower() == name.lower()
            for wanted, name in ((self.topic, topic.name), (self.subscription, subscription.name))
        )

    def takes_path(self, path: str) -> bool:
        """Whether the query may take letters of this file."""
        hour = hour_of(path)
        if hour is None:
            return False
        return (self.since is None or self.since < hour + HOUR) and (self.until is None or hour < self.until)

    def takes(self, letter: DeadLetter, redriven: bool) -> bool:
        """Whether the query takes a letter, by the letter's own fields."""
        return (
            (self.reason is None or self.reason.lower() == letter.reason.lower())
            and (self.event_type is None or self.event_type.lower() == letter.type.lower())
            and (self.subject is None or letter.subject.startswith(self.subject))
            and (self.redriven is None or self.redriven is redriven)
        )


class Name(NamedTuple):
    subscription: int
    path: str
    place: int

    def __str__(self) -> str:
        return f"{self.subscription}/{self.path}/{self.place}"


def parse_name(text: str) -> Name:
    """The name in a text. NotFound if the text is not a name."""
    id, _, rest = text.partition("/")
    path, _, place = rest.rpartition("/")
    if not (id.isdecimal() and place.isdecimal() and hour_of(path) is not None and len(id) < 19 and len(place) < 10):
        raise NotFound("ResourceNotFound", "There is no dead letter of this name.")
    return Name(int(id), path, int(place))


class LetterOrigin(NamedTuple):
    """A subscription with dead letters. `shared`: another subscription of that name writes to the same container."""

    topic: Topic
    subscription: Subscription
    container: str
    shared: bool

    @property
    def folder(self) -> str:
        """The first part of the paths of its files."""
        return self.subscription.name.upper()

    @property
    def prefix(self) -> str:
        return f"{self.folder}/"

    def owns(self, letter: DeadLetter) -> bool:
        """Whether a letter is of this subscription. Where names are shared, only the letter's topic can tell."""
        if not self.shared:
            return True
        domain_topic = self.subscription.domain_topic
        own = f"{self.topic.resource_id}/topics/{domain_topic}" if domain_topic else self.topic.resource_id
        source = None if self.topic.source is None else self.topic.source.resource_id
        named = letter.topic.lower()
        return any(named == id.lower() or named.startswith(f"{id.lower()}/") for id in (own, source) if id)


class LetterFile(NamedTuple):
    """One file of dead letters. `problem` is the reason why it cannot be read."""

    origin: LetterOrigin
    path: str
    letters: list[DeadLetter]
    marks: list[Redriven]
    problem: str | None = None

    @property
    def key(self) -> str:
        """The key of its mark."""
        return mark_key(self.origin.container, self.path)

    @property
    def redriven(self) -> dict[int, Redriven]:
        """The marks of redriven letters, by the places of the letters."""
        return {place: mark for mark in self.marks for place in mark.places}

    def name(self, place: int) -> Name:
        return Name(self.origin.subscription.id, self.path, place)

    def selected(self, selection: DeadLetterQuery, first: int = 0) -> list[int]:
        """The places of the letters that the query takes, from `first` on."""
        redriven = self.redriven
        return [
            place
            for place, letter in enumerate(self.letters[first:], first)
            if self.origin.owns(letter) and selection.takes(letter, place in redriven)
        ]


class _Writer(NamedTuple):
    """A subscription with a dead-letter destination, and the folder of its files."""

    id: int
    topic: int
    container: str
    folder: str


class _Writers(NamedTuple):
    """The writers by id, in the order of ids, and how many write to each folder, at a number of changes."""

    changes: int
    by_id: dict[int, _Writer]
    folders: Counter[tuple[str, str]]


_decode_marks = msgspec.json.Decoder(list[Redriven]).decode


class DeadLetterSearch:
    """Finds dead letters in a vault. Raises Busy, with the reason, while the vault cannot be reached.

    The registry must be the object by which intake writes: subscriptions are read again only after a change of it.
    `shares`: other registries may have subscriptions of the same names that write to the same containers.
    """

    def __init__(self, registry: Registry, vault: Vault, shares: bool = False) -> None:
        self._registry = registry
        self._vault = vault
        self._shares = shares
        self._writers = _Writers(-1, {}, Counter())

    async def walk(
        self, selection: DeadLetterQuery, after: Name | None = None
    ) -> AsyncGenerator[tuple[LetterFile, int], None]:
        """Files that may have letters for the query, each with the place to start at, after the last letter seen.

        A caller that stops before the end must close the generator.
        """
        async with aclosing(self._origins(selection, 0 if after is None else after.subscription)) as origins:
            async for origin in origins:
                seen = after if after is not None and after.subscription == origin.subscription.id else None
                async with aclosing(self._files(origin, selection, seen)) as files:
                    async for file in files:
                        yield file

    async def _files(
        self, origin: LetterOrigin, selection: DeadLetterQuery, seen: Name | None
    ) -> AsyncGenerator[tuple[LetterFile, int], None]:
        """The files of one subscription, as `walk` yields them."""
        if seen is not None and selection.takes_path(seen.path):
            file = await self._open(origin, seen.path, await self._marks_or_damage(origin, seen.path))
            if file is not None and seen.place + 1 < len(file.letters):
                yield file, seen.place + 1
        path = "" if seen is None else seen.path
        while paths := await self._list(origin, path):
            marks = await self._marks(origin, path or origin.prefix, paths[-1])
            path = paths[-1]
            taken = [(each, marks.get(each)) for each in paths if selection.takes_path(each)]
            async with aclosing(self._read_ahead(origin, taken)) as files:
                async for file in files:
                    yield file, 0

    async def _read_ahead(
        self, origin: LetterOrigin, paths: list[tuple[str, bytes | None]]
    ) -> AsyncGenerator[LetterFile, None]:
        """Files in order, read further ahead with each file, so that a caller that takes one file reads no other."""
        reading: deque[asyncio.Task[LetterFile | None]] = deque()
        left, ahead = iter(paths), 1
        try:
            while True:
                for path, marks in islice(left, ahead - len(reading)):
                    reading.append(asyncio.create_task(self._open(origin, path, marks)))
                if not reading:
                    return
                file = await reading.popleft()
                if file is not None:
                    yield file
                ahead = min(ahead * 2, limits.LETTER_READS)
        finally:
            for task in reading:
                task.cancel()
            await asyncio.gather(*reading, return_exceptions=True)

    async def find(self, name: Name) -> LetterFile:
        """The file of a letter. NotFound if the letter does not exist."""
        writers = await self._read_writers()
        writer = writers.by_id.get(name.subscription)
        topic = None if writer is None else await self._topic(writer.topic)
        origin = None if writer is None or topic is None else await self._origin(writer, topic, writers)
        if origin is not None and name.path.startswith(origin.prefix):
            file = await self._open(origin, name.path, await self._marks_of(origin, name.path))
            if file is not None and name.place < len(file.letters) and origin.owns(file.letters[name.place]):
                return file
        raise NotFound("ResourceNotFound", "There is no dead letter of this name.")

    async def _marks_of(self, origin: LetterOrigin, path: str) -> bytes | None:
        return await self._registry.document(KIND, mark_key(origin.container, path))

    async def _marks_or_damage(self, origin: LetterOrigin, path: str) -> bytes | None:
        try:
            return await self._marks_of(origin, path)
        except RecordDamaged:
            return DAMAGED

    async def _marks(self, origin: LetterOrigin, after: str, last: str) -> dict[str, bytes]:
        """The marks of the files after a path, up to the last one, by path: one read for many files.

        The store does not return damaged marks; DAMAGED stands for them, so that they do not count as missing.
        """
        marks: dict[str, bytes] = {}
        start, end = mark_key(origin.container, ""), mark_key(origin.container, last)
        key = start + after
        while page := await self._registry.documents(KIND, key, PAGE):
            marks |= {mark.key.removeprefix(start): mark.content for mark in page if mark.key <= end}
            key = page[-1].key
            if key >= end:
                break
        damaged = [
            record.columns.decode() for record in await self._registry.damaged_records() if record.table == "document"
        ]
        prefix = f"{KIND} {start}"
        return marks | {key.removeprefix(prefix): DAMAGED for key in damaged if key.startswith(prefix)}

    async def remove(self, file: LetterFile) -> None:
        """Remove a file, and then its mark: a letter without its mark could be redriven twice."""
        try:
            await self._vault.delete(file.origin.container, file.path)
        except VaultUnavailable as error:
            raise Busy(str(error), UNAVAILABLE_RETRY_S) from None
        await self._registry.delete_document(KIND, file.key)

    async def _origins(self, selection: DeadLetterQuery, first: int) -> AsyncGenerator[LetterOrigin, None]:
        only = await self._only_topic(selection)
        if only == NOWHERE:
            return
        writers = await self._read_writers()
        folders: dict[str, frozenset[str]] = {}
        topics: dict[int, Topic | None] = {}
        for writer in writers.by_id.values():
            if writer.id < first or only not in (None, writer.topic):
                continue
            if selection.subscription is not None:
                if selection.subscription.upper() != writer.folder:
                    continue
            elif not await self._has_folder(writer, folders):
                continue
            if writer.topic not in topics:
                topics = {writer.topic: await self._topic(writer.topic)}
            topic = topics[writer.topic]
            origin = None if topic is None else await self._origin(writer, topic, writers)
            if origin is not None and selection.takes_subscription(origin.topic, origin.subscription):
                yield origin

    async def _origin(self, writer: _Writer, topic: Topic, writers: _Writers) -> LetterOrigin | None:
        """The origin of a writer; None if it was deleted or moved meanwhile, or if its record is damaged."""
        try:
            subscription = await self._registry.subscription_by_id(writer.id)
        except RecordDamaged:
            return None
        if subscription is None or subscription.deleted_position is not None:
            return None
        if subscription.dead_letter is None or subscription.dead_letter.container != writer.container:
            return None
        shared = self._shares or writers.folders[writer.container, writer.folder] > 1
        return LetterOrigin(topic, subscription, writer.container, shared)

    async def _topic(self, id: int) -> Topic | None:
        """A topic; one whose record is damaged is passed over, so that the letters of others are found."""
        try:
            return await self._registry.topic_by_id(id)
        except RecordDamaged:
            return None

    async def _only_topic(self, selection: DeadLetterQuery) -> int | None:
        """The id of the only topic of the query's name; None if the query has none, or several kinds have it."""
        if selection.topic is None:
            return None
        topics = [await self._registry.topic(selection.topic, kind) for kind in TopicKind]
        ids = [topic.id for topic in topics if topic is not None]
        return None if len(ids) > 1 else next(iter(ids), NOWHERE)

    async def _read_writers(self) -> _Writers:
        changes = self._registry.changes
        if self._writers.changes != changes:
            self._writers = await self._read_all(changes)  # a change meanwhile makes the number another one
        return self._writers

    async def _read_all(self, changes: int) -> _Writers:
        by_id: dict[int, _Writer] = {}
        after = 0
        while page := await self._registry.subscriptions(None, after, WALKED):
            for one in page:
                if one.deleted_position is None and one.dead_letter is not None:
                    by_id[one.id] = _Writer(one.id, one.topic, one.dead_letter.container, one.name.upper())
            after = page[-1].id
        return _Writers(changes, by_id, Counter((writer.container, writer.folder) for writer in by_id.values()))

    async def _has_folder(self, writer: _Writer, folders: dict[str, frozenset[str]]) -> bool:
        """Whether there may be files: most subscriptions have none, and listing one costs a request."""
        if writer.container not in folders:
            try:
                folders[writer.container] = await self._vault.folders(writer.container)
            except VaultUnavailable as error:
                if not error.missing:
                    raise Busy(str(error), UNAVAILABLE_RETRY_S) from None
                folders[writer.container] = frozenset()
        return writer.folder in folders[writer.container]

    async def _list(self, origin: LetterOrigin, after: str) -> list[str]:
        try:
            return await self._vault.paths(origin.container, origin.prefix, after, limits.LETTER_FILES)
        except VaultUnavailable as error:
            if error.missing:  # no dead letter has been written there yet
                return []
            raise Busy(str(error), UNAVAILABLE_RETRY_S) from None

    async def _open(self, origin: LetterOrigin, path: str, marks: bytes | None) -> LetterFile | None:
        try:
            content = await self._vault.read(origin.container, path)
        except VaultUnavailable as error:
            if error.missing:
                return None
            raise Busy(str(error), UNAVAILABLE_RETRY_S) from None
        if content is None:
            return None
        file = LetterFile(origin, path, [], [])
        if marks == DAMAGED:
            return file._replace(problem="the record of what was redriven from it is damaged")
        try:
            return file._replace(
                letters=read_dead_letters(content), marks=[] if marks is None else _decode_marks(marks)
            )
        except InvalidInput as error:
            return file._replace(problem=error.message)


def mark_key(container: str, path: str) -> str:
    """The key of a file's mark: marks lie in the order of their files."""
    return f"{container}:{path}"
