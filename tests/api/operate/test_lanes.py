"""The state of subscriptions, and the counts of topics, over HTTP."""

from collections.abc import Sequence
from typing import Any

import pytest

from recapito.contracts.ledger import AttemptTotals, LaneRow
from recapito.domain.delivery.cursor import Cursor
from recapito.domain.delivery.delivery import Delivery, DeliveryId, Parked
from recapito.domain.delivery.hold import Hold
from recapito.domain.delivery.outcome import Result
from recapito.domain.instant import SECOND
from recapito.domain.resources.subscription import Subscription
from recapito.domain.resources.topic import Topic
from recapito.observability.status import DispatchStatus, Gauge, Status
from recapito.stores.memory import MemoryLedger, MemoryLog
from tests.api.client import GROUP, NESTED, TOPIC, World, event, run, webhook
from tests.api.known import Known, bearer
from tests.api.operate.settling import settle
from tests.stores.values import new_subscription, settlement


async def lanes(world: World, query: str = "") -> Any:
    """The names that a query finds."""
    answer = await world.call("GET", f"/lanes{query}")
    assert answer.status == 200, answer.body
    return [one["subscription"] for one in answer.json["value"]]


def test_a_lane_is_shown_whole() -> None:
    """Books, attempts, what waits and why it is held, with the endpoint and never its query."""

    async def test(world: World) -> None:
        topic = await world.topic()
        made = await world.subscription("billing")
        for _ in range(3):
            await world.publish([event()], topic.key1)
        now = world.clock.now()
        await settle(
            world,
            made,
            cursor=Cursor((3, 0)),
            hold=Hold(10, now + 90 * SECOND, 10 * SECOND, Result.BUSY, 503),
            matched=2,
            unmatched=1,
            delivered=1,
            park=[Parked(now, Delivery(DeliveryId(3, 0), 1, b"{}"))],
            attempts=AttemptTotals(2, 7_500_000, {"Busy": 1}),
        )
        answer = await world.call("GET", "/lanes")
        assert answer.json["next"] is None and answer.json["now"].endswith("Z")
        (shown,) = answer.json["value"]
        hold = shown.pop("hold")
        assert shown == {
            "id": made.id,
            "topic": "orders",
            "topicKind": "custom",
            "domainTopic": None,
            "subscription": "billing",
            "resourceId": f"{NESTED}/billing",
            "endpointType": "WebHook",
            "endpoint": "https://example.com/hook",
            "provisioningState": "Succeeded",
            "matched": 2,
            "unmatched": 1,
            "delivered": 1,
            "deadLettered": 0,
            "deadLetterReasons": {},
            "dropped": {},
            "pending": 1,
            "parked": 1,
            "buried": 0,
            "unread": 3,
            "waiting": 4,
            "failedAttempts": {"Busy": 1},
            "answers": 2,
            "tookMs": 7.5,
            "failuresInARow": 10,
            "nextDueAt": hold["until"],
            "options": {"signingSecrets": 0, "maxRequests": None, "eventsPerSecond": None},
            "stopped": None,
        }
        assert (hold["failures"], hold["periodSeconds"], hold["on"]) == (10, 10, True)
        assert hold["reason"] == (
            f"10 events in a row failed at the first attempt, the last: Busy (503); held until {hold['until']}, then "
            "everything that waits is tried"
        )
        assert b"secret" not in answer.body

    run(test)


def test_a_subscription_without_a_lane_is_shown() -> None:
    """One that dispatch has not met yet has empty books, and everything since it was made is unread."""

    async def test(world: World) -> None:
        topic = await world.topic()
        await world.subscription()
        await world.publish([event()], topic.key1)
        (shown,) = (await world.call("GET", "/lanes")).json["value"]
        assert (shown["matched"], shown["unread"], shown["hold"], shown["nextDueAt"]) == (0, 2, None, None)

    run(test)


