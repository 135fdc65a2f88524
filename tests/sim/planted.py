"""Wrong parts at our other contracts: what the checkers must find. Each is small, silent and plausible."""

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from msgspec.structs import replace

from recapito.clock import Clock
from recapito.contracts.ledger import LaneRow, Settlement
from recapito.contracts.log import Entry, EntryKind, NewSegment
from recapito.contracts.registry import Document
from recapito.contracts.sender import Exchange, Sender
from recapito.contracts.vault import Vault
from recapito.dispatch.capacity import Slots
from recapito.dispatch.dispatcher import Dispatcher
from recapito.dispatch.lane.in_flight import InFlight, LateAnswers, PendingBatch
from recapito.dispatch.lane.lane import Lane
from recapito.dispatch.lane.rush import Rush
from recapito.domain import limits
from recapito.domain.delivery.attributes import Header
from recapito.domain.delivery.batch import Batch
from recapito.domain.delivery.delivery import Parked
from recapito.domain.delivery.hold import REFUSED_EVENT, Hold, after_failure
from recapito.domain.delivery.outcome import Outcome, Result, answered
from recapito.domain.filters.filter import TAKE_ALL
from recapito.domain.instant import MINUTE
from recapito.domain.profiles.profile import DelayedDelivery
from recapito.domain.resources.destination import Destination
from recapito.domain.resources.subscription import Batching, FilterSince, RetryPolicy, Subscription
from recapito.domain.resources.topic import Topic
from recapito.errors import Busy, StoreFailed
from recapito.intake.dead_letters.redrive import Redriver
from recapito.intake.publish.publisher import Publisher


class HastyPublisher(Publisher):
    """Answers before the commit."""

    async def publish(self, topic: Topic, events: list[Any], size: int) -> None:
        self._early = asyncio.ensure_future(super().publish(topic, events, size))
        self._early.add_done_callback(lambda task: task.cancelled() or task.exception())


class WaveringPublisher(Publisher):
    """Judges how long a publish has waited after its commit instead of before."""

    def _finish(self, group: list[Any], error: Callable[[], Exception] | None = None) -> None:
        since = self._wall.now() - self._patience
        late = [waiter for waiter in group if waiter.since < since and error is None]
        self._answer(late, lambda: Busy("too late"))
        super()._finish([waiter for waiter in group if waiter not in late], error)


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


class StickyHeaders:
    """Sends the headers of the request before."""

    def __init__(self) -> None:
        self._last: tuple[Header, ...] | None = None

    def __call__(self, batch: Batch) -> Batch:
        headers, self._last = self._last, batch.headers
        return batch if headers is None else replace(batch, headers=headers)


def believing(outcome: Outcome) -> Outcome:
    """A server error taken for a success."""
    return answered(200) if outcome.status in (500, 502) else outcome


def doubting(outcome: Outcome) -> Outcome:
    """A success taken for an error."""
    return answered(500) if outcome.status == 200 else outcome


class DeafExchanges(LateAnswers):
    """Ignores every late answer."""

    def add(self, request: InFlight) -> None:
        super().add(request)
        self._cut(request)


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


class RecountingLane(Lane):
    """Counts retries that fail towards the ten."""

    def _held_after(self, request: InFlight, outcome: Outcome, now: int) -> Hold:
        return after_failure(self.books.hold, self._rules, outcome, now, request.pending.events, request.probe)


class OffendedLane(Lane):
    """Takes the refusal of an event for the illness of its endpoint."""

    def _held_after(self, request: InFlight, outcome: Outcome, now: int) -> Hold:
        ill = Outcome(Result.GENERIC_ERROR) if outcome.failure in REFUSED_EVENT else outcome
        return super()._held_after(request, ill, now)


class StubbornLane(Lane):
    """Probes with a retry while one is parked, and never sweeps."""

    def _next_probe(self, now: int) -> PendingBatch | None:
        return self._take_parked(now) or super()._next_probe(now)

    def _held_after(self, request: InFlight, outcome: Outcome, now: int) -> Hold:
        hold = super()._held_after(request, outcome, now)
        return replace(hold, until=now + hold.period, sweep_at=1 << 62) if hold.on and request.probe else hold


class UnsweptLane(Lane):
    """Probes forever, and never tries everything that waits."""

    def _held_after(self, request: InFlight, outcome: Outcome, now: int) -> Hold:
        hold = super()._held_after(request, outcome, now)
        return replace(hold, until=now + hold.period, sweep_at=1 << 62) if hold.on and hold.until > now else hold


class RestlessRush(Rush):
    """Takes every row that it meets."""

    def _waits(self, row: Parked) -> bool:
        return True


