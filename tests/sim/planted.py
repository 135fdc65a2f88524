"""Wrong implementations at our contracts: what the checkers must find. Each is small, silent and plausible."""

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from recapito.clock import Clock
from recapito.dispatch.dispatcher import Dispatcher
from recapito.dispatch.flight import Flight
from recapito.dispatch.late import LateExchanges
from recapito.dispatch.window import Slots
from recapito.domain.batch import Batch
from recapito.domain.cursor import Cursor
from recapito.domain.filter import TAKE_ALL
from recapito.domain.instant import SECOND
from recapito.domain.outcome import Outcome, answered
from recapito.domain.subscription import Batching, Destination, FilterSince, RetryPolicy, Subscription
from recapito.domain.topic import Topic
from recapito.intake.publisher import Publisher
from recapito.sender import Exchange, Sender
from recapito.store import Due, Group, Lane, NewSegment, Settlement
from recapito.stores.memory import MemoryDisk, MemoryLedger, MemoryLog
from recapito.vault import Vault


@dataclass
class PlantedStorage:
    """A disk in memory whose stores are wrong. `seen_by_intake` is the ledger that the janitor reads."""

    log: type[MemoryLog] = MemoryLog
    ledger: type[MemoryLedger] = MemoryLedger
    seen_by_intake: type[MemoryLedger] = MemoryLedger
    disk: MemoryDisk = field(default_factory=lambda: MemoryDisk(log_id="sim"))

    def open_log(self, write: bool) -> Any:
        return self.log(self.disk)

    def open_ledger(self, write: bool) -> Any:
        return self.ledger(self.disk) if write else self.seen_by_intake(self.disk)

    def close(self, store: Any) -> None:
        """Nothing is open."""


class ForgetfulLog(MemoryLog):
    """Says that it stored, now and then without doing so."""

    async def append(self, segments: Sequence[NewSegment]) -> list[int]:
        if self._disk.mark % 7 == 6:
            return [await self.end(segment.topic) + 1 for segment in segments]
        return await super().append(segments)


class CarelessLog(MemoryLog):
    """Stores the last byte of every body as a space."""

    async def append(self, segments: Sequence[NewSegment]) -> list[int]:
        return await super().append([segment._replace(body=segment.body[:-1] + b" ") for segment in segments])


class HastyPublisher(Publisher):
    """Answers before the commit."""

    async def publish(self, topic: Topic, events: list[Any], size: int) -> None:
        self._early = asyncio.ensure_future(super().publish(topic, events, size))
        self._early.add_done_callback(lambda task: task.cancelled() or task.exception())


class LossyLedger(MemoryLedger):
    """Loses a parked row; its counts say otherwise."""

    async def settle(self, settlements: Sequence[Settlement]) -> None:
        await super().settle(settlements)
        for settlement in settlements:
            stored = self._lanes[settlement.lane]
            if len(stored.order) > 2:
                del stored.parked[stored.order.pop()[1]]


class GenerousLedger(MemoryLedger):
    """Counts a delivery twice."""

    async def settle(self, settlements: Sequence[Settlement]) -> None:
        await super().settle(settlements)
        for settlement in settlements:
            counts = self._lanes[settlement.lane].lane.counts
            if settlement.finish:
                more = replace(counts, matched=counts.matched + 1, delivered=counts.delivered + 1)
                self._count(settlement.lane, more)


class RashLedger(MemoryLedger):
    """Moves the cursor to the end of what is finished, over what is still under way."""

    async def settle(self, settlements: Sequence[Settlement]) -> None:
        await super().settle([s._replace(cursor=_closed(s.cursor)) for s in settlements])


def _closed(cursor: Cursor) -> Cursor:
    return Cursor(cursor.finished[-1][1]) if cursor.finished else cursor


class EarlyLedger(MemoryLedger):
    """Returns rows a little before they are due."""

    async def due(self, lane: int, now: int, limit: int, at_least: int = 1) -> Due:
        return await super().due(lane, now + 5 * SECOND, limit, at_least)


class ForgetfulLedger(MemoryLedger):
    """Forgets the attempts of what it parked."""

    async def due(self, lane: int, now: int, limit: int, at_least: int = 1) -> Due:
        due = await super().due(lane, now, limit, at_least)
        rows = [replace(row, delivery=replace(row.delivery, attempts=0)) for row in due.parked]
        return due._replace(parked=rows)


class DoubtfulLedger(MemoryLedger):
    """Counts what is finished and was not there."""

    async def settle(self, settlements: Sequence[Settlement]) -> None:
        missing = [sum(identity not in self._lanes[s.lane].parked for identity in s.finish) for s in settlements]
        await super().settle(settlements)
        for settlement, count in zip(settlements, missing, strict=True):
            counts = self._lanes[settlement.lane].lane.counts
            self._count(settlement.lane, replace(counts, delivered=counts.delivered + count))


