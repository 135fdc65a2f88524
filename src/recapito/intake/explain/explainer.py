"""Explanations: for each subscription of an event's topic whether it matched, its attempts, the state of its delivery
and the next step. It only reads.
"""

from collections.abc import AsyncIterator, Sequence
from typing import NamedTuple, Protocol

from recapito.clock import Clock
from recapito.contracts.history import HistoryReader, KeptAttempt
from recapito.contracts.ledger import LaneRow, WaitingDeadLetter
from recapito.contracts.log import Log
from recapito.contracts.registry import Registry
from recapito.domain import limits
from recapito.domain.dead_letter.parser import read_dead_letters
from recapito.domain.delivery.delivery import CORRUPT, DeliveryId, Parked
from recapito.domain.delivery.hold import Hold
from recapito.domain.delivery.state import (
    Buried,
    DeliveryAttempt,
    DeliveryFacts,
    DeliveryState,
    before_publishing,
    how_it_ended,
    state_of,
)
from recapito.domain.delivery.vocabulary import State
from recapito.domain.events.segment import REPLAYED, StampedEvent, resent_from
from recapito.domain.filters.explanation import FilteredEvent, FilterVerdict, explain
from recapito.domain.filters.filter import TAKE_NONE
from recapito.domain.history.attempt import LaneLabel
from recapito.domain.profiles.profile import Profile, load
from recapito.domain.resources.destination import profile_for
from recapito.domain.resources.subscription import Subscription
from recapito.domain.resources.topic import Topic
from recapito.errors import InvalidInput, NotFound, RecordDamaged
from recapito.intake.dead_letters.redrive import ResendOrder
from recapito.intake.explain.event_lookup import EventLookup, FoundEvent, LoggedEvent, topic_named
from recapito.intake.maintenance.damage_report import DamageReport

PAGE = 500
TRIMMED = "The log no longer has the event itself: only history can explain it."
DAMAGED = (
    "Its entry in the log, at position {}, is damaged: subscriptions that read it since gave it up as CorruptRecord. "
    "See `recapito damaged list`."
)
GIVEN_UP = "Its waiting record was damaged and given up as CorruptRecord: see `recapito damaged export {}`."
FORGOTTEN = "History no longer has its first attempts, which are too long ago (setting history.keep_hours)."


class LaneStates(Protocol):
    """The part of the Ledger that is read here."""

    async def some_lanes(self, ids: Sequence[int]) -> list[LaneRow]:
        """The rows of these lanes that exist."""

    async def find(self, lane: int, identity: DeliveryId) -> Parked | WaitingDeadLetter | None:
        """The parked delivery or waiting dead letter of one delivery."""


class Explained(NamedTuple):
    """One subscription's part in an event. `kept` are the attempts of this event, oldest first."""

    label: LaneLabel
    verdict: FilterVerdict
    kept: list[KeptAttempt]
    standing: DeliveryState


class Explanation(NamedTuple):
    """An event and what each subscription did with it. Without `event` the log no longer has it."""

    id: str
    topic: str
    place: DeliveryId | None
    event: LoggedEvent | None
    notes: list[str]
    subscriptions: list[Explained]


