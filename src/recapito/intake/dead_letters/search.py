"""Dead letters, found again: walked subscription by subscription, file by file, and never held all at once.

A letter is named by its subscription's id, its file's path and its place in the file; walks go in that order, so the
name of the last one seen is where the next walk starts. What was redriven is a mark beside the vault, one a file.
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
from recapito.errors import Busy, InvalidInput, NotFound

KIND = "redriven"
PAGE = 100
WALKED = 1000  # subscriptions read at once
UNAVAILABLE_RETRY_S = 30
NOWHERE = 0  # no topic has this id


class Redriven(msgspec.Struct, frozen=True, array_like=True):
    """That letters of a file were redriven: when, under which name, and which of the file."""

    at: int
    redrive: str
    places: list[int]


class DeadLetterQuery(NamedTuple):
    """Which letters are meant; None is any. Times are those of the hours in which files were written.

    Names and types compare without case; `subject` is how a subject begins; `redriven` is whether a letter was.
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
        """Whether letters of this subscription may be meant."""
        return all(
            wanted is None or wanted.lower() == name.lower()
            for wanted, name in ((self.topic, topic.name), (self.subscription, subscription.name))
        )

    def takes_path(self, path: str) -> bool:
        """Whether letters of this file may be meant."""
        hour = hour_of(path)
        if hour is None:
            return False
        return (self.since is None or self.since < hour + HOUR) and (self.until is None or hour < self.until)

    def takes(self, letter: DeadLetter, redriven: bool) -> bool:
        """Whether a letter is meant, as far as it says itself."""
        return (
            (self.reason is None or self.reason.lower() == letter.reason.lower())
            and (self.event_type is None or self.event_type.lower() == letter.type.lower())
            and (self.subject is None or letter.subject.startswith(self.subject))
            and (self.redriven is None or self.redriven is redriven)
        )


class Name(NamedTuple):
    """The name of a letter: its subscription's id, its file's path, its place in the file."""

    subscription: int
    path: str
    place: int

    def __str__(self) -> str:
        return f"{self.subscription}/{self.path}/{self.place}"


def parse_name(text: str) -> Name:
    """The name that a text is. NotFound if it is none."""
    id, _, rest = text.partition("/")
    path, _, place = rest.rpartition("/")
    if not (id.isdecimal() and place.isdecimal() and hour_of(path) is not None and len(id) < 19 and len(place) < 10):
        raise NotFound("ResourceNotFound", "There is no dead letter of this name.")
    return Name(int(id), path, int(place))


class Origin(NamedTuple):
    """Whose dead letters: `shared` is whether another subscription of that name writes to the same container."""

    topic: Topic
    subscription: Subscription
    container: str
    shared: bool

    @property
    def folder(self) -> str:
        """The first step of the paths of its files."""
        return self.subscription.name.upper()

    @property
    def prefix(self) -> str:
        """What the paths of its files begin with."""
        return f"{self.folder}/"

    def owns(self, letter: DeadLetter) -> bool:
        """Whether a letter is its own. Where names are shared, only events that name their topic can be told apart."""
        if not self.shared:
            return True
        domain_topic = self.subscription.domain_topic
        own = f"{self.topic.resource_id}/topics/{domain_topic}" if domain_topic else self.topic.resource_id
        source = None if self.topic.source is None else self.topic.source.resource_id
        named = letter.topic.lower()
        return any(named == one.lower() or named.startswith(f"{one.lower()}/") for one in (own, source) if one)


class File(NamedTuple):
    """One file of dead letters. `problem` says why none can be read from it."""

    origin: Origin
    path: str
    letters: list[DeadLetter]
    marks: list[Redriven]
    problem: str | None = None

    @property
    def key(self) -> str:
        """By which its mark is kept."""
        return mark_key(self.origin.container, self.path)

    @property
    def redriven(self) -> dict[int, Redriven]:
        """The places of the letters that were redriven."""
        return {place: mark for mark in self.marks for place in mark.places}

    def name(self, place: int) -> Name:
        """The name of a letter of it."""
        return Name(self.origin.subscription.id, self.path, place)

    def selected(self, selection: DeadLetterQuery, first: int = 0) -> list[int]:
        """The places of the letters that are meant, from one on."""
        redriven = self.redriven
        return [
            place
            for place, letter in enumerate(self.letters[first:], first)
            if self.origin.owns(letter) and selection.takes(letter, place in redriven)
        ]


_decode_marks = msgspec.json.Decoder(list[Redriven]).decode