class RestlessLane(Lane):
    """Tries in a rush what it has tried in it."""

    def _start_rush(self, asked_at: int) -> None:
        super()._start_rush(asked_at)
        self._rush = RestlessRush(asked_at)


class HoldingLane(Lane):
    """Holds a subscription that has a retry policy of its own."""

    @property
    def _rules(self) -> DelayedDelivery | None:
        return self.profile.delayed_delivery


class GregariousLane(Lane):
    """Retries in company, however often that failed."""

    def _use(self, subscription: Subscription) -> None:
        super()._use(subscription)
        self._company = lambda delivery: limits.BATCH_EVENTS[1]


class ForgettingLane(Lane):
    """Gives up after the default limits, though its profile keeps events."""

    def _use(self, subscription: Subscription) -> None:
        super()._use(subscription)
        self._policy = subscription.retry_policy


class FearlessLane(Lane):
    """Is never held."""

    @property
    def _rules(self) -> DelayedDelivery | None:
        return None


class UncutLane(Lane):
    """Takes the refusal of a batch for that of each of its events."""

    def _use(self, subscription: Subscription) -> None:
        super()._use(subscription)
        self.profile = replace(self.profile, status=replace(self.profile.status, cut=()))


class CountingLane(Lane):
    """Counts the attempts of an endpoint that only asks for time."""

    def _use(self, subscription: Subscription) -> None:
        super()._use(subscription)
        rules = self.profile.delayed_delivery
        assert rules is not None
        self.profile = replace(self.profile, delayed_delivery=replace(rules, pressure=()))


def dispatching(lane: type[Lane]) -> type[Dispatcher]:
    """A dispatcher with lanes of another kind."""
    return type(f"{lane.__name__}Dispatcher", (Dispatcher,), {"lane_type": lane})


class CarefreeDispatcher(Dispatcher):
    """Sends on while what became of the last requests cannot be stored."""

    def _block(self, error: StoreFailed, work: list[tuple[Lane, Settlement]]) -> None:
        super()._block(error, work)
        for lane, _ in work:
            lane.books.blocked = False


class HastyUndertaker(Dispatcher):
    """Has dead letters written a minute too early."""

    def __init__(self, log: Any, registry: Any, ledger: Any, *others: Any) -> None:
        super().__init__(log, registry, _EarlyBurials(ledger), *others)


class _EarlyBurials:
    def __init__(self, ledger: Any) -> None:
        self._ledger = ledger

    async def settle(self, batch: Sequence[Settlement]) -> None:
        await self._ledger.settle([self._hurried(settlement) for settlement in batch])

    def _hurried(self, settlement: Settlement) -> Settlement:
        bury = tuple(burial._replace(write_at=burial.write_at - MINUTE) for burial in settlement.bury)
        return settlement._replace(bury=bury)

    def __getattr__(self, verb: str) -> Any:
        return getattr(self._ledger, verb)


class ForwardDispatcher(Dispatcher):
    """Begins a lane whose row is damaged at the end of the log."""

    async def _renew(self, subscription: Subscription) -> LaneRow:
        end = await self._log.end(subscription.topic)
        return await self._ledger.renew_lane(subscription.id, subscription.topic, self._log.id, end + 1)


class ForgetfulDispatcher(Dispatcher):
    """Takes a lane whose row is damaged for one that it cannot help."""

    async def _begin_again(self, lane: Lane) -> bool:
        return False


class ForgivingDispatcher(Dispatcher):
    """Looks at no row unless it has something to settle."""

    async def _review_rows(self) -> None:
        return


class FastClock:
    """Goes ten per cent too fast."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._start = clock.now()

    def now(self) -> int:
        return self._clock.now() + (self._clock.now() - self._start) // 10

    async def sleep_until(self, when: int) -> None:
        await self._clock.sleep_until(self._start + (when - self._start) * 10 // 11 + 2)


class StallingLog:
    """Never gets past a damaged entry."""

    def __init__(self, log: Any) -> None:
        self._log = log

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    async def read(self, topic: int, position: int, limit_bytes: int) -> list[Entry]:
        entries: list[Entry] = await self._log.read(topic, position, limit_bytes)
        sound = list(takewhile(lambda entry: entry.kind is not EntryKind.DAMAGED, entries))
        if entries and not sound:
            await asyncio.get_running_loop().create_future()
        return sound


class SkippingLog(StallingLog):
    """Passes a damaged entry as if nothing had been in it."""

    async def read(self, topic: int, position: int, limit_bytes: int) -> list[Entry]:
        entries = await self._log.read(topic, position, limit_bytes)
        return [
            entry._replace(kind=EntryKind.CHANGE) if entry.kind is EntryKind.DAMAGED else entry for entry in entries
        ]


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
