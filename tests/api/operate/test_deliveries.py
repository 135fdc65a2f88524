"""Deliveries over HTTP: attempts page by page, explanations and rehearsals; by who may manage, with errors by field."""

from typing import Any

import pytest

from recapito.domain.access.roles import Operation, operation_of
from recapito.domain.delivery.vocabulary import DispositionKind, NonRequestOutcome
from recapito.domain.history.attempt import EventDisposition, LaneLabel
from recapito.domain.instant import SECOND, stamp
from recapito.domain.resources.subscription import Subscription
from tests.api.client import World, event, run
from tests.kit.arm_errors import refused
from tests.stores.attempts import attempt, failed

SEEN_AT = 1_700_000_000 * SECOND  # where the world's clock stands


async def prepare(world: World) -> Subscription:
    """A topic, a subscription, and an event with two attempts; and attempts of another subscription."""
    topic = await world.topic()
    mine = await world.subscription()
    await world.publish([event(), event(id="e-2")], topic.key1)
    label = LaneLabel(mine.id, topic.id, "orders", "mine")
    other = LaneLabel(99, 99, "others", "theirs")
    retry = EventDisposition(DispositionKind.RETRY, SEEN_AT + 30 * SECOND, failed("x").dispositions[0].rule)
    at = {"at": SEEN_AT, "position": 3}
    world.history.record(failed("e-1", "e-2", label=label, dispositions=[retry, retry], detail="busy <b>", **at))
    world.history.record(attempt("e-1", label=label, numbers=[2], **at))
    for n in range(15):
        world.history.record(attempt(*(f"o-{m}" for m in range(n, n + 12)), label=other, **at))
    return mine


def test_listed_newest_first() -> None:
    """Attempts have all their fields, of a batch the first ten events, and pages go on where they ended."""

    async def test(world: World) -> None:
        mine = await prepare(world)
        answer = await world.call("GET", "/deliveries?topic=ORDERS&subscription=Mine")
        assert answer.status == 200
        body = answer.json
        assert [one["outcome"] for one in body["value"]] == ["Success", "Busy"]
        assert body["value"][1] == {
            "mark": body["value"][1]["mark"],
            "at": body["value"][1]["at"],
            "tookMs": 125.0,
            "topic": "orders",
            "subscription": "mine",
            "subscriptionId": mine.id,
            "outcome": "Busy",
            "status": 503,
            "detail": "busy <b>",
            "probe": False,
            "late": False,
            "events": [
                {
                    "id": id,
                    "attempt": 1,
                    "then": "retry",
                    "dueAt": stamp(SEEN_AT + 30 * SECOND),
                    "rule": "minimum",
                    "reason": None,
                    "where": None,
                }
                for id in ("e-1", "e-2")
            ],
            "eventCount": 2,
        }
        assert body["next"] is None and body["kept"]["attempts"] == 17 and body["kept"]["notKept"] == 0
        assert body["now"] == stamp(SEEN_AT)
        first = (await world.call("GET", "/deliveries?limit=10")).json
        rest = (await world.call("GET", f"/deliveries?limit=10&before={first['next']}")).json
        marks = [int(one["mark"]) for one in first["value"] + rest["value"]]
        assert marks == sorted(marks, reverse=True) and len(marks) == 17
        assert (len(first["value"][0]["events"]), first["value"][0]["eventCount"]) == (10, 12)

    run(test)


@pytest.mark.parametrize(
    ("query", "unknown"),
    [
        ("topic=nowhere", "topic"),
        ("topic=ORDERS&outcome=TimedOut", None),
        ("topic=orders&subscription=nobody", "subscription"),
        ("topic=orders&subscription=MINE&outcome=TimedOut", None),
        ("subscription=nobody", "subscription"),
        ("subscription=Mine&outcome=TimedOut", None),
        ("topic=others", None),
        ("topic=nowhere&after=0", None),
    ],
)
def test_what_is_asked_for_and_is_not_there(query: str, unknown: str | None) -> None:
    """An empty page names the unknown topic or subscription; deleted ones are found in history."""

    async def test(world: World) -> None:
        await prepare(world)
        assert (await world.call("GET", f"/deliveries?{query}")).json["unknown"] == unknown

    run(test)