class DeadLetterSearch:
    """Finds dead letters in a vault. Busy, with the reason, where the vault can not be reached."""

    def __init__(self, registry: Registry, vault: Vault) -> None:
        self._registry = registry
        self._vault = vault

    async def walk(
        self, selection: DeadLetterQuery, after: Name | None = None
    ) -> AsyncGenerator[tuple[File, int], None]:
        """Files that may hold what is meant, each with the place to start at: behind the name of the last one seen.

        Whoever does not walk to the end closes it.
        """
        folders: dict[str, frozenset[str]] = {}
        async with aclosing(self._origins(selection, 0 if after is None else after.subscription)) as origins:
            async for origin in origins:
                if selection.subscription is None and not await self._has_folder(origin, folders):
                    continue
                seen = after if after is not None and after.subscription == origin.subscription.id else None
                async with aclosing(self._files(origin, selection, seen)) as files:
                    async for file in files:
                        yield file

    async def _files(
        self, origin: Origin, selection: DeadLetterQuery, seen: Name | None
    ) -> AsyncGenerator[tuple[File, int], None]:
        """The same of one subscription."""
        if seen is not None and selection.takes_path(seen.path):
            file = await self._open(origin, seen.path, await self._marks_of(origin, seen.path))
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

    async def _read_ahead(self, origin: Origin, paths: list[tuple[str, bytes | None]]) -> AsyncGenerator[File, None]:
        """Files in their order. The more were asked for, the more are read ahead: whoever needs one reads no other."""
        reading: deque[asyncio.Task[File | None]] = deque()
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

    async def find(self, name: Name) -> File:
        """The file of a letter. NotFound if it is not there."""
        async with aclosing(self._origins(DeadLetterQuery(), name.subscription)) as origins:
            async for origin in origins:
                if origin.subscription.id != name.subscription or not name.path.startswith(origin.prefix):
                    break
                file = await self._open(origin, name.path, await self._marks_of(origin, name.path))
                if file is not None and name.place < len(file.letters) and origin.owns(file.letters[name.place]):
                    return file
        raise NotFound("ResourceNotFound", "There is no dead letter of this name.")

    async def _marks_of(self, origin: Origin, path: str) -> bytes | None:
        return await self._registry.document(KIND, mark_key(origin.container, path))

    async def _marks(self, origin: Origin, after: str, last: str) -> dict[str, bytes]:
        """The marks of the files behind a path, up to the last one, by path: one read for many files."""
        found: dict[str, bytes] = {}
        start, end = mark_key(origin.container, ""), mark_key(origin.container, last)
        key = start + after
        while page := await self._registry.documents(KIND, key, PAGE):
            found |= {one.key.removeprefix(start): one.content for one in page if one.key <= end}
            key = page[-1].key
            if key >= end:
                break
        return found

    async def remove(self, file: File) -> None:
        """Remove a file, and then what is known of it: a letter without its mark could be redriven twice."""
        try:
            await self._vault.delete(file.origin.container, file.path)
        except VaultUnavailable as error:
            raise Busy(str(error), UNAVAILABLE_RETRY_S) from None
        await self._registry.delete_document(KIND, file.key)

    async def _origins(self, selection: DeadLetterQuery, first: int) -> AsyncGenerator[Origin, None]:
        only = await self._only_topic(selection)
        if only == NOWHERE:
            return
        names = Counter([_place(one) async for one in self._subscriptions(0)])
        topics: dict[int, Topic | None] = {}
        async with aclosing(self._subscriptions(first - 1, only)) as subscriptions:
            async for subscription in subscriptions:
                if subscription.topic not in topics:
                    topics = {subscription.topic: await self._registry.topic_by_id(subscription.topic)}
                topic = topics[subscription.topic]
                if topic is not None and selection.takes_subscription(topic, subscription):
                    assert subscription.dead_letter is not None
                    shared = names[_place(subscription)] > 1
                    yield Origin(topic, subscription, subscription.dead_letter.container, shared)

    async def _only_topic(self, selection: DeadLetterQuery) -> int | None:
        """The one topic that is meant; None if several may be: each kind of topic has names of its own."""
        if selection.topic is None:
            return None
        found = [await self._registry.topic(selection.topic, kind) for kind in TopicKind]
        ids = [topic.id for topic in found if topic is not None]
        return None if len(ids) > 1 else next(iter(ids), NOWHERE)

    async def _subscriptions(self, after: int, topic: int | None = None) -> AsyncGenerator[Subscription, None]:
        """The living ones that have dead letters, of one topic or of all, in the order of their ids."""
        while page := await self._registry.subscriptions(topic, after, WALKED):
            for subscription in page:
                if subscription.deleted_position is None and subscription.dead_letter is not None:
                    yield subscription
            after = page[-1].id

    async def _has_folder(self, origin: Origin, folders: dict[str, frozenset[str]]) -> bool:
        """Whether there may be files: most subscriptions have none, and each that is listed costs a request."""
        if origin.container not in folders:
            try:
                folders[origin.container] = await self._vault.folders(origin.container)
            except VaultUnavailable as error:
                if not error.missing:
                    raise Busy(str(error), UNAVAILABLE_RETRY_S) from None
                folders[origin.container] = frozenset()
        return origin.folder in folders[origin.container]

    async def _list(self, origin: Origin, after: str) -> list[str]:
        try:
            return await self._vault.paths(origin.container, origin.prefix, after, limits.LETTER_FILES)
        except VaultUnavailable as error:
            if error.missing:  # nothing has been buried there yet
                return []
            raise Busy(str(error), UNAVAILABLE_RETRY_S) from None

    async def _open(self, origin: Origin, path: str, marks: bytes | None) -> File | None:
        try:
            content = await self._vault.read(origin.container, path)
        except VaultUnavailable as error:
            if error.missing:
                return None
            raise Busy(str(error), UNAVAILABLE_RETRY_S) from None
        if content is None:
            return None
        file = File(origin, path, [], [])
        try:
            return file._replace(
                letters=read_dead_letters(content), marks=[] if marks is None else _decode_marks(marks)
            )
        except InvalidInput as error:
            return file._replace(problem=error.message)


def mark_key(container: str, path: str) -> str:
    """By which the mark of a file is kept: marks lie in the order of their files."""
    return f"{container}:{path}"


def _place(subscription: Subscription) -> tuple[str, str]:
    assert subscription.dead_letter is not None
    return subscription.dead_letter.container, subscription.name.upper()
