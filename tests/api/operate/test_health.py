"""Health, readiness, metrics and the clock."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from recapito.contracts.ledger import Burial, Drop, Settlement
from recapito.domain.delivery.cursor import Cursor
from recapito.domain.delivery.delivery import Delivery, DeliveryId, Parked
from recapito.domain.delivery.hold import Hold
from tests.api.client import NESTED, World, event, run


def test_health() -> None:
    """While the process serves, it says so, to anybody."""

    async def test(world: World) -> None:
        answer = await world.call("GET", "/healthz", peer="10.0.0.5", headers={"host": "recapito.example"})
        assert (answer.status, answer.json) == (200, {"status": "ok"})

    run(test)


def test_ready() -> None:
    """When every check passes the answer is 200."""

    async def test(world: World) -> None:
        answer = await world.call("GET", "/readyz")
        assert (answer.status, answer.json["status"]) == (200, "ready")

    run(test)


def test_not_ready() -> None:
    """One check that fails makes it 503, with the reason."""

    async def test(world: World) -> None:
        answer = await world.call("GET", "/readyz")
        assert answer.status == 503
        assert answer.json == {"status": "not ready", "checks": {"store": "ok", "disk": "nearly full", "damage": "ok"}}

    run(test, readiness={"store": None, "disk": "nearly full"})


def test_welcome() -> None:
    """The root says what this is and where to go on."""

    async def test(world: World) -> None:
        answer = await world.call("GET", "/")
        assert (answer.status, answer.json["service"]) == (200, "recapito")

    run(test)


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics", "/clock", "/"])
def test_only_get(path: str) -> None:
    """Looking changes nothing, so only GET is allowed."""

    async def test(world: World) -> None:
        answer = await world.call("POST", path)
        assert (answer.status, answer.error["code"]) == (405, "MethodNotAllowed")

    run(test)


async def scrape(world: World) -> dict[tuple[str, ...], float]:
    answer = await world.call("GET", "/metrics")
    assert answer.status == 200
    assert answer.headers["content-type"].startswith("text/plain")
    samples = [one for family in text_string_to_metric_families(answer.body.decode()) for one in family.samples]
    order = ("topic", "event_subscription", "reason")
    return {(one.name, *(one.labels[key] for key in order if key in one.labels)): one.value for one in samples}


def test_metrics_before_dispatch_has_seen_anything() -> None:
    """A subscription without a lane has zeros, and the publisher's counts are there."""

    async def test(world: World) -> None:
        topic = await world.topic()
        await world.subscription()
        await world.publish([event(), event()], topic.key1)
        metrics = await scrape(world)
        assert metrics["recapito_matched_total", "orders", "mine"] == 0
        assert metrics["recapito_pending", "orders", "mine"] == 0
        assert metrics["recapito_commits_total",] == metrics["recapito_publishes_total",] == 1
        assert metrics["recapito_published_events_total",] == 2
        assert metrics["recapito_log_end_position", "orders"] == 3

    run(test)


def test_metrics_are_the_books_of_the_lane() -> None:
    """Every count of the conservation law is shown per subscription, and they add up."""

    async def test(world: World) -> None:
        topic = await world.topic()
        made = await world.subscription()
        lane = await world.ledger.open_lane(made.id, topic.id, world.log.id, made.created_position)
        delivery = Delivery(DeliveryId(3, 0), 1, b"{}")
        await world.ledger.settle(
            [
                Settlement(
                    lane.id,
                    lane.version,
                    Cursor((9, 0)),
                    Hold(10, 5_500_000_000, 1),
                    matched=10,
                    unmatched=4,
                    delivered=5,
                    park=[Parked(7, delivery)],
                    bury=[Burial(DeliveryId(4, 0), 1, "orders", b"{}")],
                    drop=[Drop(DeliveryId(5, n), "TimeToLiveExceeded") for n in range(3)],
                )
            ]
        )
        metrics = await scrape(world)
        labels = ("orders", "mine")
        shown = {name.removeprefix("recapito_"): value for (name, *rest), value in metrics.items() if rest == [*labels]}
        assert shown == {
            "matched_total": 10,
            "unmatched_total": 4,
            "delivered_total": 5,
            "dead_lettered_total": 0,
            "pending": 2,
            "parked": 1,
            "buried": 1,
            "held_until_seconds": 5.5,
            "hold_failures": 10,
            "cursor_position": 9,
            "unread_entries": 0,
        }
        assert metrics["recapito_dropped_total", *labels, "TimeToLiveExceeded"] == 3

    run(test)


def test_a_deleted_subscription_is_no_series() -> None:
    """A name that was deleted and used again is one series, not two."""

    async def test(world: World) -> None:
        await world.topic()
        await world.subscription()
        await world.arm("DELETE", f"{NESTED}/mine")
        await world.subscription()
        answer = await world.call("GET", "/metrics")
        assert answer.body.count(b"\nrecapito_matched_total{") == 1

    run(test)


