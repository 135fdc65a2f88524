"""The current state of subscriptions, a page at a time: their counts, waiting deliveries, and the reason of a hold.

Everything is read from the lanes' own rows. A page reads the rows that it shows, and one more; only a search by a part
of the name passes many subscriptions to find few.
"""

import math
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import suppress
from typing import TypeVar

from starlette.requests import Request
from starlette.responses import Response

from recapito.api.arm.routing import answer
from recapito.api.arm.scope import ScopeStyle, SubscriptionScope
from recapito.api.auth.management import admit
from recapito.api.docs.documented_route import DocumentedRoute, names_in, read_query
from recapito.api.estate.address import Stage, address_of
from recapito.api.services import Services
from recapito.api.wire.decode import Body, Shown, check_length, check_range, invalid
from recapito.contracts.ledger import AttemptTotals, LaneCounts, LaneRow
from recapito.domain import limits
from recapito.domain.dead_letter.parser import all_reasons
from recapito.domain.delivery.hold import Hold, explain
from recapito.domain.handshake.consent import provisioning_state, shown
from recapito.domain.instant import MILLISECOND, SECOND, stamp
from recapito.domain.resources.delivery_options import DeliveryOptions
from recapito.domain.resources.destination import Destination, WebHook
from recapito.domain.resources.subscription import Subscription
from recapito.domain.resources.topic import KIND_NAMES, Topic, TopicKind
from recapito.errors import RecordDamaged
from recapito.intake.resources.topics import is_at

PATH = "/lanes"
WALKED = 1000  # subscriptions read in one page

T = TypeVar("T")


class _WantedLanes(Body):
    topic: str | None = None
    subscription: str | None = None
    resource_id: str | None = None
    search: str | None = None
    failing: bool = False
    after: str = ""
    limit: int = limits.LANE_PAGE_DEFAULT


class LaneRoutes:
    def __init__(self, services: Services) -> None:
        self._services = services

    def routes(self) -> list[DocumentedRoute]:
        return [DocumentedRoute(PATH, self._list, queries=names_in(_WantedLanes))]

    async def _list(self, request: Request) -> Response:
        await admit(request)
        wanted, after = _read(request)
        now = self._services.clock.now()
        ends: dict[int, int] = {}
        value: list[Shown] = []
        more = False
        async for topic, subscription, lane in self._walk(wanted, after):
            if len(value) == wanted.limit:
                more = True
                break
            if topic.id not in ends:
                ends[topic.id] = await self._services.log.end(topic.id)
            stopped = self._services.dispatch.stopped(subscription.id)
            shown_lane = _show(topic, subscription, lane, ends[topic.id], now)
            value.append(shown_lane | {"stopped": stopped, "waiting": await self._waiting(topic, lane, shown_lane)})
        return answer({"value": value, "next": str(value[-1]["id"]) if more else None, "now": stamp(now)})

    async def _waiting(self, topic: Topic, lane: LaneRow | None, shown_lane: Shown) -> int:
        """The pending deliveries, and during a hold the events that are unread behind it, before the filter."""
        if lane is None or not lane.hold.on or not shown_lane["unread"]:
            return lane.counts.pending if lane is not None else 0
        start = lane.cursor.low[0]
        return lane.counts.pending + await self._services.log.events(topic.id, start, start + shown_lane["unread"])

    async def _walk(
        self, wanted: _WantedLanes, after: int
    ) -> AsyncIterator[tuple[Topic, Subscription, LaneRow | None]]:
        topics = await self._named(wanted.topic)
        if wanted.topic is not None and not topics:
            return
        async for page in self._pages(wanted, topics, after):
            chosen = [subscription for subscription in page if _takes(wanted, topics, subscription)]
            for start in range(0, len(chosen), wanted.limit + 1):
                some = chosen[start : start + wanted.limit + 1]
                rows = await self._services.ledger.some_lanes([subscription.id for subscription in some])
                lanes = {lane.id: lane for lane in rows}
                for subscription in some:
                    lane = lanes.get(subscription.id)
                    if wanted.failing and not self._fails(subscription.id, lane):
                        continue
                    topic = topics.get(subscription.topic)
                    if topic is None:
                        topic = await _sound(self._services.registry.topic_by_id(subscription.topic))
                    if topic is not None:
                        topics[topic.id] = topic
                        yield topic, subscription, lane

    def _fails(self, id: int, lane: LaneRow | None) -> bool:
        """Whether something is wrong with a lane."""
        return self._services.dispatch.stopped(id) is not None or (lane is not None and is_failing(lane))

    async def _pages(
        self, wanted: _WantedLanes, topics: Mapping[int, Topic], after: int
    ) -> AsyncIterator[list[Subscription]]:
        """The subscriptions among which the wanted ones are, in the order of their ids, from the first after `after`.

        No more are read than a page shows, as far as the query allows.
        """
        registry, only = self._services.registry, next(iter(topics)) if len(topics) == 1 else None
        if wanted.resource_id is not None:
            yield await self._addressed(wanted.resource_id, after)
        elif wanted.failing:
            async for page in self._troubled(wanted.limit + 1, after):
                yield page
        elif wanted.subscription is not None and only is not None and topics[only].kind is not TopicKind.DOMAIN:
            found = await _sound(registry.subscription(only, wanted.subscription))
            yield [found] if found is not None and found.id > after else []
        else:
            size = WALKED if wanted.search or wanted.subscription else wanted.limit + 1
            while page := await registry.subscriptions(only, after, size):
                after = page[-1].id
                yield page

    async def _addressed(self, id: str, after: int) -> list[Subscription]:
        """The subscription of this resource id, if it is there."""
        registry, address = self._services.registry, address_of(id)
        if address is None or address.stage is not Stage.SUBSCRIPTION or address.account:
            return []
        topic = await registry.topic(address.topic, address.kind)
        if topic is None or not is_at(topic, address.azure_subscription, address.group):
            return []
        found = await _sound(registry.subscription(topic.id, address.name, address.domain_topic))
        return [found] if found is not None and found.id > after else []

    async def _troubled(self, size: int, after: int) -> AsyncIterator[list[Subscription]]:
        """The subscriptions whose lanes may fail."""
        ended = False
        while not ended:
            lanes = await self._services.ledger.troubled_lanes(after, size)
            ended = len(lanes) < size
            last = math.inf if ended else lanes[-1].id
            stopped = {id for id in self._services.dispatch.stopped_lanes if after < id <= last}
            found = [
                await _sound(self._services.registry.subscription_by_id(id))
                for id in sorted(stopped | {lane.id for lane in lanes})
            ]
            after = lanes[-1].id if lanes else after
            yield [subscription for subscription in found if subscription is not None]

    async def _named(self, name: str | None) -> dict[int, Topic]:
        """The topics of a name, of every kind; each kind has names of its own."""
        if name is None:
            return {}
        topics = [await self._services.registry.topic(name, kind) for kind in TopicKind]
        return {topic.id: topic for topic in topics if topic is not None}