class Explainer:
    """Explains events from the stores.

    log, registry, ledger, history: the stores that it reads.
    clock: the service's clock.
    default_profile: the name of the profile of topics that name none.
    damages: finds damaged records, for events that are in one.
    wall: real time, by which it waits for attempts that dispatch has made and not stored yet; None: it never waits.
    """

    def __init__(
        self,
        log: Log,
        registry: Registry,
        ledger: LaneStates,
        history: HistoryReader,
        clock: Clock,
        default_profile: str,
        damages: DamageReport,
        wall: Clock | None = None,
    ) -> None:
        self._log = log
        self._registry = registry
        self._ledger = ledger
        self._clock = clock
        self._default_profile = default_profile
        self._damages = damages
        self._wall = wall
        self._lookup = EventLookup(log, registry, history)

    async def explain(self, id: str, topic_name: str | None) -> Explanation:
        """Explain the event of that id. NotFound if neither history nor the logs have it.

        History is stored a moment after the ledger: an explanation that lacks attempts is made again a little later.
        """
        explanation = await self._explain_now(id, topic_name)
        for pause in limits.EXPLAIN_WAITS_NS:
            if self._wall is None or not any(map(_lacks_attempts, explanation.subscriptions)):
                break
            await self._wall.sleep_until(self._wall.now() + pause)
            explanation = await self._explain_now(id, topic_name)
        return explanation

    async def _explain_now(self, id: str, topic_name: str | None) -> Explanation:
        topic = None if topic_name is None else await self.topic(topic_name)
        found = await self._lookup.find(id, topic)
        if found is None:
            await self._refuse_damaged(id)
            raise NotFound(
                "EventNotFound",
                "No event of this id is known: it was never published here, or it was delivered so long ago that "
                f"neither history nor the newest {limits.SEARCH_ENTRIES} entries of the logs have it.",
                "event",
            )
        events = {
            place: await self._lookup.read(found.topic, place) for place in found.places[: limits.EXPLAINED_PLACES]
        }
        place, event = next(iter(events.items()))
        notes = list(found.notes)
        if event is None:
            damaged = await self._lookup.is_damaged(found.topic, place.position)
            notes.append(DAMAGED.format(place.position) if damaged else TRIMMED)
        if len(found.places) > 1:
            notes.append(f"It is in the log {len(found.places)} times: published again, redriven, resent or replayed.")
        explained = [part async for part in self._explain_all(id, found, events)]
        if any(_begins_late(id, part.kept) for part in explained):
            notes.append(FORGOTTEN)
        topic = topic or await self._registry.topic_by_id(found.topic)
        name = topic.name if topic else next((entry.attempt.label.topic_name for entry in found.kept), "")
        return Explanation(id, name, place, event, notes, explained)

    async def find_to_resend(self, id: str, topic_name: str | None, lane: int) -> ResendOrder:
        """The event of that id as a subscription took it. NotFound without event or subscription; InvalidInput if the
        subscription did not take it.
        """
        topic = None if topic_name is None else await self.topic(topic_name)
        found = await self._lookup.find(id, topic)
        subscription = await self._registry.subscription_by_id(lane)
        if found is None or subscription is None or subscription.topic != found.topic:
            raise NotFound("EventNotFound", "There is no such event for a subscription of this id.", "event")
        events = {
            place: await self._lookup.read(found.topic, place) for place in found.places[: limits.EXPLAINED_PLACES]
        }
        place = _place_for(subscription, events)
        event = events[place]
        if event is None:
            raise NotFound("EventTrimmed", f"{TRIMMED} It cannot be resent; publish it again.", "event")
        verdict = _verdict(subscription, place, event.seen, event)
        if not verdict.matched or subscription.deleted_position is not None:
            reason = "the subscription was deleted" if verdict.matched else verdict.text
            raise InvalidInput("NotMatched", f"The subscription does not get this event: {reason}.", "subscriptionId")
        seen = event.seen
        stamped = StampedEvent(seen.body, seen.type, seen.subject, event.data_version, seen.domain_topic, id)
        return ResendOrder(found.topic, subscription, place, stamped)

    async def describe(self, topic: int, places: Sequence[DeliveryId]) -> dict[DeliveryId, tuple[str, str]]:
        """The type and the subject of events of a topic, as far as the log still has them."""
        described: dict[DeliveryId, tuple[str, str]] = {}
        for position in dict.fromkeys(place.position for place in places):
            segment = await self._lookup.segment(topic, position)
            for place in places:
                if segment is not None and place.position == position and place.offset < len(segment):
                    described[place] = segment.type(place.offset), segment.subjects[place.offset]
        return described

    async def _refuse_damaged(self, id: str) -> None:
        """Raise NotFound with the name of the damaged record if one contains the id."""
        record = await self._damages.holding(id.encode())
        if record is not None:
            raise NotFound(
                "EventDamaged",
                f"This event was stored, and its record is damaged: subscriptions that had not read it gave it up as "
                f"{CORRUPT}. See `recapito damaged export {record.name}`, and publish it again if it is needed.",
                "event",
            )

    async def rehearse(self, topic: Topic, event: StampedEvent) -> Explanation:
        """Explain an event as if it were published now."""
        now = self._clock.now()
        seen = FilteredEvent(event.type, event.subject, event.body, event.domain_topic)
        explained: list[Explained] = []
        async for subscription, lane in self._subscriptions(topic.id, event.domain_topic):
            if subscription.deleted_position is None:
                verdict = _verdict(subscription, None, seen)
                label = LaneLabel(subscription.id, topic.id, topic.name, subscription.name)
                state = NOT_MATCHED
                if verdict.matched:
                    profile = profile_for(subscription.destination, self._profile_of(topic))
                    state = before_publishing(subscription, profile, _hold_of(lane), now)
                explained.append(Explained(label, verdict, [], state))
        return Explanation(event.id, topic.name, None, LoggedEvent(seen, now), [], explained)

    async def topic(self, name: str) -> Topic:
        """The topic of that name, of any kind."""
        topic = await topic_named(self._registry, name)
        if topic is None:
            raise NotFound("TopicNotFound", "There is no topic of this name.", "topic")
        return topic

    def _profile_of(self, topic: Topic | None) -> Profile:
        return load((topic and topic.profile) or self._default_profile)

    async def _explain_all(
        self, id: str, found: FoundEvent, events: dict[DeliveryId, LoggedEvent | None]
    ) -> AsyncIterator[Explained]:
        """Every subscription of the topic that may take the event, and those with attempts that are deleted by now."""
        topic = await self._registry.topic_by_id(found.topic)
        domain_topic = next((event.seen.domain_topic for event in events.values() if event), "")
        by_lane: dict[int, list[KeptAttempt]] = {}
        for entry in found.kept:
            by_lane.setdefault(entry.attempt.label.lane, []).append(entry)
        async for subscription, lane in self._subscriptions(found.topic, domain_topic):
            kept = by_lane.pop(subscription.id, [])
            place = _place_for(subscription, events)
            topic_name = topic.name if topic else ""
            label = LaneLabel(subscription.id, found.topic, topic_name, subscription.name)
            profile = profile_for(subscription.destination, self._profile_of(topic))
            yield await self._explain_one(label, subscription, lane, profile, place, events[place], _tries(id, kept))
        for gone, kept in by_lane.items():
            yield _explain_gone(_tries(id, kept), await self._is_damaged(gone))

    async def _is_damaged(self, lane: int) -> bool:
        """Whether the subscription of a lane exists, and its record cannot be read."""
        try:
            await self._registry.subscription_by_id(lane)
        except RecordDamaged:
            return True
        return False

    async def _explain_one(
        self,
        label: LaneLabel,
        subscription: Subscription,
        lane: LaneRow | None,
        profile: Profile,
        place: DeliveryId,
        event: LoggedEvent | None,
        kept: list[tuple[KeptAttempt, DeliveryAttempt, DeliveryId]],
    ) -> Explained:
        tries = [attempted for _, attempted, identity in kept if identity == place]
        attempts = _attempts(kept)
        waits = lane is not None and (lane.counts.pending > 0 or lane.damaged)
        waiting = await self._ledger.find(subscription.id, place) if waits else None
        verdict = _verdict(subscription, place, None if event is None else event.seen, event)
        if verdict.matched is None and (tries or waiting is not None):
            verdict = FilterVerdict(True, "attempted", "it was matched: history or the ledger has its deliveries")
        if not verdict.matched:
            state = NOT_MATCHED if verdict.matched is False else NOT_KNOWN
            return Explained(label, verdict, attempts, state)
        published_at = None if event is None else event.published_at
        cursor = None if lane is None else lane.cursor
        now = self._clock.now()
        case = DeliveryFacts(
            subscription, profile, place, published_at, cursor, _hold_of(lane), _waiting_part(waiting), tries, now
        )
        state = state_of(case)
        if state.state in (State.UNKNOWN, State.DEAD_LETTERED):
            record = await self._damages.of_delivery(subscription.id, place)
            state = state if record is None else DeliveryState(State.DROPPED, GIVEN_UP.format(record.name))
        return Explained(label, verdict, attempts, state)

    async def _subscriptions(self, topic: int, domain_topic: str) -> AsyncIterator[tuple[Subscription, LaneRow | None]]:
        """The subscriptions of a topic with their lanes; in a domain, without those of other domain topics."""
        after = 0
        while page := await self._registry.subscriptions(topic, after, PAGE):
            after = page[-1].id
            named = [one for one in page if not domain_topic or _is_of(one, domain_topic)]
            lanes = {lane.id: lane for lane in await self._ledger.some_lanes([one.id for one in named])}
            for subscription in named:
                yield subscription, lanes.get(subscription.id)