def test_followed() -> None:
    """From the newest mark on only what is new comes, oldest first."""

    async def test(world: World) -> None:
        await prepare(world)
        newest = (await world.call("GET", "/deliveries?limit=1")).json["newest"]
        assert (await world.call("GET", f"/deliveries?after={newest}")).json["value"] == []
        world.history.record(attempt("new-1"))
        world.history.record(attempt("new-2"))
        first = (await world.call("GET", f"/deliveries?after={newest}&limit=1")).json
        assert [one["events"][0]["id"] for one in first["value"]] == ["new-1"]
        second = (await world.call("GET", f"/deliveries?after={first['newest']}")).json
        assert [one["events"][0]["id"] for one in second["value"]] == ["new-2"]

    run(test)


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("event=e-2", 1),
        ("event=e-1", 2),
        ("search=e-", 2),
        ("outcome=failed", 1),
        ("outcome=busy&event=e-1", 1),
        ("outcome=TimedOut", 0),
        ("since=2000-01-01&until=2001-01-01T00:00:00Z", 0),
        ("since=2000-01-01", 17),
    ],
)
def test_selected(query: str, found: int) -> None:
    """By event, part of its id, outcome in any case, and time."""

    async def test(world: World) -> None:
        await prepare(world)
        assert len((await world.call("GET", f"/deliveries?{query}")).json["value"]) == found

    run(test)


def test_the_event_that_was_asked_for_is_shown_of_a_batch() -> None:
    """Of a large batch the events that were asked for come first."""

    async def test(world: World) -> None:
        await prepare(world)
        (one,) = (await world.call("GET", "/deliveries?event=o-25")).json["value"]
        assert one["events"][0]["id"] == "o-25" and len(one["events"]) == 10

    run(test)


@pytest.mark.parametrize(
    ("query", "target"),
    [
        ("limit=0", "limit"),
        ("limit=1001", "limit"),
        ("limit=x", "limit"),
        ("outcome=Odd", "outcome"),
        ("since=yesterday", "since"),
        ("until=x", "until"),
        ("before=x", "before"),
        ("after=-1", "after"),
        ("after=1&before=2", "after"),
        ("colour=red", "colour"),
    ],
)
def test_refused_queries(query: str, target: str) -> None:
    """The refusal of a query names the wrong field."""

    async def test(world: World) -> None:
        refused(await world.call("GET", f"/deliveries?{query}"), 400, "InvalidRequest", target)

    run(test)


def test_explained() -> None:
    """An event is explained with all names of the answer."""

    async def test(world: World) -> None:
        mine = await prepare(world)
        answer = await world.call("GET", "/deliveries/explain?event=e-1&topic=orders")
        assert answer.status == 200
        body = answer.json
        assert sorted(body) == ["event", "note", "now", "subscriptions"]
        assert body["event"] == {
            "id": "e-1",
            "type": "Orders.Created",
            "subject": "/orders/1",
            "topic": "orders",
            "publishedAt": stamp(SEEN_AT),
            "position": 3,
            "offset": 0,
        }
        (one,) = body["subscriptions"]
        what = {"subscription", "subscriptionId", "topic", "matched", "decidedBy", "attempts"}
        assert set(one) == what | {"state", "stateText", "next", "expiresAt", "ttlLeftSeconds", "attemptsLeft", "end"}
        assert (one["subscription"], one["subscriptionId"], one["matched"]) == ("mine", mine.id, True)
        assert [len(attempt["events"]) for attempt in one["attempts"]] == [1, 1]
        assert (one["state"], one["end"]["reason"]) == ("delivered", None)

    run(test)


@pytest.mark.parametrize(("oldest", "forgotten"), [(1, False), (2, True)])
def test_a_forgotten_first_attempt_is_noted(oldest: int, forgotten: bool) -> None:
    """The note names missing attempts as soon as the first one is missing."""

    async def test(world: World) -> None:
        topic = await world.topic()
        mine = await world.subscription()
        await world.publish([event()], topic.key1)
        label = LaneLabel(mine.id, topic.id, "orders", "mine")
        world.history.record(attempt("e-1", label=label, numbers=[oldest], at=SEEN_AT, position=3))
        note = (await world.call("GET", "/deliveries/explain?event=e-1")).json["note"]
        assert ("no longer has its first attempts" in note) is forgotten

    run(test)