class RenamingLedger(MemoryLedger):
    """Gives a group a new name whenever it is tried."""

    def __init__(self, disk: MemoryDisk | None = None) -> None:
        super().__init__(disk)
        self._tries = 0

    async def burials_due(self, now: int, limit: int, limit_bytes: int, skip: frozenset[int]) -> Group | None:
        group = await super().burials_due(now, limit, limit_bytes, skip)
        if group is None or group.path is None:
            return group
        self._tries += 1
        if self._tries % 2:
            return group
        stored = self._lanes[group.lane]
        path, at = f"{group.path}-{self._tries}", stored.first_tried_at.pop(group.path)
        stored.path_of = {i: path if of == group.path else of for i, of in stored.path_of.items()}
        stored.first_tried_at[path] = at
        return group._replace(path=path)


class OptimisticLedger(MemoryLedger):
    """Shows the janitor cursors that are ahead of the truth."""

    async def lanes(self) -> list[Lane]:
        rows = await super().lanes()
        return [replace(row, cursor=Cursor((row.cursor.low[0] + 2, 0))) for row in rows]


class BoastfulVault:
    """Says that it wrote, every third time without doing so."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault
        self._writes = 0

    async def write(self, container: str, path: str, content: bytes) -> None:
        self._writes += 1
        if self._writes % 3:
            await self._vault.write(container, path, content)


@dataclass
class MeddlingSender:
    """Sends and answers through two functions that change what goes by."""

    sender: Sender
    request: Callable[[Batch], Batch] = lambda batch: batch
    answer: Callable[[Outcome], Outcome] = lambda outcome: outcome
    times: int = 1

    def send(self, destination: Destination, batch: Batch, answer: Callable[[Outcome], None]) -> Exchange:
        changed = self.request(batch)
        for _ in range(self.times - 1):
            self.sender.send(destination, changed, lambda outcome: None)
        return self.sender.send(destination, changed, lambda outcome: answer(self.answer(outcome)))

    async def close(self) -> None:
        await self.sender.close()


def reserialised(batch: Batch) -> Batch:
    """The same JSON, written anew."""
    return batch._replace(body=json.dumps(json.loads(batch.body)).encode())


def believing(outcome: Outcome) -> Outcome:
    """A server error taken for a success."""
    return answered(200) if outcome.status in (500, 502) else outcome


def doubting(outcome: Outcome) -> Outcome:
    """A success taken for an error."""
    return answered(500) if outcome.status == 200 else outcome


class DeafExchanges(LateExchanges):
    """Listens to nobody who is late."""

    def add(self, flight: Flight) -> None:
        super().add(flight)
        self._cut(flight)


class LeakySlots(Slots):
    """Forgets to give back what a failed request took."""

    def give_back(self, size: int) -> None:
        if self.total % 5:
            super().give_back(size)


class DrowsyDispatcher(Dispatcher):
    """Hears only every other ring."""

    def notify(self) -> None:
        self._rings = getattr(self, "_rings", 0) + 1
        if self._rings % 2:
            super().notify()


class FastClock:
    """Goes ten per cent too fast."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._start = clock.now()

    def now(self) -> int:
        return self._clock.now() + (self._clock.now() - self._start) // 10

    async def sleep_until(self, when: int) -> None:
        await self._clock.sleep_until(self._start + (when - self._start) * 10 // 11 + 2)


class MeddlingRegistry:
    """Shows dispatch other subscriptions, or other topics, than there are."""

    def __init__(
        self,
        log: Any,
        subscription: Callable[[Subscription], Subscription] = lambda subscription: subscription,
        topic: Callable[[Topic], Topic] = lambda topic: topic,
    ) -> None:
        self._log = log
        self._subscription = subscription
        self._topic = topic

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    async def subscription_by_id(self, id: int) -> Subscription | None:
        found = await self._log.subscription_by_id(id)
        return None if found is None else self._subscription(found)

    async def topic_by_id(self, id: int) -> Topic | None:
        found = await self._log.topic_by_id(id)
        return None if found is None else self._topic(found)


def larger_batches(subscription: Subscription) -> Subscription:
    """One event more than the subscriber wants."""
    batching = subscription.batching
    return replace(subscription, batching=Batching(batching.event_limit + 1, batching.preferred_kilobytes))


def no_filter(subscription: Subscription) -> Subscription:
    """Everything passes."""
    return replace(subscription, filters=(FilterSince(0, TAKE_ALL),))


def newest_filter(subscription: Subscription) -> Subscription:
    """The filter of now, for events of before too."""
    return replace(subscription, filters=(FilterSince(0, subscription.filter),))


def short_life(subscription: Subscription) -> Subscription:
    """A minute to live."""
    return replace(subscription, retry_policy=RetryPolicy(subscription.retry_policy.max_attempts, 1))


def tireless(subscription: Subscription) -> Subscription:
    """As many attempts as there may be."""
    return replace(subscription, retry_policy=RetryPolicy(30, subscription.retry_policy.ttl_minutes))


def undying(subscription: Subscription) -> Subscription:
    """Deletion goes unnoticed."""
    return replace(subscription, deleted_position=None)


def impatient(topic: Topic) -> Topic:
    """A profile that holds nothing back."""
    return replace(topic, profile="2019-05")
