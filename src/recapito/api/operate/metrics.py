"""Metrics for Prometheus, from the lanes' own rows, the publisher's counts and the last status of dispatch.

A scrape is rendered in small slices, and other work runs in between: with ten thousand subscriptions it is 13 MB, which
would block publishing for a third of a second. A request that comes during a scrape gets the result of that one.
"""

import asyncio
from collections.abc import Mapping

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest

from recapito.api.operate import metric_table as table
from recapito.api.operate.cluster_metrics import CLUSTER_TABLE, add_cluster
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
from recapito.observability.status import BusyLane, Gauge, Status

PAGE = 250  # topics read in one page
SLICE = 25  # subscriptions, or topics, rendered without a pause
PART_BYTES = 64 * limits.KB
_RESOURCES = {TopicKind.CUSTOM: "topic", TopicKind.DOMAIN: "domain", TopicKind.SYSTEM: "system_topic"}
_USER_ERRORS = ("BadRequest", "Unauthorized", "Forbidden", "NotFound", "RequestEntityTooLarge", "UnsupportedMediaType")
_NO_ANSWER = frozenset({Result.TIMED_OUT, Result.ABORTED, Result.SOCKET_ERROR, Result.RESOLUTION_ERROR})


class Scraper:
    """Renders one scrape at a time."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._rendering: asyncio.Task[list[bytes]] | None = None

    def __repr__(self) -> str:
        return f"<Scraper {'at work' if self._rendering else 'at rest'}>"

    async def scrape(self) -> list[bytes]:
        """The metrics of this moment, in parts."""
        if self._rendering is None:
            self._rendering = asyncio.create_task(render(self._services))
            self._rendering.add_done_callback(self._forget)
        return await asyncio.shield(self._rendering)

    def _forget(self, rendered: "asyncio.Task[list[bytes]]") -> None:
        self._rendering = None


async def render(services: Services) -> list[bytes]:
    """The metrics of this moment, in parts small enough to be sent quickly."""
    metrics = PrometheusText(table.TABLE if services.cluster is None else (*table.TABLE, *CLUSTER_TABLE))
    if services.cluster is not None:
        add_cluster(metrics, services.cluster())
    topics = await _topics(services.registry)
    ends = (await services.log.news(0)).ends
    _add_publisher(metrics, services)
    for number, topic in enumerate(topics.values()):
        _add_topic(metrics, topic, ends.get(topic.id, 0), services)
        if number % SLICE == 0:
            metrics.pack()
            await asyncio.sleep(0)
    for check, reason in (await services.readiness()).items():
        metrics.add(table.READY, int(reason is None), labels({"check": check}))
    for name, count in (await services.damages.unseen()).items():
        metrics.add(table.DAMAGED, count, labels({"table": name}))
    status = services.dispatch.last
    if status is not None:
        _add_dispatch(metrics, status)
    await _add_subscriptions(metrics, services, topics, ends, status or Status(Gauge()))
    return await _gather([*metrics.to_parts(), _process_metrics()])


async def _gather(parts: list[bytes]) -> list[bytes]:
    """The same bytes in fewer and larger parts."""
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
    """Memory, processor time and open files of this process."""
    registry = CollectorRegistry(auto_describe=False)
    ProcessCollector(registry=registry)
    return generate_latest(registry)


def _add_publisher(metrics: PrometheusText, services: Services) -> None:
    for field, metric in table.PUBLISHER.items():
        metrics.add(metric, getattr(services.publisher.stats, field))
    for (at, how), count in services.wrong_secrets.counts.items():
        metrics.add(table.WRONG_SECRETS, count, labels({"at": at, "answer": how}))
    _add_gauge(metrics, services.publisher.gauge, "intake")


def _add_gauge(metrics: PrometheusText, gauge: Gauge, role: str) -> None:
    written = labels({"role": role})
    metrics.add_histogram(table.COMMIT_SECONDS, gauge.commit_seconds, written)
    metrics.add_histogram(table.COMMIT_SIZE, gauge.commit_size, written)
    metrics.add_histogram(table.LOOP_DELAY, gauge.loop_delay_seconds, written)


def _add_dispatch(metrics: PrometheusText, status: Status) -> None:
    _add_gauge(metrics, status.gauge, "dispatch")
    metrics.add(table.LANES, status.lanes)
    metrics.add(table.REQUESTS, status.requests)
    metrics.add(table.OPEN, status.open)
    metrics.add(table.OPEN_BYTES, status.open_bytes)
    metrics.add(table.LATE, status.late)
    metrics.add(table.BLOCKED, status.blocked)


def _add_topic(metrics: PrometheusText, topic: Topic, end: int, services: Services) -> None:
    counts, resource = services.publisher.counters.of(topic.id), {_RESOURCES[topic.kind]: topic.name}
    written = labels(resource)
    metrics.add(table.PUBLISH_SUCCESS, counts.events, written)
    metrics.add_sum(table.PUBLISH_LATENCY, counts.took_ns / MILLISECOND, counts.publishes, written)
    for error, count in counts.failed.items():
        kind = "User" if error in _USER_ERRORS else "System"
        metrics.add(table.PUBLISH_FAIL, count, labels({**resource, "error_type": kind, "error": error}))
    if topic.kind is not TopicKind.DOMAIN:  # as in Azure
        metrics.add(table.UNMATCHED, counts.unmatched + services.dispatch.unmatched(topic.id), written)
    metrics.add(table.LOG_END, end, labels({"topic": _own_name(topic)}))


async def _add_subscriptions(
    metrics: PrometheusText, services: Services, topics: Mapping[int, Topic], ends: Mapping[int, int], status: Status
) -> None:
    busy = {lane.id: lane for lane in status.busy}
    after = 0
    while page := await services.registry.subscriptions(None, after, SLICE):
        after = page[-1].id
        subscriptions = [
            subscription
            for subscription in page
            if subscription.deleted_position is None and subscription.topic in topics
        ]
        lanes = {
            lane.id: lane
            for lane in await services.ledger.some_lanes([subscription.id for subscription in subscriptions])
        }
        for subscription in subscriptions:
            lane = lanes.get(subscription.id)
            _add_azure(metrics, topics[subscription.topic], subscription, lane)
            _add_ours(metrics, topics[subscription.topic], subscription, lane, ends.get(subscription.topic, 0))
            _add_state(
                metrics,
                topics[subscription.topic],
                subscription,
                busy.get(subscription.id),
                subscription.id in status.stopped,
                subscription.id in status.refused,
            )
        metrics.pack()
        await asyncio.sleep(0)


def _add_azure(metrics: PrometheusText, topic: Topic, subscription: Subscription, lane: LaneRow | None) -> None:
    named = _azure_labels(topic, subscription)
    written = labels(named)
    counts, attempts = (lane.counts, lane.attempts) if lane is not None else (LaneCounts(), AttemptTotals())
    metrics.add(table.MATCHED, counts.matched, written)
    metrics.add(table.DELIVERY_SUCCESS, counts.delivered, written)
    metrics.add(table.EVALUATED, counts.evaluated, written)
    metrics.add_sum(table.DURATION, attempts.took_ns / MILLISECOND, attempts.answers, written)
    for error, count in attempts.failed.items():
        kind = "NoAnswer" if error in _NO_ANSWER else "Answer"
        metrics.add(table.ATTEMPT_FAIL, count, labels({**named, "error_type": kind, "error": error}))
    for reason, count in counts.dropped.items():
        metrics.add(table.DROPPED, count, labels({**named, "drop_reason": reason}))
    for reason, count in all_reasons(counts.reasons, counts.dead_lettered).items():
        metrics.add(table.DEAD_LETTERED, count, labels({**named, "dead_letter_reason": reason}))


def _add_ours(
    metrics: PrometheusText, topic: Topic, subscription: Subscription, lane: LaneRow | None, end: int
) -> None:
    named = _own_labels(topic, subscription)
    written = labels(named)
    counts = LaneCounts() if lane is None else lane.counts
    for field, metric in (*table.COUNTERS.items(), *table.GAUGES.items()):
        metrics.add(metric, getattr(counts, field), written)
    for reason, count in counts.dropped.items():
        metrics.add(table.GIVEN_UP, count, labels({**named, "reason": reason}))
    position = 0 if lane is None else lane.cursor.low[0]
    metrics.add(table.CURSOR, position, written)
    metrics.add(table.UNREAD, max(end - (position or subscription.created_position) + 1, 0), written)
    metrics.add(table.HELD_UNTIL, 0 if lane is None else lane.hold.until / SECOND, written)
    metrics.add(table.FAILURES, 0 if lane is None else lane.hold.failures, written)


def _add_state(
    metrics: PrometheusText,
    topic: Topic,
    subscription: Subscription,
    busy: BusyLane | None,
    stopped: bool,
    refused: bool,
) -> None:
    if busy is None and not stopped and not refused:
        return
    written = labels(_own_labels(topic, subscription))
    if busy is not None:
        metrics.add(table.WINDOW, busy.window, written)
        metrics.add(table.LANE_OPEN, busy.open, written)
    if stopped:
        metrics.add(table.STOPPED, 1, written)
    if refused:
        metrics.add(table.REFUSED, 1, written)


def _azure_labels(topic: Topic, subscription: Subscription) -> dict[str, str]:
    """The resource and the subscription as Azure's dimensions."""
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
    """The name of a topic; other kinds have theirs in front, because each kind has names of its own."""
    return topic.name if topic.kind is TopicKind.CUSTOM else f"{topic.kind}/{topic.name}"
