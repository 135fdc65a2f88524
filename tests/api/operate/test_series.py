"""Attempts counted by time, sums of all books, and events that are resent, over HTTP."""

import pytest

from recapito.contracts.ledger import AttemptTotals
from recapito.contracts.log import EntryKind
from recapito.domain.access.roles import Operation, operation_of
from recapito.domain.delivery.cursor import Cursor
from recapito.domain.delivery.delivery import Delivery, DeliveryId, Parked
from recapito.domain.delivery.kept_headers import RawHeaders
from recapito.domain.events.segment import Segment
from recapito.domain.history.attempt import LaneLabel
from recapito.domain.instant import SECOND, stamp
from tests.api.client import World, event, run
from tests.api.operate.settling import settle
from tests.stores.attempts import attempt, failed

SEEN_AT = 1_700_000_000 * SECOND  # the instant of the world's clock


def test_attempts_by_time() -> None:
    """Buckets are of the selected attempts, have instants, and a client follows by the mark."""

    async def test(world: World) -> None:
        label = LaneLabel(1, 1, "orders", "mine")
        world.history.record(attempt("a", "b", at=SEEN_AT - 90 * SECOND, label=label))
        world.history.record(failed("c", at=SEEN_AT, label=label))
        world.history.record(attempt("d", at=SEEN_AT))
        body = (await world.call("GET", "/deliveries/series?topic=orders&subscription=MINE&seconds=60")).json
        counts = [(one["delivered"], one["failed"], one["answers"], one["tookMs"]) for one in body["value"]]
        assert counts == [(2, 0, 1, 125.0), (0, 1, 1, 125.0)]
        assert body["value"][1]["at"] == stamp(SEEN_AT // (60 * SECOND) * 60 * SECOND)
        assert body["complete"] and body["now"] == stamp(SEEN_AT)
        world.history.record(attempt("e", at=SEEN_AT, label=label))
        new = (await world.call("GET", f"/deliveries/series?seconds=60&after={body['newest']}")).json
        assert [one["delivered"] for one in new["value"]] == [1]
        recent = (await world.call("GET", "/deliveries/series?buckets=1")).json
        assert sum(one["delivered"] for one in recent["value"]) == 2

    run(test)


@pytest.mark.parametrize(
    ("query", "target"),
    [("seconds=0", "seconds"), ("buckets=2000", "buckets"), ("after=x", "after")],
)
def test_a_wrong_series_is_refused(query: str, target: str) -> None:
    """The error names the field; a series has a bounded number of buckets."""

    async def test(world: World) -> None:
        assert (await world.call("GET", f"/deliveries/series?{query}")).error["target"] == target

    run(test)


def test_the_sums_of_all_books() -> None:
    """Totals add up every living subscription; the backlog has the events that are unread."""

    async def test(world: World) -> None:
        topic = await world.topic()
        made = [await world.subscription(f"sub-{n}") for n in range(2)]
        await world.publish([event(), event(id="e-2")], topic.key1)
        parked = [Parked(0, Delivery(DeliveryId(4, 0), 1, b"{}"))]
        counts = {"matched": 2, "delivered": 1, "park": parked, "attempts": AttemptTotals(2, 5, {"Busy": 3})}
        await settle(world, made[0], cursor=Cursor((5, 0)), **counts)
        await settle(world, made[1], cursor=Cursor((4, 0)))
        body = (await world.call("GET", "/lanes/totals")).json
        assert body.pop("now") == stamp(SEEN_AT)
        assert body == {
            "subscriptions": 2,
            "failing": 1,
            "matched": 2,
            "delivered": 1,
            "failed": 3,
            "deadLettered": 0,
            "dropped": 0,
            "pending": 1,
            "backlog": 3,
        }

    run(test)


def test_an_event_is_resent_to_one_subscription() -> None:
    """It is appended once more for that subscription alone, with its old place; the explanation tells of both."""

    async def test(world: World) -> None:
        topic = await world.topic()
        mine, other = await world.subscription(), await world.subscription("other")
        await world.publish([event(dataVersion="7")], topic.key1)
        sent = {"event": "e-1", "topic": "orders", "subscriptionId": mine.id}
        answer = await world.call("POST", "/deliveries/resend", sent)
        assert answer.json == {"subscription": "mine", "position": 5, "from": {"position": 4, "offset": 0}}
        old, new = await world.log.read(topic.id, 4, 1 << 20)
        assert new.kind is EntryKind.SEGMENT and new.body == old.body
        before, after = Segment(old.columns, old.body), Segment(new.columns, new.body)
        assert (after.only, after.origin, after.versions) == (mine.id, "resend 4:0", before.versions)
        explained = (await world.call("GET", "/deliveries/explain?event=e-1&payload=true")).json
        assert explained["event"]["payload"]["id"] == "e-1" and explained["event"]["position"] == 5
        decided = {one["subscription"]: one["decidedBy"]["clause"] for one in explained["subscriptions"]}
        assert decided["mine"] == "resent" and decided["other"] != "resent" and other.id
        assert ("event.resent", 5) in [(name, fields.get("position")) for name, fields in world.told]

    run(test)


def test_what_cannot_be_resent() -> None:
    """An unknown event, an unknown subscription, and one whose filter refused the event are refused."""

    async def test(world: World) -> None:
        topic = await world.topic()
        mine = await world.subscription(filter={"includedEventTypes": ["Never"]})
        await world.publish([event()], topic.key1)
        for sent, status in (
            ({"event": "e-1", "subscriptionId": mine.id}, 400),
            ({"event": "e-1", "subscriptionId": 99}, 404),
            ({"event": "nothing", "subscriptionId": mine.id}, 404),
            ({"event": "e-1", "topic": "nothing", "subscriptionId": mine.id}, 404),
            ({"event": "", "subscriptionId": mine.id}, 400),
        ):
            assert (await world.call("POST", "/deliveries/resend", sent)).status == status, sent
        assert await world.log.end(topic.id) == 3
        assert (await world.call("POST", "/deliveries/resend", peer="192.0.2.7")).status == 403
        assert operation_of("POST", "/deliveries/resend") is Operation.ACT

    run(test)


def test_lists_describe_events_and_explanations_have_headers() -> None:
    """Type and subject come from the log where it has the event; headers come from history."""

    async def test(world: World) -> None:
        topic = await world.topic()
        mine = await world.subscription()
        await world.publish([event(subject="a"), event(id="e-2", subject="b")], topic.key1)
        label = LaneLabel(mine.id, topic.id, "orders", "mine")
        raw = RawHeaders(["X-A: 1"], [b"HTTP/1.1 200 OK\r\n"], ())
        world.history.record(attempt("e-1", "e-2", label=label, at=SEEN_AT, position=3, headers=raw))
        world.history.record(attempt("gone", label=label, at=SEEN_AT, position=99))
        (one,) = (await world.call("GET", "/deliveries?describe=true&search=e-2")).json["value"]
        assert (one["events"][0]["id"], one["events"][0]["subject"]) == ("e-2", "b")
        listed = (await world.call("GET", "/deliveries?describe=true")).json["value"]
        assert ["type" in each["events"][0] for each in listed] == [False, True]
        explained = (await world.call("GET", "/deliveries/explain?event=e-1")).json
        headers = explained["subscriptions"][0]["attempts"][0]["headers"]
        assert headers == {"request": "X-A: 1", "answer": "HTTP/1.1 200 OK"}
        assert "payload" not in explained["event"]

    run(test)