def _is_of(subscription: Subscription, domain_topic: str) -> bool:
    """Whether a subscription of a domain takes events of one of its topics."""
    return subscription.domain_topic is None or subscription.domain_topic.lower() == domain_topic.lower()


NOT_MATCHED = DeliveryState(State.NOT_MATCHED, "The subscription does not take it.")
NOT_KNOWN = DeliveryState(State.UNKNOWN, "It is no longer known whether the subscription matched it.")


def _verdict(
    subscription: Subscription, place: DeliveryId | None, seen: FilteredEvent | None, event: LoggedEvent | None = None
) -> FilterVerdict:
    """Whether a subscription takes an event, by its filter at that position of the log, or by its current one."""
    if place is not None and subscription.created_position > place.position:
        return FilterVerdict(False, "notYetCreated", "the subscription was created after the event was published")
    deleted = subscription.deleted_position
    if deleted is not None and (place is None or deleted <= place.position):
        return FilterVerdict(False, "deleted", "the subscription was deleted before the event was published")
    if event is not None and event.only:
        if event.only == subscription.id and (place_before := resent_from(event.origin)) is not None:
            return FilterVerdict(True, "resent", f"it was resent to this subscription from its place {place_before}")
        if event.only == subscription.id:
            whence = f" from {event.origin.rpartition(':')[2]}" if event.origin else ""
            if event.origin.startswith(REPLAYED):
                reason = f"it was replayed for this subscription{whence.replace('from', 'from position')} of the log"
                return FilterVerdict(True, "replayed", reason)
            return FilterVerdict(True, "redriven", f"it was redriven for this subscription{whence}, past its filter")
        return FilterVerdict(False, "redriven", "it was redriven, resent or replayed for another subscription")
    if seen is None:
        return FilterVerdict(None, "unknown", "the log no longer has the event")
    filter = subscription.filter if place is None else subscription.filter_at(place.position)
    if filter == TAKE_NONE:  # in force only while consent is awaited
        return FilterVerdict(False, "handshake", "the endpoint had not consented to get events")
    return explain(filter, seen)


