"""Wrong parts at our other contracts: what the checkers must find. Each is small, silent and plausible."""

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from recapito.clock import Clock
from recapito.dispatch.dispatcher import Dispatcher
from recapito.dispatch.flight import Flight
from recapito.dispatch.late import LateExchanges
from recapito.dispatch.window import Slots
from recapito.domain.batch import Batch
from recapito.domain.filter import TAKE_ALL
from recapito.domain.outcome import Outcome, answered
from recapito.domain.subscription import Batching, Destination, FilterSince, RetryPolicy, Subscription
from recapito.domain.topic import Topic
from recapito.intake.publisher import Publisher
from recapito.intake.redrive import Redriver
from recapito.sender import Exchange, Sender
from recapito.store import Document, NewSegment
from recapito.vault import Vault


class HastyPublisher(Publisher):
    """Answers before the commit."""

    async def publish(self, topic: Topic, events: list[Any], size: int) -> None:
        self._early = asyncio.ensure_future(super().publish(topic, events, size))
        self._early.add_done_callback(lambda task: task.cancelled() or task.exception())


class SlowMarkingRedriver(Redriver):
    """Marks what it redrove in a commit of its own."""

    def __init__(self, log: Any, *others: Any) -> None:
        super().__init__(_InTwoSteps(log), *others)


class _InTwoSteps:
    def __init__(self, log: Any) -> None:
        self._log = log

    async def append_marked(self, segments: Sequence[NewSegment], kind: str, marks: Sequence[Document]) -> list[int]:
        positions: list[int] = await self._log.append(segments)
        for mark in marks:
            await self._log.put_document(kind, mark.key, mark.content)
        return positions

    def __getattr__(self, verb: str) -> Any:
        return getattr(self._log, verb)


class BoastfulVault:
    """Says that it wrote, every third time without doing so."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault
        self._writes = 0

    async def write(self, container: str, path: str, content: bytes) -> None:
        self._writes += 1
        if self._writes % 3:
            await self._vault.write(container, path, content)

    def __getattr__(self, verb: str) -> Any:
        return getattr(self._vault, verb)


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
    return replace(batch, body=json.dumps(json.loads(batch.body)).encode())


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
