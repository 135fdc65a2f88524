"""Metrics for Prometheus, straight from the lanes' own rows, the publisher's counts and what dispatch says of itself.

A scrape is rendered in small slices, and others run in between: with ten thousand subscriptions it is 13 MB, which
would hold up publishing for a third of a second. Whoever asks while one is under way gets that one.
"""

import asyncio
from collections.abc import Mapping

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest

from recapito.api.operate import metric_table as table
from recapito.api.operate.prometheus_text import PrometheusText, labels
from recapito.api.services import Services
from recapito.contracts.ledger import AttemptTotals, LaneCounts, LaneRow
from recapito.contracts.registry import Registry
from recapito.domain import limits
from recapito.domain.dead_letter.parser import all_reasons
from recapito.domain.delivery.outcome import Result
from recapito.domain.instant import MILLISECOND, SECOND
from recapito.domain.resources.subscription import Subscription
from recapito.domain.resources.topic import Topic, TopicKind
from recapito.intake.publish.counters import PublishCounters
from recapito.observability.status import BusyLane, Gauge, Status

PAGE = 250  # topics
SLICE = 25  # subscriptions, or topics, rendered in a row
PART_BYTES = 64 * limits.KB
_RESOURCES = {TopicKind.CUSTOM: "topic", TopicKind.DOMAIN: "domain", TopicKind.SYSTEM: "system_topic"}
_USER_ERRORS = ("BadRequest", "Unauthorized", "Forbidden", "NotFound", "RequestEntityTooLarge", "UnsupportedMediaType")
_NO_ANSWER = frozenset({Result.TIMED_OUT, Result.ABORTED, Result.SOCKET_ERROR, Result.RESOLUTION_ERROR})