def _hold_of(lane: LaneRow | None) -> Hold:
    return Hold() if lane is None else lane.hold


def _waiting_part(waiting: Parked | WaitingDeadLetter | None) -> Parked | Buried | None:
    if not isinstance(waiting, WaitingDeadLetter):
        return waiting
    burial, path = waiting
    where = burial.container if path is None else f"{burial.container}/{path}"
    try:
        reason = read_dead_letters(burial.record)[0].reason
    except InvalidInput:
        reason = "unknown"
    return Buried(reason, burial.write_at, where)


def _place_for(subscription: Subscription, events: dict[DeliveryId, LoggedEvent | None]) -> DeliveryId:
    """The newest place of an event that concerns a subscription: one redriven for another does not."""
    for place, event in events.items():
        if event is None or event.only in (0, subscription.id):
            return place
    return next(iter(events))


def _tries(id: str, kept: list[KeptAttempt]) -> list[tuple[KeptAttempt, DeliveryAttempt, DeliveryId]]:
    """Each attempt of the event, with its number and disposition in it."""
    return [
        (entry, DeliveryAttempt(entry.attempt, event.number, event.disposition), event.identity)
        for entry in kept
        for event in entry.attempt.events()
        if event.id == id
    ]


def _attempts(kept: list[tuple[KeptAttempt, DeliveryAttempt, DeliveryId]]) -> list[KeptAttempt]:
    """Each attempt once, though a batch may contain two events of the id."""
    return list({entry.mark: entry for entry, _, _ in kept}.values())


def _begins_late(id: str, kept: list[KeptAttempt]) -> bool:
    """Whether the oldest attempt that history has is not the first."""
    return min((attempted.number for _, attempted, _ in _tries(id, kept)), default=0) > 1


def _lacks_attempts(part: Explained) -> bool:
    """Whether a delivery was attempted or ended, and history does not show how."""
    if not part.verdict.matched or part.kept:
        return False
    return part.standing.state in (State.UNKNOWN, State.PARKED, State.DEAD_LETTER_WAITING)


def _explain_gone(kept: list[tuple[KeptAttempt, DeliveryAttempt, DeliveryId]], damaged: bool) -> Explained:
    """The part of a subscription that no longer exists, or whose record is damaged, from history alone."""
    tries = [attempted for _, attempted, _ in kept]
    verdict = FilterVerdict(True, "deleted", "it was matched; the subscription was deleted since")
    if damaged:
        verdict = FilterVerdict(True, "damaged", "it was matched; the record of the subscription is damaged")
    gone = DeliveryState(State.DROPPED, "The subscription was deleted, and dropped its undelivered events.")
    return Explained(tries[0].attempt.label, verdict, _attempts(kept), how_it_ended(tries) or gone)
