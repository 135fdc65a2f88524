"""The content of /metrics: Azure Monitor's metrics with their dimensions, and the state of both roles."""

import asyncio
from typing import Any

from msgspec.structs import replace
from prometheus_client.parser import text_string_to_metric_families

from recapito.api.operate.metric_table import TABLE
from recapito.api.operate.metrics import PART_BYTES, SLICE
from recapito.api.operate.prometheus_text import Metric, PrometheusText, labels
from recapito.contracts.ledger import AttemptTotals, DeadLetterGroup, Drop, Settlement
from recapito.domain.histogram import SECONDS, SIZES, histogram
from recapito.domain.resources.subscription import Subscription
from recapito.observability.status import BusyLane, DispatchStatus, Gauge, Status, to_bytes
from tests.api.client import GROUP, World, event, run, webhook
from tests.stores.values import burial

Series = dict[tuple[str, frozenset[tuple[str, str]]], float]


async def scrape(world: World) -> Series:
    """All series of this moment."""
    answer = await world.call("GET", "/metrics")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    families = list(text_string_to_metric_families(answer.body.decode()))
    samples = [one for family in families for one in family.samples]
    series = {(one.name, frozenset(one.labels.items())): one.value for one in samples}
    assert len(series) == len(samples), "a series is there twice"
    return series


def value(series: Series, name: str, **labels: str) -> float:
    """One sample."""
    return series[name, frozenset(labels.items())]


async def settle(world: World, made: Subscription, **parts: Any) -> None:
    """Settle the lane of a subscription."""
    row = await world.ledger.open_lane(made.id, made.topic, world.log.id, made.created_position)
    await world.ledger.settle([Settlement(row.id, row.version, row.cursor, row.hold, **parts)])


def test_publishing_has_azures_metrics() -> None:
    """Events stored, requests that failed by error, and the time it took, by topic."""

    async def test(world: World) -> None:
        topic = await world.topic()
        await world.publish([event(), event()], topic.key1)
        await world.publish([event(id="")], topic.key1)
        await world.publish([event()], "wrong")
        world.publisher.counters.check_subscribed(set())
        series = await scrape(world)
        assert value(series, "eventgrid_publish_success_count_total", topic="orders") == 2
        failed = "eventgrid_publish_fail_count_total"
        assert value(series, failed, topic="orders", error_type="User", error="BadRequest") == 1
        assert value(series, failed, topic="orders", error_type="User", error="Unauthorized") == 1
        assert value(series, "eventgrid_publish_success_latency_ms_count", topic="orders") == 1
        assert value(series, "eventgrid_unmatched_event_count_total", topic="orders") == 2
        assert value(series, "recapito_commit_size_count", role="intake") == 1

    run(test)


def test_delivery_has_azures_metrics() -> None:
    """Counts of matched, delivered, failed (by result) and dropped (by reason) events, and the endpoint's times."""

    async def test(world: World) -> None:
        await world.topic()
        made = await world.subscription()
        drops = [Drop((1, n), "TimeToLiveExceeded") for n in range(2)]
        attempts = AttemptTotals(4, 2_500_000, {"Busy": 3, "TimedOut": 1})
        await settle(world, made, matched=5, delivered=3, drop=drops, attempts=attempts, evaluated=9)
        series = await scrape(world)
        mine = {"topic": "orders", "event_subscription_name": "mine"}
        assert value(series, "eventgrid_matched_event_count_total", **mine) == 5
        assert value(series, "eventgrid_delivery_success_count_total", **mine) == 3
        assert value(series, "eventgrid_advanced_filter_evaluation_count_total", **mine) == 9
        assert value(series, "eventgrid_dropped_event_count_total", **mine, drop_reason="TimeToLiveExceeded") == 2
        failed = "eventgrid_delivery_attempt_fail_count_total"
        assert value(series, failed, **mine, error="Busy", error_type="Answer") == 3
        assert value(series, failed, **mine, error="TimedOut", error_type="NoAnswer") == 1
        assert value(series, "eventgrid_destination_processing_duration_ms_sum", **mine) == 2.5
        assert value(series, "eventgrid_destination_processing_duration_ms_count", **mine) == 4

    run(test)