def test_lanes_are_chosen() -> None:
    """By topic, name, part of a name, and whether they fail; names compare without case; a deleted one is gone."""

    async def test(world: World) -> None:
        await world.topic()
        made = {name: await world.subscription(name) for name in ("billing", "shipping", "audit", "gone")}
        await world.arm("DELETE", f"{NESTED}/gone")
        await world.arm("PUT", f"{GROUP}/topics/others", {"location": "westus2"})
        other = f"{GROUP}/topics/others/eventSubscriptions/billing"
        await world.arm("PUT", other, {"properties": {"destination": webhook()}})
        await settle(world, made["shipping"], hold=Hold(10, 5, 5 * SECOND, Result.BUSY))
        await settle(world, made["audit"], matched=1, park=[Parked(1, Delivery(DeliveryId(3, 0), 1, b"{}"))])
        await settle(world, made["billing"], hold=Hold(3))
        assert await lanes(world) == ["billing", "shipping", "audit", "billing"]
        assert await lanes(world, "?topic=ORDERS") == ["billing", "shipping", "audit"]
        assert await lanes(world, "?topic=nowhere") == []
        assert await lanes(world, "?subscription=Billing") == ["billing", "billing"]
        assert await lanes(world, "?subscription=billing&topic=others") == ["billing"]
        assert await lanes(world, "?search=PPI") == ["shipping"]
        assert await lanes(world, "?failing=true") == ["billing", "shipping", "audit"]
        assert await lanes(world, "?failing=true&topic=others") == []
        assert await lanes(world, f"?resourceId={other.upper()}") == ["billing"]
        assert await lanes(world, f"?resourceId={NESTED}/gone") == await lanes(world, f"?resourceId={TOPIC}") == []

    run(test)


class CountingLog(MemoryLog):
    """Counts the subscriptions and topics that are read."""

    read = 0

    async def topic_by_id(self, id: int) -> Topic | None:
        self.read += 1
        return await super().topic_by_id(id)

    async def subscription(self, topic: int, name: str, domain_topic: str | None = None) -> Subscription | None:
        self.read += 1
        return await super().subscription(topic, name, domain_topic)

    async def subscription_by_id(self, id: int) -> Subscription | None:
        self.read += 1
        return await super().subscription_by_id(id)

    async def subscriptions(self, topic: int | None, after: int, limit: int) -> list[Subscription]:
        found = await super().subscriptions(topic, after, limit)
        self.read += len(found)
        return found


class CountingLedger(MemoryLedger):
    """Counts the lanes that are read."""

    read = 0

    async def some_lanes(self, ids: Sequence[int]) -> list[LaneRow]:
        found = await super().some_lanes(ids)
        self.read += len(found)
        return found

    async def troubled_lanes(self, after: int, limit: int) -> list[LaneRow]:
        found = await super().troubled_lanes(after, limit)
        self.read += len(found)
        return found


def test_a_page_costs_its_own_rows() -> None:
    """Each query of the portal reads the rows that it shows and one more, however many subscriptions there are."""

    async def test(world: World) -> None:
        topic = await world.topic()
        for n in range(2_000):
            made = await log.put_subscription(new_subscription(topic.id, f"sub-{n}"))
            await ledger.open_lane(made.id, topic.id, log.id, made.created_position)
        for id in (5, 900, 1_800):
            row = await ledger.lane(id)
            assert row is not None
            await ledger.settle([settlement(row, hold=Hold(10, 5, 5 * SECOND, Result.BUSY))])
        for query, shown in {
            "?limit=10&after=1500": 10,
            "?topic=orders&limit=25": 25,
            "?topic=orders&limit=25&after=1990": 10,
            "?failing=true&limit=2": 2,
            "?failing=true&limit=10": 3,
            "?topic=orders&subscription=sub-1999": 1,
            f"?resourceId={NESTED}/sub-1999": 1,
        }.items():
            log.read = ledger.read = 0
            assert len(await lanes(world, query)) == shown, query
            assert log.read <= shown + 3, query
            assert ledger.read <= 2 * (shown + 1), query

    log, ledger = CountingLog(), CountingLedger()
    run(test, log=log, ledger=ledger)


def test_lanes_come_in_pages() -> None:
    """Each page says where the next begins; together they are the whole, also of what is chosen."""

    async def test(world: World) -> None:
        await world.topic()
        names = [f"sub-{n}" for n in range(5)]
        for name in names:
            await world.subscription(name)
        found: list[str] = []
        after = ""
        for _ in range(3):
            answer = await world.call("GET", f"/lanes?limit=2&search=sub&after={after}")
            found += [one["subscription"] for one in answer.json["value"]]
            after = answer.json["next"]
        assert found == names and after is None

    run(test)


def test_subscriptions_of_a_domain_have_their_topic() -> None:
    """One of a domain topic names it, also in its resource id; one of the domain itself does not."""

    async def test(world: World) -> None:
        domain = f"{GROUP}/domains/orders"
        await world.arm("PUT", domain, {"location": "westus2"})
        body = {"properties": {"destination": webhook()}}
        await world.arm("PUT", f"{domain}/topics/alpha/eventSubscriptions/mine", body)
        await world.arm("PUT", f"{domain}/eventSubscriptions/mine", body)
        value = (await world.call("GET", "/lanes?topic=orders")).json["value"]
        assert [(one["topicKind"], one["domainTopic"]) for one in value] == [("domain", "alpha"), ("domain", None)]
        assert value[0]["resourceId"] == f"{domain}/topics/alpha/eventSubscriptions/mine"

    run(test)


