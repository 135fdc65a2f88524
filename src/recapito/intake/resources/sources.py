"""One system topic for each source, over all partitions of a cluster.

The law: of two requests that create system topics of one source at the same moment in two partitions, one succeeds.
The home of the source's id, a partition like any other, keeps the source for the first request. Only then is every
partition asked whether it has a system topic of the source, and only when the new one is stored is the source free
again; or after a minute, if the request has ended without a word.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Protocol

from recapito.clock import Clock
from recapito.contracts.registry import Registry, system_topic_of
from recapito.domain import limits
from recapito.domain.cluster.partition import Partition, home_of
from recapito.errors import Busy, Conflict


class SourceCalls(Protocol):
    """The other partitions, each of which has `Sources` of its own. Busy: a partition does not answer."""

    @property
    def others(self) -> Sequence[int]:
        """The numbers of the other partitions."""

    async def find_topic(self, partition: int, source: str) -> str | None:
        """`Sources.find` of a partition."""

    async def reserve(self, partition: int, source: str, name: str) -> str | None:
        """`Sources.reserve` of a partition."""

    async def release(self, partition: int, source: str, name: str) -> None:
        """`Sources.release` of a partition."""


class Sources:
    """The sources of the system topics of this partition, and those that it keeps for requests, in memory.

    wall: real time, of reservations.
    """

    def __init__(self, registry: Registry, wall: Clock, partition: Partition, calls: SourceCalls) -> None:
        self._registry = registry
        self._wall = wall
        self._partition = partition
        self._calls = calls
        self._reserved: dict[str, tuple[str, int]] = {}

    async def find(self, source: str) -> str | None:
        """The name of the system topic of a source in this partition."""
        topic = await system_topic_of(self._registry, source)
        return None if topic is None else topic.name

    def reserve(self, source: str, name: str) -> str | None:
        """Keep a source for a new system topic; if it is kept for another one, return the name of that."""
        now, key = self._wall.now(), source.lower()
        self._reserved = {each: kept for each, kept in self._reserved.items() if kept[1] > now}
        holder, _ = self._reserved.get(key, (name, 0))
        if holder.lower() != name.lower():
            return holder
        self._reserved[key] = name, now + limits.SOURCE_RESERVED_NS
        return None

    def release(self, source: str, name: str) -> None:
        """Keep a source no longer, if it is kept for a system topic of this name."""
        if self._reserved.get(source.lower(), ("", 0))[0].lower() == name.lower():
            del self._reserved[source.lower()]

    @asynccontextmanager
    async def creating(self, source: str, name: str) -> AsyncIterator[None]:
        """While a system topic is created, no other partition creates one of the same source.

        Conflict if the source has one, in any other partition; Busy if one of them does not answer.
        """
        home = home_of(source, self._partition.of)
        near, calls = home == self._partition.number, self._calls
        holder = self.reserve(source, name) if near else await calls.reserve(home, source, name)
        if holder is not None:
            raise system_topic_exists(holder)
        try:
            found = await asyncio.gather(*(calls.find_topic(other, source) for other in calls.others))
            for other in found:
                if other is not None:
                    raise system_topic_exists(other)
            yield
        finally:
            if near:
                self.release(source, name)
            else:
                with suppress(Busy):
                    await calls.release(home, source, name)


def system_topic_exists(name: str) -> Conflict:
    return Conflict("SystemTopicExists", f"The source already has the system topic '{name}'.", "source")