def test_dead_letters_have_their_reason() -> None:
    """Those whose reason was not counted are unknown: the reasons together are all dead letters, in /lanes as well."""

    async def test(world: World) -> None:
        await world.topic()
        made = await world.subscription()
        await settle(world, made, matched=4, bury=[burial(1, n) for n in range(4)])
        for path, offsets, reasons in (("one", (0, 1, 2), {"TimeToLiveExceeded": 2}), ("two", (3,), {})):
            group = DeadLetterGroup(made.id, "dead", None, None, [burial(1, n) for n in offsets])
            await world.ledger.name_group(group, path, 1)
            await world.ledger.written(made.id, path, reasons=reasons)
        series = await scrape(world)
        shown = {
            dict(labels)["dead_letter_reason"]: number
            for (name, labels), number in series.items()
            if name == "eventgrid_dead_lettered_count_total"
        }
        assert shown == {"TimeToLiveExceeded": 2, "Unknown": 2}
        (lane,) = (await world.call("GET", "/lanes")).json["value"]
        assert (lane["deadLettered"], lane["deadLetterReasons"]) == (4, shown)

    run(test)


def test_a_domain_has_its_own_dimensions() -> None:
    """A subscription of a domain topic names the topic, one of the domain has a name of its own; names may be alike."""

    async def test(world: World) -> None:
        await world.topic()
        await world.subscription()
        domain = f"{GROUP}/domains/orders"
        await world.arm("PUT", domain, {"location": "westus2"})
        body = {"properties": {"destination": webhook()}}
        for place in ("", "/topics/alpha", "/topics/beta"):
            await world.arm("PUT", f"{domain}{place}/eventSubscriptions/mine", body)
        series = await scrape(world)
        matched = {frozenset(labels) for name, labels in series if name == "eventgrid_matched_event_count_total"}
        assert matched == {
            frozenset({("topic", "orders"), ("event_subscription_name", "mine")}),
            frozenset({("domain", "orders"), ("domain_event_subscription_name", "mine")}),
            frozenset({("domain", "orders"), ("topic", "alpha"), ("event_subscription_name", "mine")}),
            frozenset({("domain", "orders"), ("topic", "beta"), ("event_subscription_name", "mine")}),
        }
        assert value(series, "recapito_pending", topic="domains/orders", event_subscription="alpha/mine") == 0
        assert ("eventgrid_unmatched_event_count_total", frozenset({("domain", "orders")})) not in series

    run(test)


def test_what_dispatch_says_is_shown() -> None:
    """Open requests, windows, stopped lanes and its own histograms, as its last status has them."""
    heard = DispatchStatus()

    async def test(world: World) -> None:
        assert ("recapito_open_requests", frozenset[Any]()) not in await scrape(world)
        await world.topic()
        made = await world.subscription()
        gauge = Gauge()
        gauge.committed(7_000_000, 3)
        gauge.loop_delay_seconds.observe(0.2)
        busy, stopped = [BusyLane(made.id, 8, 5)], {made.id: "poison"}
        status = Status(gauge, 1, 100, 5, 999, 2, busy, stopped, {made.topic: 4}, blocked=3)
        heard.update_from(to_bytes(status))
        heard.update_from(b"!")
        heard.update_from(to_bytes(status))
        series = await scrape(world)
        mine = {"topic": "orders", "event_subscription": "mine"}
        assert value(series, "recapito_window_requests", **mine) == 8
        assert value(series, "recapito_lane_open_requests", **mine) == 5
        assert value(series, "recapito_lane_stopped", **mine) == 1
        assert value(series, "recapito_requests_total") == 100
        assert value(series, "recapito_open_requests") == 5
        assert value(series, "recapito_late_requests") == 2
        assert value(series, "recapito_blocked_lanes") == 3
        assert "3 subscriptions wait" in (heard.problem() or "")
        assert value(series, "recapito_commit_seconds_bucket", role="dispatch", le="0.01") == 1
        assert value(series, "recapito_commit_seconds_bucket", role="dispatch", le="0.005") == 0
        assert value(series, "recapito_loop_delay_seconds_count", role="dispatch") == 1
        assert value(series, "eventgrid_unmatched_event_count_total", topic="orders") == 8
        (lane,) = (await world.call("GET", "/lanes")).json["value"]
        assert lane["stopped"] == "poison"

    run(test, dispatch=heard)