async def _sound(record: Awaitable[T | None]) -> T | None:
    """A topic or a subscription; None also if its record is damaged, which `recapito damaged list` has."""
    with suppress(RecordDamaged):
        return await record
    return None


def is_failing(lane: LaneRow) -> bool:
    """Whether a lane is held, waits for a retry, or failed since its last success and gave up what it had."""
    return lane.hold.on or lane.hold.failures > 0 or lane.counts.parked > 0


def _takes(wanted: _WantedLanes, topics: Mapping[int, Topic], subscription: Subscription) -> bool:
    """Whether a query for subscriptions of these topics takes one."""
    name = subscription.name.lower()
    if subscription.deleted_position is not None or (wanted.topic is not None and subscription.topic not in topics):
        return False
    if wanted.subscription is not None and name != wanted.subscription.lower():
        return False
    return wanted.search is None or wanted.search.lower() in name


def _read(request: Request) -> tuple[_WantedLanes, int]:
    wanted = read_query(request, _WantedLanes)
    check_range(wanted.limit, limits.LANE_PAGE, "limit")
    check_length(wanted.search or "", limits.SEARCH_CHARS, "search")
    after = wanted.after or "0"
    if not (after.isascii() and after.isdigit() and len(after) < 19):
        raise invalid("'after' must be the 'next' value of an earlier page.", "after")
    return wanted, int(after)


def _show(topic: Topic, subscription: Subscription, lane: LaneRow | None, end: int, now: int) -> Shown:
    counts, attempts = (lane.counts, lane.attempts) if lane is not None else (LaneCounts(), AttemptTotals())
    start = subscription.created_position if lane is None else lane.cursor.low[0]
    destination = shown(subscription).destination
    scope = SubscriptionScope(topic, subscription.domain_topic, ScopeStyle.NESTED)
    return {
        "id": subscription.id,
        "topic": topic.name,
        "topicKind": KIND_NAMES[topic.kind],
        "domainTopic": subscription.domain_topic,
        "subscription": subscription.name,
        "resourceId": f"{scope.id}{scope.form.value}{subscription.name}",
        "endpointType": type(destination).__name__,
        "endpoint": endpoint_of(destination),
        "provisioningState": provisioning_state(subscription, now),
        "matched": counts.matched,
        "unmatched": counts.unmatched,
        "delivered": counts.delivered,
        "deadLettered": counts.dead_lettered,
        "deadLetterReasons": all_reasons(counts.reasons, counts.dead_lettered),
        "dropped": counts.dropped,
        "pending": counts.pending,
        "parked": counts.parked,
        "buried": counts.buried,
        "unread": max(end - start + 1, 0),
        "failedAttempts": attempts.failed,
        "answers": attempts.answers,
        "tookMs": attempts.took_ns / MILLISECOND,
        "failuresInARow": 0 if lane is None else lane.hold.failures,
        "nextDueAt": _next_due(lane),
        "hold": None if lane is None else _show_hold(lane.hold, now),
        "options": show_options(subscription.options),
    }


def show_options(options: DeliveryOptions) -> Shown:
    """The options of a subscription, without their secrets."""
    return {
        "signingSecrets": len(options.signing),
        "maxRequests": options.max_requests or None,
        "eventsPerSecond": options.events_per_second or None,
    }


def endpoint_of(destination: Destination) -> str:
    """The destination of events as every reader may see it: never the query of a URL, which may be a secret."""
    return destination.base_url if isinstance(destination, WebHook) else destination.resource_id


def _next_due(lane: LaneRow | None) -> str | None:
    """The instant at which the next parked delivery is tried, which is not before a hold ends."""
    if lane is None or lane.next_due_at is None:
        return None
    return stamp(max(lane.next_due_at, lane.hold.until))


def _show_hold(hold: Hold, now: int) -> Shown | None:
    if not hold.on:
        return None
    return {
        "failures": hold.failures,
        "until": stamp(hold.until),
        "periodSeconds": hold.period // SECOND,
        "on": True,
        "reason": explain(hold, now),
    }
