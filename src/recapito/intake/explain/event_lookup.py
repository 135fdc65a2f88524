"""Finding an event by its id: in history if it was attempted, and in the logs, newest first, in slices, up to a bound.

An id may have been published more than once, and an event may have been redriven: each time has a place of its own.
"""

from collections.abc import AsyncIterator, Iterable
from typing import NamedTuple

import msgspec

from recapito.contracts.history import HistoryReader, KeptAttempt
from recapito.contracts.log import EntryKind, Log
from recapito.contracts.registry import Registry
from recapito.domain import limits
from recapito.domain.cluster.partition import silent_nodes
from recapito.domain.delivery.delivery import DeliveryId
from recapito.domain.events.segment import Segment
from recapito.domain.filters.explanation import FilteredEvent
from recapito.domain.history.attempt import AttemptQuery
from recapito.domain.resources.topic import Topic, TopicKind
from recapito.errors import StoreFailed

PAGE = 100
ALL = 1 << 62  # above every position


class LoggedEvent(NamedTuple):
    """An event in the log; `only` is the one subscription that a redriven or resent event is for.

    `origin` is the file of dead letters that it was redriven from, the place that it was resent from, or
    the position that it was replayed from.
    """

    seen: FilteredEvent
    published_at: int
    only: int = 0
    origin: str = ""
    data_version: str = ""


class FoundEvent(NamedTuple):
    """An event's topic, its places in the log, newest first, and its attempts in history, oldest first."""

    topic: int
    places: list[DeliveryId]
    kept: list[KeptAttempt]
    notes: list[str]


class EventLookup:
    """Finds events in history and logs. The notes of a result name what could not be read."""

    def __init__(self, log: Log, registry: Registry, history: HistoryReader) -> None:
        self._log = log
        self._registry = registry
        self._history = history

    async def find(self, id: str, topic: Topic | None) -> FoundEvent | None:
        """The event of that id, in one topic, or in the topic that attempted it last."""
        notes: list[str] = []
        kept = [
            entry for entry in await self._kept(id, notes) if topic is None or entry.attempt.label.topic == topic.id
        ]
        if not kept:
            return await self._find_in_logs(id, topic, notes)
        chosen = kept[-1].attempt.label
        others = {entry.attempt.label.topic_name for entry in kept if entry.attempt.label.topic != chosen.topic}
        if others:
            notes.append(f"Topics {', '.join(sorted(others))} have events of this id too: ask for each by its name.")
        kept = [entry for entry in kept if entry.attempt.label.topic == chosen.topic]
        places = {event.identity for entry in kept for event in entry.attempt.events() if event.id == id}
        budget = _Budget()
        async for place in self._search(chosen.topic, id, max(places).position, budget):
            places.add(place)
        return FoundEvent(chosen.topic, sorted(places, reverse=True), kept, notes)

    async def segment(self, topic: int, position: int) -> Segment | None:
        """The segment at a position; None if the log no longer has it, or it is damaged."""
        try:
            entries = await self._log.read(topic, position, 1)
        except (LookupError, StoreFailed):
            return None
        if not entries or entries[0].kind is not EntryKind.SEGMENT:
            return None
        return Segment(entries[0].columns, entries[0].body)

    async def read(self, topic: int, place: DeliveryId) -> LoggedEvent | None:
        segment = await self.segment(topic, place.position)
        if segment is None:
            return None
        i = place.offset
        domain_topic = segment.domain_topics[segment.domain_topic_of[i]] if segment.domain_topics else ""
        seen = FilteredEvent(segment.type(i), segment.subjects[i], segment.event(i), domain_topic)
        version = segment.versions[segment.version_of[i]]
        return LoggedEvent(seen, segment.published_at[i], segment.only, segment.origin, version)

    async def is_damaged(self, topic: int, position: int) -> bool:
        try:
            entries = await self._log.read(topic, position, 1)
        except (LookupError, StoreFailed):
            return False
        return bool(entries) and entries[0].kind is EntryKind.DAMAGED

    async def _kept(self, id: str, notes: list[str]) -> list[KeptAttempt]:
        """The attempts of an event in history, oldest first."""
        selection, before, kept, silent = AttemptQuery(event=id), None, list[KeptAttempt](), set[str]()
        try:
            while len(kept) < limits.EXPLAINED_ATTEMPTS:
                page = await self._history.newest_first(selection, before, limits.EXPLAINED_ATTEMPTS - len(kept))
                kept += page.value
                silent |= set(page.missing)
                before = page.next
                if before is None:
                    break
            else:
                notes.append(f"Only the newest {limits.EXPLAINED_ATTEMPTS} attempts are shown.")
        except StoreFailed:
            notes.append("History cannot be read at the moment, so attempts are missing here.")
        if silent:
            notes.append(f"{silent_nodes(silent)}: attempts that were made there are missing here.")
        return kept[::-1]

    async def _find_in_logs(self, id: str, topic: Topic | None, notes: list[str]) -> FoundEvent | None:
        budget = _Budget()
        topics = await self._registry.topics("", PAGE) if topic is None else [topic]
        while topics and not budget.spent:
            for searched in topics:
                places = [place async for place in self._search(searched.id, id, 0, budget)]
                if places:
                    return FoundEvent(searched.id, sorted(places, reverse=True), [], notes)
            topics = await self._registry.topics(topics[-1].key, PAGE) if topic is None else []
        return None

    async def _search(self, topic: int, id: str, above: int, budget: "_Budget") -> AsyncIterator[DeliveryId]:
        """Places of an event in one log above a position, newest first, searched in slices."""
        below: int | None = ALL
        while below is not None and below > above + 1 and not budget.spent:
            sought = await self._log.search(topic, id.encode(), below, limits.SEARCH_SLICE)
            for position in sought.positions:
                if position > above:
                    for offset in await self._offsets(topic, position, id):
                        yield DeliveryId(position, offset)
            below = sought.below
            budget.spend(limits.SEARCH_SLICE)

    async def _offsets(self, topic: int, position: int, id: str) -> Iterable[int]:
        try:
            entries = await self._log.read(topic, position, 1)
        except (LookupError, StoreFailed):
            return []
        try:
            segment = Segment(entries[0].columns, entries[0].body)
        except msgspec.DecodeError:  # the segment is damaged
            return []
        return [i for i, other in enumerate(segment.ids) if other == id]


class _Budget(msgspec.Struct):
    """The number of entries that one search may still read."""

    entries: int = limits.SEARCH_ENTRIES

    @property
    def spent(self) -> bool:
        return self.entries <= 0

    def spend(self, entries: int) -> None:
        self.entries -= entries


async def topic_named(registry: Registry, name: str) -> Topic | None:
    """The topic of that name: a custom topic first, then a domain, then a system topic."""
    for kind in TopicKind:
        topic = await registry.topic(name, kind)
        if topic is not None:
            return topic
    return None
