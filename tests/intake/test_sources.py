"""One system topic for each source over all partitions: sources are kept for requests, and set free again."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import pytest

from recapito.clock import ManualClock
from recapito.domain import limits
from recapito.domain.cluster.partition import Partition, home_of
from recapito.domain.resources.topic import Source, TopicKind
from recapito.errors import Busy, Conflict
from recapito.intake.resources.sources import Sources
from recapito.stores.memory import MemoryLog
from tests.stores.values import new_topic

P = 2
ACCOUNT = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Storage/storageAccounts/pictures"
HOME = home_of(ACCOUNT, P)
AWAY = 1 - HOME


class Pair:
    """Two partitions that call each other directly. A `silent` one does not answer."""

    def __init__(self) -> None:
        self.clock = ManualClock(0)
        self.logs = [MemoryLog() for _ in range(P)]
        self.silent: set[int] = set()
        self.partitions = [
            Sources(self.logs[number], self.clock, Partition(number, P), PairCalls(self, number)) for number in range(P)
        ]

    async def make(self, number: int, name: str) -> None:
        """Create the system topic of the account in a partition."""
        async with self.partitions[number].creating(ACCOUNT, name):
            source = Source(ACCOUNT, "Microsoft.Storage.StorageAccounts")
            await self.logs[number].put_topic(new_topic(name, kind=TopicKind.SYSTEM, source=source))


class PairCalls:
    def __init__(self, pair: Pair, number: int) -> None:
        self._pair = pair
        self._number = number

    @property
    def others(self) -> Sequence[int]:
        return [1 - self._number]

    def _at(self, partition: int) -> Sources:
        if partition in self._pair.silent:
            raise Busy(f"Partition {partition} does not answer.")
        return self._pair.partitions[partition]

    async def find_topic(self, partition: int, source: str) -> str | None:
        return await self._at(partition).find(source)

    async def reserve(self, partition: int, source: str, name: str) -> str | None:
        return self._at(partition).reserve(source.upper(), name)

    async def release(self, partition: int, source: str, name: str) -> None:
        self._at(partition).release(source, name)


def act(story: Callable[[Pair], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(story(Pair()), 20))


@pytest.mark.parametrize("number", range(P))
def test_a_source_that_has_a_system_topic_is_refused_to_others(number: int) -> None:
    """The other partition is refused with its name, without regard to case, whichever is the home of the source."""

    async def story(pair: Pair) -> None:
        await pair.make(number, "first")
        with pytest.raises(Conflict, match="'first'"):
            await pair.make(1 - number, "second")

    act(story)


@pytest.mark.parametrize("number", range(P))
def test_while_one_is_created_no_other_is(number: int) -> None:
    """The source is kept for the first request until it ends, stored or not; then another one may have it."""

    async def story(pair: Pair) -> None:
        with pytest.raises(ZeroDivisionError):
            async with pair.partitions[number].creating(ACCOUNT, "first"):
                with pytest.raises(Conflict, match="'first'"):
                    await pair.make(1 - number, "second")
                raise ZeroDivisionError
        await pair.make(1 - number, "second")
        with pytest.raises(Conflict, match="'second'"):
            await pair.make(number, "first")

    act(story)


def test_a_source_that_is_never_set_free_is_free_after_a_minute() -> None:
    """A request whose end the home of the source did not learn of: the same name may try again, another one later."""

    async def story(pair: Pair) -> None:
        async with pair.partitions[AWAY].creating(ACCOUNT, "first"):
            pair.silent = {HOME}
        pair.silent = set()
        async with pair.partitions[AWAY].creating(ACCOUNT, "FIRST"):
            pair.silent = {HOME}
        pair.silent = set()
        with pytest.raises(Conflict, match="'FIRST'"):
            await pair.make(HOME, "second")
        pair.clock.move_to(limits.SOURCE_RESERVED_NS)
        await pair.make(HOME, "second")

    act(story)


def test_a_partition_that_does_not_answer_may_have_it() -> None:
    """Nothing is created then, and the source is kept for no one."""

    async def story(pair: Pair) -> None:
        for number in range(P):
            pair.silent = {1 - number}
            with pytest.raises(Busy):
                await pair.make(number, f"name-{number}")
        pair.silent = set()
        await pair.make(AWAY, "first")

    act(story)


def test_a_name_sets_free_only_its_own_source() -> None:
    """The end of a request that lost does not free the source of the one that has it."""

    async def story(pair: Pair) -> None:
        sources = pair.partitions[HOME]
        assert sources.reserve(ACCOUNT, "first") is None
        sources.release(ACCOUNT, "second")
        sources.release("/another", "second")
        assert sources.reserve(ACCOUNT.upper(), "second") == "first"

    act(story)