class Scraper:
    """Renders one exposition at a time."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._rendering: asyncio.Task[list[bytes]] | None = None

    def __repr__(self) -> str:
        return f"<Scraper {'at work' if self._rendering else 'at rest'}>"

    async def scrape(self) -> list[bytes]:
        """The exposition of this moment, in parts."""
        if self._rendering is None:
            self._rendering = asyncio.create_task(render(self._services))
            self._rendering.add_done_callback(self._forget)
        return await asyncio.shield(self._rendering)

    def _forget(self, rendered: "asyncio.Task[list[bytes]]") -> None:
        self._rendering = None


async def render(services: Services) -> list[bytes]:
    """The exposition of this moment, in parts that are quickly sent."""
    shown = PrometheusText(table.TABLE)
    topics = await _topics(services.registry)
    ends = (await services.log.news(0)).ends
    _add_publisher(shown, services)
    for number, topic in enumerate(topics.values()):
        _add_topic(shown, topic, ends.get(topic.id, 0), services)
        if number % SLICE == 0:
            shown.pack()
            await asyncio.sleep(0)
    for check, reason in (await services.readiness()).items():
        shown.add(table.READY, int(reason is None), labels({"check": check}))
    for name, count in (await services.damages.unseen()).items():
        shown.add(table.DAMAGED, count, labels({"table": name}))
    status = services.dispatch.last
    if status is not None:
        _add_dispatch(shown, status)
    await _add_subscriptions(shown, services, topics, ends, status or Status(Gauge()))
    return await _gather([*shown.to_parts(), _process_metrics()])


async def _gather(parts: list[bytes]) -> list[bytes]:
    """Fewer and larger parts."""
    gathered: list[bytes] = []
    first = size = 0
    for number, part in enumerate(parts, 1):
        size += len(part)
        if size >= PART_BYTES or number == len(parts):
            gathered.append(b"".join(parts[first:number]))
            first, size = number, 0
            await asyncio.sleep(0)
    return gathered


async def _topics(registry: Registry) -> dict[int, Topic]:
    topics: dict[int, Topic] = {}
    after = ""
    while page := await registry.topics(after, PAGE):
        topics.update((topic.id, topic) for topic in page)
        after = page[-1].key
    return topics


def _process_metrics() -> bytes:
    """Memory, processor time and open files of the process that is asked."""
    registry = CollectorRegistry(auto_describe=False)
    ProcessCollector(registry=registry)
    return generate_latest(registry)


def _add_publisher(shown: PrometheusText, services: Services) -> None:
    for field, metric in table.PUBLISHER.items():
        shown.add(metric, getattr(services.publisher.stats, field))
    for (at, how), count in services.wrong_secrets.counts.items():
        shown.add(table.WRONG_SECRETS, count, labels({"at": at, "answer": how}))
    _add_gauge(shown, services.publisher.gauge, "intake")


def _add_gauge(shown: PrometheusText, gauge: Gauge, role: str) -> None:
    written = labels({"role": role})
    shown.add_histogram(table.COMMIT_SECONDS, gauge.commit_seconds, written)
    shown.add_histogram(table.COMMIT_SIZE, gauge.commit_size, written)
    shown.add_histogram(table.LOOP_DELAY, gauge.loop_delay_seconds, written)


def _add_dispatch(shown: PrometheusText, status: Status) -> None:
    _add_gauge(shown, status.gauge, "dispatch")
    shown.add(table.LANES, status.lanes)
    shown.add(table.REQUESTS, status.requests)
    shown.add(table.OPEN, status.open)
    shown.add(table.OPEN_BYTES, status.open_bytes)
    shown.add(table.LATE, status.late)
    shown.add(table.BLOCKED, status.blocked)


def _add_topic(shown: PrometheusText, topic: Topic, end: int, services: Services) -> None:
    tallies: PublishCounters = services.publisher.tallies
    tally, resource = tallies.of(topic.id), {_RESOURCES[topic.kind]: topic.name}
    written = labels(resource)
    shown.add(table.PUBLISH_SUCCESS, tally.events, written)
    shown.add_sum(table.PUBLISH_LATENCY, tally.took_ns / MILLISECOND, tally.publishes, written)
    for error, count in tally.failed.items():
        kind = "User" if error in _USER_ERRORS else "System"
        shown.add(table.PUBLISH_FAIL, count, labels({**resource, "error_type": kind, "error": error}))
    if topic.kind is not TopicKind.DOMAIN:  # as in Azure
        shown.add(table.UNMATCHED, tally.unmatched + services.dispatch.unmatched(topic.id), written)
    shown.add(table.LOG_END, end, labels({"topic": _own_name(topic)}))


async def _add_subscriptions(
    shown: PrometheusText, services: Services, topics: Mapping[int, Topic], ends: Mapping[int, int], status: Status
) -> None:
    busy = {lane.id: lane for lane in status.busy}
    after = 0
    while page := await services.registry.subscriptions(None, after, SLICE):
        after = page[-1].id
        living = [one for one in page if one.deleted_position is None and one.topic in topics]
        lanes = {lane.id: lane for lane in await services.ledger.some_lanes([one.id for one in living])}
        for one in living:
            lane = lanes.get(one.id)
            _add_azure(shown, topics[one.topic], one, lane)
            _add_ours(shown, topics[one.topic], one, lane, ends.get(one.topic, 0))
            _add_state(shown, topics[one.topic], one, busy.get(one.id), one.id in status.stopped)
        shown.pack()
        await asyncio.sleep(0)


def _add_azure(shown: PrometheusText, topic: Topic, subscription: Subscription, lane: LaneRow | None) -> None:
    named = _azure_labels(topic, subscription)
    written = labels(named)
    counts, attempts = (lane.counts, lane.attempts) if lane is not None else (LaneCounts(), AttemptTotals())
    shown.add(table.MATCHED, counts.matched, written)
    shown.add(table.DELIVERY_SUCCESS, counts.delivered, written)
    shown.add(table.EVALUATED, counts.evaluated, written)
    shown.add_sum(table.DURATION, attempts.took_ns / MILLISECOND, attempts.answers, written)
    for error, count in attempts.failed.items():
        kind = "NoAnswer" if error in _NO_ANSWER else "Answer"
        shown.add(table.ATTEMPT_FAIL, count, labels({**named, "error_type": kind, "error": error}))
    for reason, count in counts.dropped.items():
        shown.add(table.DROPPED, count, labels({**named, "drop_reason": reason}))
    for reason, count in all_reasons(counts.reasons, counts.dead_lettered).items():
        shown.add(table.DEAD_LETTERED, count, labels({**named, "dead_letter_reason": reason}))


def _add_ours(shown: PrometheusText, topic: Topic, subscription: Subscription, lane: LaneRow | None, end: int) -> None:
    named = _own_labels(topic, subscription)
    written = labels(named)
    counts = LaneCounts() if lane is None else lane.counts
    for field, metric in (*table.COUNTERS.items(), *table.GAUGES.items()):
        shown.add(metric, getattr(counts, field), written)
    for reason, count in counts.dropped.items():
        shown.add(table.GIVEN_UP, count, labels({**named, "reason": reason}))
    position = 0 if lane is None else lane.cursor.low[0]
    shown.add(table.CURSOR, position, written)
    shown.add(table.UNREAD, max(end - (position or subscription.created_position) + 1, 0), written)
    shown.add(table.HELD_UNTIL, 0 if lane is None else lane.hold.until / SECOND, written)
    shown.add(table.FAILURES, 0 if lane is None else lane.hold.failures, written)


def _add_state(
    shown: PrometheusText, topic: Topic, subscription: Subscription, busy: BusyLane | None, stopped: bool
) -> None:
    if busy is None and not stopped:
        return
    written = labels(_own_labels(topic, subscription))
    if busy is not None:
        shown.add(table.WINDOW, busy.window, written)
        shown.add(table.LANE_OPEN, busy.open, written)
    if stopped:
        shown.add(table.STOPPED, 1, written)


def _azure_labels(topic: Topic, subscription: Subscription) -> dict[str, str]:
    """The resource and the subscription as Azure's dimensions have them."""
    named = {_RESOURCES[topic.kind]: topic.name}
    if topic.kind is not TopicKind.DOMAIN:
        return {**named, "event_subscription_name": subscription.name}
    if subscription.domain_topic is None:
        return {**named, "domain_event_subscription_name": subscription.name}
    return {**named, "topic": subscription.domain_topic, "event_subscription_name": subscription.name}


def _own_labels(topic: Topic, subscription: Subscription) -> dict[str, str]:
    of = "" if subscription.domain_topic is None else f"{subscription.domain_topic}/"
    return {"topic": _own_name(topic), "event_subscription": f"{of}{subscription.name}"}


def _own_name(topic: Topic) -> str:
    """The name of a topic; of another kind it says which, since each kind has names of its own."""
    return topic.name if topic.kind is TopicKind.CUSTOM else f"{topic.kind}/{topic.name}"
