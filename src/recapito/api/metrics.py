"""The counts of the conservation law for Prometheus: per subscription, straight from the lanes' own rows."""

from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from recapito.api.services import Services
from recapito.domain.instant import SECOND
from recapito.domain.subscription import Subscription
from recapito.intake.publisher import Stats
from recapito.store import Counts, Lane, Registry

PAGE = 1000
_LABELS = ("topic", "event_subscription")


class Snapshot(Collector):
    """What was read at one moment, as metrics. `topics` maps ids to names, `ends` to the last position of each log."""

    def __init__(
        self,
        topics: dict[int, str],
        ends: dict[int, int],
        subscriptions: list[Subscription],
        lanes: dict[int, Lane],
        stats: Stats,
    ) -> None:
        self._topics = topics
        self._ends = ends
        self._rows = [
            ((topics[one.topic], one.name), lanes.get(one.id)) for one in subscriptions if one.topic in topics
        ]
        self._stats = stats

    def collect(self) -> Iterable[Metric]:
        yield from self._publisher()
        yield from self._counters()
        yield from self._gauges()
        end = GaugeMetricFamily("recapito_log_end_position", "The last position of the topic's log.", labels=["topic"])
        for topic, name in self._topics.items():
            end.add_metric([name], self._ends.get(topic, 0))
        yield end

    def _publisher(self) -> Iterator[Metric]:
        stats = self._stats
        for name, text, value in (
            ("commits", "Commits of published events.", stats.commits),
            ("publishes", "Publish requests stored.", stats.publishes),
            ("published_events", "Events stored.", stats.events),
            ("published_bytes", "Bytes of events stored.", stats.bytes),
            ("publishes_failed", "Publish requests whose commit failed.", stats.failed),
            ("publishes_refused", "Publish requests refused because intake was busy or closed.", stats.refused),
            ("publishes_throttled", "Publish requests refused because of their topic's rate.", stats.throttled),
        ):
            yield CounterMetricFamily(f"recapito_{name}", text, value)

    def _counters(self) -> Iterator[Metric]:
        for name, text in (
            ("matched", "Events that the filter took."),
            ("unmatched", "Events that the filter did not take."),
            ("delivered", "Events delivered."),
            ("dead_lettered", "Events written to the dead-letter destination."),
        ):
            family = CounterMetricFamily(f"recapito_{name}", text, labels=_LABELS)
            for labels, lane in self._rows:
                family.add_metric(labels, getattr(_counts(lane), name))
            yield family
        dropped = CounterMetricFamily("recapito_dropped", "Events given up.", labels=(*_LABELS, "reason"))
        for labels, lane in self._rows:
            for reason, count in _counts(lane).dropped.items():
                dropped.add_metric((*labels, reason), count)
        yield dropped

    def _gauges(self) -> Iterator[Metric]:
        for name, text in (
            ("pending", "Events matched and not yet delivered, dead-lettered or dropped."),
            ("parked", "Deliveries that wait for a retry."),
            ("buried", "Dead letters that wait to be written."),
        ):
            family = GaugeMetricFamily(f"recapito_{name}", text, labels=_LABELS)
            for labels, lane in self._rows:
                family.add_metric(labels, getattr(_counts(lane), name))
            yield family
        held = GaugeMetricFamily("recapito_held_until_seconds", "End of the hold, 0 without one.", labels=_LABELS)
        position = GaugeMetricFamily("recapito_cursor_position", "How far the lane has come.", labels=_LABELS)
        for labels, lane in self._rows:
            held.add_metric(labels, lane.hold.until / SECOND if lane else 0)
            position.add_metric(labels, lane.cursor.low[0] if lane else 0)
        yield held
        yield position


def _counts(lane: Lane | None) -> Counts:
    return Counts() if lane is None else lane.counts


async def render(services: Services) -> bytes:
    """The exposition of this moment."""
    snapshot = Snapshot(
        await _topics(services.registry),
        (await services.log.news(0)).ends,
        await _living_subscriptions(services.registry),
        {lane.id: lane for lane in await services.ledger.lanes()},
        services.publisher.stats,
    )
    registry = CollectorRegistry(auto_describe=False)
    registry.register(snapshot)
    return generate_latest(registry)


async def _topics(registry: Registry) -> dict[int, str]:
    names: dict[int, str] = {}
    after = ""
    while page := await registry.topics(after, PAGE):
        names.update((topic.id, topic.name) for topic in page)
        after = page[-1].key
    return names


async def _living_subscriptions(registry: Registry) -> list[Subscription]:
    living: list[Subscription] = []
    after = 0
    while page := await registry.subscriptions(None, after, PAGE):
        living += [one for one in page if one.deleted_position is None]
        after = page[-1].id
    return living