@pytest.mark.parametrize(
    ("query", "target"),
    [
        ("limit=0", "limit"),
        ("limit=1001", "limit"),
        ("limit=ten", "limit"),
        ("after=x", "after"),
        ("failing=maybe", "failing"),
        ("topics=orders", "topics"),
        (f"search={'x' * 300}", "search"),
    ],
)
def test_a_wrong_question_is_refused(query: str, target: str) -> None:
    """The error names the parameter."""

    async def test(world: World) -> None:
        answer = await world.call("GET", f"/lanes?{query}")
        assert (answer.status, answer.error["target"]) == (400, target)

    run(test)


def test_who_may_not_manage_sees_nothing() -> None:
    """Elsewhere than on loopback a token is needed; who may read may see both."""
    known = Known()

    async def test(world: World) -> None:
        for path in ("/lanes", "/counts"):
            assert (await world.call("GET", path, peer="192.0.2.1")).status == 403
            read = await world.call("GET", path, peer="192.0.2.1", headers=bearer(known.token("reader")))
            assert read.status == 200
            assert (await world.call("GET", path, headers=bearer(known.token("nothing")))).status == 403

    run(test, access=known.access)


def test_publishes_are_counted_by_topic() -> None:
    """Events, bytes and refusals of each topic since the start; a name that is not there counts nowhere."""

    async def test(world: World) -> None:
        topic = await world.topic()
        await world.subscription()
        await world.publish([event(), event()], topic.key1)
        await world.publish([event(id="")], topic.key1)
        await world.publish([event()], "wrong")
        await world.call("POST", "/topics/nowhere/api/events", [event()])
        answer = await world.call("GET", "/counts")
        (shown,) = answer.json["value"]
        assert shown.pop("publishedBytes") > 0
        assert shown == {
            "topic": "orders",
            "topicKind": "custom",
            "published": 2,
            "publishFailed": {"BadRequest": 1, "Unauthorized": 1},
            "unmatched": 0,
            "subscriptions": 1,
        }
        assert answer.json["next"] is None

    run(test)


def test_what_no_subscription_took_is_counted() -> None:
    """Events that came while a topic had no subscription, and those that dispatch found no lane for."""

    async def test(world: World) -> None:
        topic = await world.topic()
        await world.publish([event()] * 3, topic.key1)
        world.publisher.counters.check_subscribed(set())
        (shown,) = (await world.call("GET", "/counts?topic=Orders")).json["value"]
        assert (shown["unmatched"], shown["subscriptions"]) == (3 + 40, 0)

    heard = DispatchStatus()
    heard.update(Status(Gauge(), unmatched={1: 40}))
    run(test, dispatch=heard)


def test_counts_come_in_pages_and_by_name() -> None:
    """Each page says where the next begins; a name finds topics of every kind."""

    async def test(world: World) -> None:
        for kind, name in (("topics", "orders"), ("domains", "orders"), ("topics", "others")):
            await world.arm("PUT", f"{GROUP}/{kind}/{name}", {"location": "westus2"})
        first = (await world.call("GET", "/counts?limit=2")).json
        rest = (await world.call("GET", f"/counts?limit=2&after={first['next']}")).json
        names = [one["topic"] for one in first["value"] + rest["value"]]
        assert names == ["orders", "orders", "others"] and rest["next"] is None
        named = (await world.call("GET", "/counts?topic=orders")).json["value"]
        assert [one["topicKind"] for one in named] == ["custom", "domain"]
        several = (await world.call("GET", "/counts?topic=others,nowhere,orders")).json["value"]
        assert [one["topic"] for one in several] == ["others", "orders", "orders"]
        assert (await world.call("GET", f"/counts?topic={',' * 5000}")).error["target"] == "topic"
        assert (await world.call("GET", "/counts?limit=0")).error["target"] == "limit"

    run(test)


def test_a_stopped_lane_is_among_those_that_fail() -> None:
    """Something is wrong with it, whatever its books say."""

    async def test(world: World) -> None:
        await world.topic()
        made = {name: await world.subscription(name) for name in ("well", "stopped")}
        heard.update(Status(Gauge(), stopped={made["stopped"].id: "its record is damaged"}))
        assert await lanes(world, "?failing=true") == ["stopped"]

    heard = DispatchStatus()
    run(test, dispatch=heard)