def test_checks_are_metrics() -> None:
    """Each check of readiness is 1 or 0: an alert needs nothing else."""

    async def test(world: World) -> None:
        series = await scrape(world)
        assert value(series, "recapito_ready", check="store") == 1
        assert value(series, "recapito_ready", check="disk") == 0

    run(test, readiness={"store": None, "disk": "nearly full"})


def test_every_metric_is_announced() -> None:
    """Help and type of each metric are there before it has a sample; names and labels are well-formed and unique."""

    async def test(world: World) -> None:
        text = (await world.call("GET", "/metrics")).body.decode()
        for metric in TABLE:
            assert f"# HELP {metric.shown_name} {metric.help}\n" in text
            assert f"# TYPE {metric.shown_name} {metric.type}\n" in text
        assert "process_resident_memory_bytes" in text
        assert len({metric.name for metric in TABLE}) == len(TABLE)

    run(test)


def test_labels_are_escaped() -> None:
    """Quotes, backslashes and line ends cannot break out of a label."""
    metric = Metric("odd", "gauge", "Odd.")
    exposition = PrometheusText([metric])
    odd = 'a"b\\c\nd'
    exposition.add(metric, 1, labels({"name": odd, "empty": ""}))
    (family,) = text_string_to_metric_families(b"".join(exposition.to_parts()).decode())
    assert family.samples[0].labels == {"name": odd}


def test_a_histogram_counts_under_its_bounds() -> None:
    """A value on a bound lies under it, one above all lies in the last place, and the sum is of all."""
    seen = histogram((1.0, 2.0))
    for each in (0.5, 1.0, 1.5, 9.0):
        seen.observe(each)
    assert list(seen.cumulative()) == [(1.0, 2), (2.0, 3), (float("inf"), 4)]
    assert seen.sum == 12.0
    assert list(SECONDS) == sorted(SECONDS) and list(SIZES) == sorted(SIZES)


def test_a_scrape_never_holds_up_the_loop_for_long() -> None:
    """With many subscriptions others get their turn after each slice, and the body comes in parts."""

    async def test(world: World) -> None:
        await world.topic()
        made = await world.subscription()
        for n in range(10 * SLICE):
            await world.log.put_subscription(replace(made, id=0, name=f"many-{n}"))
        turns = 0

        async def count_turns() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        counting = asyncio.create_task(count_turns())
        answer = await world.call("GET", "/metrics")
        counting.cancel()
        assert turns > 10 + len(answer.body) // PART_BYTES
        assert int(answer.headers["content-length"]) == len(answer.body) > 2 * PART_BYTES
        assert answer.body.count(b"recapito_pending{") == 10 * SLICE + 1

    run(test)


def test_scrapes_at_once_are_one() -> None:
    """Scrapes that come while one is rendered get the same text, and the next one is new."""

    async def test(world: World) -> None:
        topic = await world.topic()
        one, two = await asyncio.gather(world.call("GET", "/metrics"), world.call("GET", "/metrics"))
        assert one.body == two.body
        await world.publish([event()], topic.key1)
        assert value(await scrape(world), "eventgrid_publish_success_count_total", topic="orders") == 1

    run(test)