class Control:
    """A clock control that notes what it is asked."""

    def __init__(self) -> None:
        self.asked: list[float | str] = []

    async def advance(self, seconds: float) -> Mapping[str, object]:
        self.asked.append(seconds)
        return {"attempts": 3}

    async def until_idle(self) -> Mapping[str, object]:
        self.asked.append("idle")
        return {"attempts": 0}

    async def sleep(self, seconds: float) -> None:
        self.asked.append(-seconds)


def test_the_clock_is_shown() -> None:
    """GET /clock says the time, with seven digits, and how the clock runs."""

    async def test(world: World) -> None:
        answer = await world.call("GET", "/clock")
        assert answer.json == {"now": "2023-11-14T22:13:20.0000000Z", "mode": "system"}

    run(test)


@pytest.mark.parametrize(
    ("body", "asked"),
    [({"seconds": 0}, 0), ({"seconds": 1.5}, 1.5), ({"seconds": 30 * 86400}, 30 * 86400), ({"until": "idle"}, "idle")],
)
def test_a_manual_clock_is_moved(body: Any, asked: float | str) -> None:
    """The results of the move come back, with the time after it."""
    control = Control()

    async def test(world: World) -> None:
        answer = await world.call("POST", "/clock/advance", body)
        assert answer.status == 200
        assert {"now", "attempts"} == set(answer.json)

    run(test, clock_control=control)
    assert control.asked == [asked]


@pytest.mark.parametrize(
    ("body", "target"),
    [
        (b"", None),
        (b"[]", None),
        ({}, None),
        ({"seconds": 1, "until": "idle"}, None),
        ({"seconds": -1}, "seconds"),
        ({"seconds": 30 * 86400 + 1}, "seconds"),
        ({"seconds": "1"}, "seconds"),
        (b'{"seconds": NaN}', None),
        (b'{"seconds": 1e400}', "seconds"),
        ({"until": "tomorrow"}, "until"),
        ({"until": 1}, "until"),
        ({"minutes": 1}, "minutes"),
    ],
)
def test_bad_moves(body: Any, target: str | None) -> None:
    """Anything but a number of seconds or until idle is 400, and the clock stays."""
    control = Control()

    async def test(world: World) -> None:
        answer = await world.call("POST", "/clock/advance", body)
        assert (answer.status, answer.error["target"]) == (400, target)

    run(test, clock_control=control)
    assert control.asked == []


@pytest.mark.parametrize("path", ["/clock/advance", "/clock/sleep"])
def test_a_clock_that_runs_can_not_be_moved(path: str) -> None:
    """409 says how to start with a manual clock."""

    async def test(world: World) -> None:
        answer = await world.call("POST", path, {"seconds": 1})
        assert (answer.status, answer.error["code"]) == (409, "ClockNotManual")
        assert "--clock manual" in answer.error["message"]

    run(test)


def test_sleeping_by_a_manual_clock() -> None:
    """The answer comes when the clock has moved so far."""
    control = Control()

    async def test(world: World) -> None:
        answer = await world.call("POST", "/clock/sleep", {"seconds": 40})
        assert (answer.status, set(answer.json)) == (200, {"now"})

    run(test, clock_control=control)
    assert control.asked == [-40]


@pytest.mark.parametrize("body", [b"", {}, {"seconds": -1}, {"seconds": 30 * 86400 + 1}, {"until": "idle"}])
def test_bad_sleeps(body: Any) -> None:
    """Anything but a number of seconds is 400, and nothing sleeps."""
    control = Control()

    async def test(world: World) -> None:
        assert (await world.call("POST", "/clock/sleep", body)).status == 400

    run(test, clock_control=control)
    assert control.asked == []


def test_who_hangs_up_sleeps_no_more() -> None:
    """A sleeper that is gone is not waited for."""

    class Endless(Control):
        async def sleep(self, seconds: float) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                self.asked.append("woken")

    control = Endless()

    async def test(world: World) -> None:
        await world.call("POST", "/clock/sleep", {"seconds": 40})

    run(test, clock_control=control)
    assert control.asked == ["woken"]


def test_the_clock_is_for_this_machine_only() -> None:
    """Another peer, or a web page from elsewhere, neither sees nor moves the clock."""
    control = Control()

    async def test(world: World) -> None:
        for method, path in (("GET", "/clock"), ("POST", "/clock/advance")):
            assert (await world.call(method, path, {"seconds": 1}, peer="10.0.0.5")).status == 403
            assert (
                await world.call(method, path, {"seconds": 1}, headers={"origin": "http://evil.example"})
            ).status == 403

    run(test, clock_control=control)
    assert control.asked == []


def test_the_lifespan_of_the_application() -> None:
    """The server's start and stop messages are answered."""

    async def test(world: World) -> None:
        messages = iter([{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}])
        answers: list[str] = []

        async def receive() -> Any:
            return next(messages)

        async def send(message: Any) -> None:
            answers.append(message["type"])

        await world.app({"type": "lifespan", "state": {}}, receive, send)
        assert answers == ["lifespan.startup.complete", "lifespan.shutdown.complete"]

    run(test)