def test_unknown_events_and_topics() -> None:
    """They are not found, and the message says what that may mean."""

    async def test(world: World) -> None:
        await prepare(world)
        answer = await world.call("GET", "/deliveries/explain?event=nobody")
        assert (answer.status, answer.error["code"]) == (404, "EventNotFound")
        assert "never published here" in answer.error["message"]
        assert (await world.call("GET", "/deliveries/explain?event=e-1&topic=none")).error["code"] == "TopicNotFound"
        refused(await world.call("GET", "/deliveries/explain"), 400, "InvalidRequest", "event")
        refused(await world.call("GET", "/deliveries/explain?event="), 400, "InvalidRequest", "event")

    run(test)


def test_a_rehearsal() -> None:
    """An event that is not published is explained as if it were, and nothing is published."""

    async def test(world: World) -> None:
        topic = await world.topic()
        await world.subscription("takes")
        await world.subscription("refuses", filter={"includedEventTypes": ["Other"]})
        end = await world.log.end(topic.id)
        answer = await world.call("POST", "/deliveries/explain", {"topic": "orders", "event": event(id="r-1")})
        assert answer.status == 200, answer.body
        said = {one["subscription"]: one for one in answer.json["subscriptions"]}
        assert (said["takes"]["matched"], said["takes"]["attempts"], said["takes"]["attemptsLeft"]) == (True, [], 30)
        assert said["takes"]["stateText"] == "It would be sent at once."
        assert said["refuses"]["decidedBy"]["clause"] == "includedEventTypes"
        assert (answer.json["event"]["id"], answer.json["event"]["position"]) == ("r-1", None)
        assert await world.log.end(topic.id) == end

    run(test)


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"topic": "orders", "event": event(eventTime="soon")}, 400, "InputJsonInvalid"),
        ({"topic": "orders", "event": {"id": "x"}}, 400, "InputJsonInvalid"),
        ({"topic": "orders", "event": [event()]}, 400, "InputJsonInvalid"),
        ({"topic": "nowhere", "event": event()}, 404, "TopicNotFound"),
        ({"topic": "orders"}, 400, "InvalidRequest"),
        ({"topic": "orders", "event": event(), "more": 1}, 400, "InvalidRequest"),
        (b"{", 400, "InvalidRequest"),
        (b"[]", 400, "InvalidRequest"),
    ],
)
def test_a_rehearsal_is_checked_as_a_publish(body: Any, status: int, code: str) -> None:
    """An event that a publish would refuse is refused, with its error."""

    async def test(world: World) -> None:
        await world.topic()
        answer = await world.call("POST", "/deliveries/explain", body)
        assert (answer.status, answer.error["code"]) == (status, code), answer.body

    run(test)


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/deliveries"), ("GET", "/deliveries/explain?event=x"), ("POST", "/deliveries/explain")],
)
def test_only_for_who_may_manage(method: str, path: str) -> None:
    """Without a token no caller elsewhere sees deliveries."""

    async def test(world: World) -> None:
        assert (await world.call(method, path, peer="192.0.2.7")).status == 403

    run(test)


def test_explaining_is_reading() -> None:
    """Who may only read may explain, before publishing too."""
    assert operation_of("POST", "/deliveries/explain") is Operation.READ
    assert operation_of("GET", "/deliveries") is Operation.READ


def test_written_dead_letters_say_where() -> None:
    """A dead letter that was written is listed with the place of its file."""

    async def test(world: World) -> None:
        lies = EventDisposition(DispositionKind.DEAD_LETTER, where="box/MINE/2026/1/1/0/guid.json")
        world.history.record(attempt("e-1", outcome=NonRequestOutcome.DEAD_LETTERED, status=None, dispositions=[lies]))
        (one,) = (await world.call("GET", "/deliveries?outcome=deadlettered")).json["value"]
        assert one["events"][0]["where"] == lies.where and one["status"] is None

    run(test)
