"""An event is explained at every stage of its life, on virtual time: matched or not, tried, waiting, ended."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from msgspec.structs import replace

from recapito.api.wire.attempt import show_explanation
from recapito.contracts.history import AttemptPage, HistoryBounds, HistoryExtent
from recapito.contracts.log import NewSegment
from recapito.domain import limits
from recapito.domain.delivery.delivery import DeliveryId
from recapito.domain.delivery.outcome import Result
from recapito.domain.delivery.vocabulary import State
from recapito.domain.events.schema import InputSchema
from recapito.domain.events.segment import Publish, StampedEvent, pack
from recapito.domain.filters.filter import TAKE_ALL, Condition, Filter, Operator
from recapito.domain.handshake.consent import await_consent, with_consent
from recapito.domain.history.attempt import AttemptQuery
from recapito.domain.instant import DAY, SECOND, stamp
from recapito.domain.profiles.profile import DEFAULT
from recapito.domain.resources.subscription import (
    Batching,
    DeadLetterDirectory,
    FilterSince,
    Handshake,
    RetryPolicy,
    Subscription,
)
from recapito.domain.resources.topic import Topic, TopicKind
from recapito.errors import NotFound
from recapito.intake.explain.explainer import Explainer
from recapito.intake.maintenance.damage_report import DamageReport
from recapito.stores.memory.history import MemoryHistory
from tests.dispatch.bench import Bench
from tests.kit.resources import a_subscription, a_topic
from tests.sim.clock import BEGINNING, SimClock
from tests.sim.loop import SimLoop, run
from tests.stores.spoil import MemorySpoiler

EVENT = {"id": "e-1", "subject": "/orders/1", "eventType": "Created", "eventTime": "2026-01-01T00:00:00Z", "data": {}}
BOX = DeadLetterDirectory("box")


def make_explainer(bench: Bench, history: MemoryHistory) -> Explainer:
    """An explainer of the deliveries on a bench."""
    damages = DamageReport(bench.log, bench.ledger)
    return Explainer(bench.log, bench.log, bench.ledger, history, bench.clock, DEFAULT, damages)


class Scene(Bench):
    """A bench with an explainer."""

    def __init__(self, loop: SimLoop, *statuses: int) -> None:
        super().__init__(loop, *statuses)
        self.explainer = make_explainer(self, self.history)

    async def explain(self, id: str = "e-1", topic: str | None = None) -> dict[str, Any]:
        """The whole answer, as it is shown."""
        return show_explanation(await self.explainer.explain(id, topic), self.clock.now())

    async def one(self, id: str = "e-1") -> dict[str, Any]:
        """The explanation for the only subscription."""
        (explained,) = (await self.explain(id))["subscriptions"]
        assert isinstance(explained, dict)
        return explained

    async def orders(self, **changes: Any) -> Topic:
        """The topic, dispatched from now on."""
        topic = await self.log.put_topic(replace(await self._blank(), **changes) if changes else await self._blank())
        self.running = asyncio.create_task(self.service.run())
        return topic

    async def _blank(self) -> Topic:
        return a_topic()

    async def add(self, topic: Topic, name: str = "sub", filter: Filter = TAKE_ALL, **settings: Any) -> Subscription:
        made = await self.log.put_subscription(a_subscription(topic=topic.id, name=name, filter=filter, **settings))
        self.dispatcher.notify()
        return made

    async def send(self, topic: Topic, *changes: dict[str, Any]) -> None:
        await self.accept(topic, json.dumps([EVENT | change for change in changes or ({},)]).encode())


Story = Callable[[Scene], Awaitable[None]]


def play(*statuses: int) -> Callable[[Story], Story]:
    """Decorate a story: it is played at once, with endpoints that answer so, the last status forever."""

    def decorate(story: Story) -> Story:
        async def main(loop: SimLoop) -> None:
            scene = Scene(loop, *statuses)
            await story(scene)
            scene.running.cancel()

        run(1, main)
        return story

    return decorate


def at(seconds: float) -> str:
    """The instant `seconds` after the beginning, when the event is published; an answer takes 0.1 s."""
    return stamp(BEGINNING + int(seconds * SECOND))


def test_an_event_that_fails_twice_and_succeeds() -> None:
    """At each stage it is said what was tried, what comes next, when, by which rule, and what is left."""

    @play(503, 503, 200)
    async def story(scene: Scene) -> None:
        topic = await scene.orders()
        await scene.add(topic)
        await scene.send(topic)
        unread = await scene.one()
        assert (unread["matched"], unread["state"], unread["attempts"], unread["end"]) == (True, "unread", [], None)
        assert (unread["expiresAt"], unread["ttlLeftSeconds"], unread["attemptsLeft"]) == (at(86400), 86400.0, 30)
        await asyncio.sleep(10)
        parked = await scene.one()
        assert (parked["state"], len(parked["attempts"]), parked["attemptsLeft"]) == ("parked", 1, 29)
        assert parked["next"] == {"at": at(30.1), "rule": "minimum", "text": "the least delay after 503, 30 s"}
        first = parked["attempts"][0]
        assert (first["at"], first["tookMs"], first["outcome"], first["status"]) == (at(0), 100.0, "Busy", 503)
        assert first["events"] == [
            {
                "id": "e-1",
                "attempt": 1,
                "then": "retry",
                "dueAt": at(30.1),
                "rule": "minimum",
                "reason": None,
                "where": None,
            }
        ]
        await asyncio.sleep(30)
        again = await scene.one()
        assert (again["state"], len(again["attempts"])) == ("parked", 2)
        text = "the 2nd step of the schedule, 30 s (+ up to 10 %)"
        assert again["next"] == {"at": at(60.2), "rule": "schedule", "text": text}
        assert again["stateText"] == f"Its 3rd attempt waits until {at(60.2)}."
        await asyncio.sleep(30)
        done = await scene.one()
        assert (done["state"], done["next"], done["attemptsLeft"]) == ("delivered", None, None)
        assert done["end"] == {"at": at(60.3), "reason": None, "where": None}
        assert [one["events"][0]["then"] for one in done["attempts"]] == ["retry", "retry", "delivered"]


@pytest.mark.parametrize(("status", "state"), [(200, "unknown"), (503, "parked")])
def test_who_asks_before_history_is_written(status: int, state: str) -> None:
    """An attempt of just now may not be in history yet: the explanation does not call it forgotten."""

    @play(status)
    async def story(scene: Scene) -> None:
        topic = await scene.orders()
        await scene.add(topic)
        empty = MemoryHistory(HistoryBounds(DAY, 0), scene.clock.now)
        scene.explainer = make_explainer(scene, empty)
        await scene.send(topic)
        await asyncio.sleep(10)
        early = await scene.one()
        assert (early["state"], early["attempts"]) == (state, [])
        assert "not yet" in (early["next"] or {"text": early["stateText"]})["text"]


def test_the_endpoint_that_holds_its_subscription() -> None:
    """While a subscription is held it is said until when, why, and that the hold sets the time; fresh ones wait too."""

    @play(503)
    async def story(scene: Scene) -> None:
        topic = await scene.orders()
        await scene.add(topic)
        await scene.send(topic, *({"id": f"e-{n}"} for n in range(30)))
        await asyncio.sleep(100)
        probed = await scene.one("e-29")
        assert [attempt["probe"] for attempt in probed["attempts"]] == [True]
        held = await scene.one("e-0")
        assert held["state"] == "held" and held["next"]["rule"] == "hold"
        lane = await scene.ledger.lane(1)
        assert lane is not None and held["next"]["at"] == stamp(lane.hold.until)
        assert "in a row failed at the first attempt, the last with Busy" in held["stateText"]
        fresh = await scene.one("e-28")
        assert (fresh["state"], fresh["attempts"], fresh["next"]["rule"]) == ("held", [], "hold")


def test_a_dead_letter_waits_and_is_written() -> None:
    """First it is said when and where it will be written and why, then where it lies."""

    @play(404)
    async def story(scene: Scene) -> None:
        topic = await scene.orders()
        await scene.add(topic, dead_letter=BOX, retry_policy=RetryPolicy(max_attempts=1))
        await scene.send(topic)
        await asyncio.sleep(10)
        waiting = await scene.one()
        assert (waiting["state"], waiting["attemptsLeft"]) == ("deadLetterWaiting", 0)
        assert waiting["next"] == {"at": at(300), "rule": "deadLetterDelay", "text": "5 min after the last attempt"}
        assert "MaxDeliveryAttemptsExceeded" in waiting["stateText"]
        await asyncio.sleep(600)
        written = await scene.one()
        ((container, path),) = scene.vault.files
        assert written["state"] == "deadLettered"
        assert written["end"] == {
            "at": at(300),
            "reason": "MaxDeliveryAttemptsExceeded",
            "where": f"{container}/{path}",
        }
        told = [(one["outcome"], one["events"][0]["attempt"]) for one in written["attempts"]]
        assert told == [("NotFound", 1), ("DeadLettered", 1)]


@pytest.mark.parametrize(("table", "dead_letter"), [("parked", None), ("burial", BOX)])
def test_a_waiting_record_that_was_damaged(table: str, dead_letter: DeadLetterDirectory | None) -> None:
    """The delivery is told as dropped, with the name of the record that was set aside."""

    @play(404 if dead_letter else 500)
    async def story(scene: Scene) -> None:
        topic = await scene.orders()
        await scene.add(topic, dead_letter=dead_letter)
        await scene.send(topic)
        await asyncio.sleep(1)
        (lane,) = await scene.ledger.lanes()
        identity = DeliveryId(lane.cursor.low[0] - 1, 0)
        assert MemorySpoiler(scene.ledger._disk).row(table, lane.id, identity)
        await asyncio.sleep(600)
        told = await scene.one()
        assert (told["state"], told["end"]) == ("dropped", None)
        assert f"recapito damaged export {table}-1" in told["stateText"]


def test_a_subscription_whose_record_is_damaged() -> None:
    """Its attempts are told, and it is not taken for a deleted one."""

    @play(200)
    async def story(scene: Scene) -> None:
        topic = await scene.orders()
        subscription = await scene.add(topic)
        await scene.send(topic)
        await asyncio.sleep(1)
        MemorySpoiler(scene.log._disk).subscription(subscription.id)
        told = await scene.one()
        assert (told["state"], told["decidedBy"]["clause"]) == ("delivered", "damaged")


def test_a_dead_letter_is_told_with_its_attempts() -> None:
    """That a dead letter was written is told with the number of the last attempt, also when there was none."""

    @play(500)
    async def story(scene: Scene) -> None:
        topic = await scene.orders()
        await scene.add(topic, dead_letter=BOX, retry_policy=RetryPolicy(max_attempts=30, ttl_minutes=2))
        await scene.send(topic, {"id": "e-0"})
        await asyncio.sleep(105)
        parked = await scene.one("e-0")
        assert f"ends before that, at {at(120)}: when the attempt is due, it is dead-lettered" in parked["stateText"]
        scene.running.cancel()
        await asyncio.wait([scene.running])
        await scene.send(topic, {"id": "e-1"})
        await asyncio.sleep(3600)
        scene.running = asyncio.create_task(scene.service.run())  # the server was off meanwhile
        await asyncio.sleep(3600)
        numbers = {
            id: [one["events"][0]["attempt"] for one in (await scene.one(id))["attempts"]] for id in ("e-0", "e-1")
        }
        assert numbers == {"e-0": [1, 2, 3, 4, 4, 4], "e-1": [0, 0]}


def test_a_late_success_does_not_bring_back_what_was_dropped() -> None:
    """A delivery dropped before its endpoint answered counts as dropped, and the explanation has both."""

    @play(200)
    async def story(scene: Scene) -> None:
        scene.delay_s = 60
        topic = await scene.orders()
        await scene.add(topic, retry_policy=RetryPolicy(max_attempts=1))
        await scene.send(topic)
        await asyncio.sleep(100)
        gone = await scene.one()
        assert [(one["outcome"], one["late"]) for one in gone["attempts"]] == [("TimedOut", False), ("Success", True)]
        assert (gone["state"], gone["end"]["reason"]) == ("dropped", "MaxDeliveryAttemptsExceeded")
        assert f"The endpoint took it after all, at {at(60)}" in gone["stateText"]
        lane = await scene.ledger.lane(1)
        assert lane is not None and (lane.counts.delivered, sum(lane.counts.dropped.values())) == (0, 1)


def test_a_shortened_policy_leaves_the_attempt_that_waits() -> None:
    """A delivery that was tried more often than its policy now allows is still told to have its next attempt left."""

    @play(500)
    async def story(scene: Scene) -> None:
        topic = await scene.orders()
        before = await scene.add(topic)
        await scene.send(topic)
        await asyncio.sleep(45)
        await scene.log.put_subscription(replace(before, retry_policy=RetryPolicy(max_attempts=1)))
        parked = await scene.one()
        assert (parked["state"], parked["attemptsLeft"]) == ("parked", 1)


def test_a_dead_letter_that_can_not_be_written() -> None:
    """While the vault is out of reach that is said, with who says why, and no time is promised that is past."""

    @play(404)
    async def story(scene: Scene) -> None:
        topic = await scene.orders()
        await scene.add(topic, dead_letter=BOX, retry_policy=RetryPolicy(max_attempts=1))
        scene.vault.down = True
        await scene.send(topic)
        await asyncio.sleep(600)
        waiting = await scene.one()
        assert (waiting["state"], waiting["next"]) == ("deadLetterWaiting", None)
        assert "could not be written to box/SUB/" in waiting["stateText"]
        assert "`recapito doctor`" in waiting["stateText"]


def test_an_event_that_expires() -> None:
    """It is said before that it will expire, and afterwards that it was dropped without another attempt."""

    @play(503)
    async def story(scene: Scene) -> None:
        topic = await scene.orders()
        await scene.add(topic, retry_policy=RetryPolicy(ttl_minutes=1, max_attempts=30))
        await scene.send(topic)
        await asyncio.sleep(45)
        parked = await scene.one()
        assert (parked["state"], parked["expiresAt"], parked["ttlLeftSeconds"]) == ("parked", at(60), 15.0)
        assert f"ends before that, at {at(60)}: when the attempt is due, it is dropped instead" in parked["stateText"]
        await asyncio.sleep(200)
        gone = await scene.one()
        assert (gone["state"], gone["end"]["reason"]) == ("dropped", "TimeToLiveExceeded")
        last = gone["attempts"][-1]
        assert (last["outcome"], last["status"], last["events"][0]["attempt"]) == ("NotSent", None, 2)


def test_attempts_that_history_forgot() -> None:
    """The last attempts of a long life are told, and that there were others before."""

    @play(500)
    async def story(scene: Scene) -> None:
        topic = await scene.orders()
        await scene.add(topic)
        await scene.send(topic)
        await asyncio.sleep(600)
        assert (await scene.explain())["note"] == ""
        await asyncio.sleep(40 * 3600)
        explained = await scene.explain()
        numbers = [one["events"][0]["attempt"] for one in explained["subscriptions"][0]["attempts"]]
        assert numbers == [11, 11]
        assert "no longer has its first attempts" in explained["note"]


def test_what_is_never_retried_is_dropped() -> None:
    """A code that ends delivery at once is named as the reason."""

    @play(400)
    async def story(scene: Scene) -> None:
        topic = await scene.orders()
        await scene.add(topic)
        await scene.send(topic)
        await asyncio.sleep(10)
        gone = await scene.one()
        assert (gone["state"], gone["end"]["reason"]) == ("dropped", "UndeliverableDueToHttpBadRequest")


def test_batches() -> None:
    """Of a batch each event is explained alone, and the attempt says how many there were."""

    @play(200)
    async def story(scene: Scene) -> None:
        topic = await scene.orders()
        await scene.add(topic, batching=Batching(max_events=100))
        await scene.send(topic, *({"id": f"e-{n}"} for n in range(25)))
        await asyncio.sleep(10)
        for n in (0, 24):
            (attempt,) = (await scene.one(f"e-{n}"))["attempts"]
            assert [event["id"] for event in attempt["events"]] == [f"e-{n}"]
            assert attempt["eventCount"] == 25


def test_one_id_twice_in_a_batch() -> None:
    """Both events are told of, in one attempt."""

    @play(200)
    async def story(scene: Scene) -> None:
        topic = await scene.orders()
        await scene.add(topic, batching=Batching(max_events=100))
        await scene.send(topic, {}, {"id": "other"}, {})
        await asyncio.sleep(10)
        (attempt,) = (await scene.one())["attempts"]
        assert [event["id"] for event in attempt["events"]] == ["e-1", "e-1"]


@pytest.mark.parametrize(
    ("filter", "clause", "text"),
    [
        (Filter(event_types=("A", "B")), "includedEventTypes", "eventType 'Created' is not one of 'A', 'B'"),
        (
            Filter(subject_begins_with="/x"),
            "subjectBeginsWith",
            "subject '/orders/1' does not begin with '/x'",
        ),
        (
            Filter(subject_ends_with="X", subject_case_sensitive=True),
            "subjectEndsWith",
            "subject '/orders/1' does not end with 'X' (case matters)",
        ),
        (
            Filter(
                conditions=(
                    Condition(Operator.IS_NOT_NULL, "data"),
                    Condition(Operator.STRING_IN, "data.color", ("red",)),
                )
            ),
            "advancedFilters[1]",
            "data.color StringIn 'red' does not hold: the event has no data.color",
        ),
    ],
)
def test_what_is_not_matched(filter: Filter, clause: str, text: str) -> None:
    """The clause of the filter that refused is named, in words, also long after the event was passed."""

    @play(200)
    async def story(scene: Scene) -> None:
        topic = await scene.orders()
        await scene.add(topic, filter=filter)
        await scene.send(topic)
        await asyncio.sleep(600)
        refused = await scene.one()
        assert (refused["matched"], refused["state"]) == (False, "notMatched")
        assert refused["decidedBy"] == {"clause": clause, "text": text}


def test_subscriptions_that_come_change_and_go() -> None:
    """The filter in force at the event's place decides; later ones had not been created, deleted ones are named."""

    @play(200)
    async def story(scene: Scene) -> None:
        topic = await scene.orders()
        changed = await scene.add(topic, "changed", Filter(event_types=("Other",)))
        early = await scene.add(topic, "early")
        before = await scene.add(topic, "before")
        await scene.log.delete_subscription(before.id)
        await scene.send(topic)
        await asyncio.sleep(10)
        await scene.log.put_subscription(replace(changed, filters=(FilterSince(0, TAKE_ALL),)))
        await scene.add(topic, "late")
        said = {one["subscription"]: one for one in (await scene.explain())["subscriptions"]}
        clauses = {name: one["decidedBy"]["clause"] for name, one in said.items()}
        assert clauses == {
            "changed": "includedEventTypes",
            "early": "all",
            "before": "deleted",
            "late": "notYetCreated",
        }
        await scene.log.delete_subscription(early.id)
        scene.dispatcher.notify()
        await asyncio.sleep(10)
        await scene.log.forget(early.id)
        said = {one["subscription"]: one for one in (await scene.explain())["subscriptions"]}
        assert (said["early"]["decidedBy"]["clause"], said["early"]["state"]) == ("deleted", "delivered")


def test_an_event_from_before_the_consent() -> None:
    """An event that came while consent was awaited is explained by that, during the wait and after the consent."""

    @play(200)
    async def story(scene: Scene) -> None:
        topic = await scene.orders()
        wanted = a_subscription(topic=topic.id)
        waiting = await scene.log.put_subscription(await_consent(None, wanted, Handshake("code", BEGINNING + DAY)))
        await scene.send(topic)
        assert (await scene.one())["decidedBy"]["clause"] == "handshake"
        await scene.log.put_subscription(with_consent(waiting, scene.clock.now()))
        await scene.send(topic, {"id": "e-2"})
        assert (await scene.one())["decidedBy"]["clause"] == "handshake"
        assert (await scene.one("e-2"))["decidedBy"]["clause"] == "all"


def test_a_deleted_subscription_drops_what_it_has() -> None:
    """A delivery parked when its subscription was deleted is dropped as Canceled; history knows its subscription."""

    @play(503)
    async def story(scene: Scene) -> None:
        topic = await scene.orders()
        mine = await scene.add(topic)
        await scene.send(topic)
        await asyncio.sleep(5)
        await scene.log.delete_subscription(mine.id)
        scene.dispatcher.notify()
        await asyncio.sleep(10)
        gone = await scene.one()
        assert (gone["state"], gone["end"]["reason"]) == ("dropped", str(Result.CANCELED))


def test_a_redriven_event() -> None:
    """It is a new delivery to its one subscription, past its filter, with all that was tried before."""

    @play(404, 200)
    async def story(scene: Scene) -> None:
        topic = await scene.orders()
        mine = await scene.add(topic, dead_letter=BOX, retry_policy=RetryPolicy(max_attempts=1))
        await scene.add(topic, "other", Filter(event_types=("Other",)))
        await scene.send(topic)
        await asyncio.sleep(600)
        event = StampedEvent(json.dumps(EVENT).encode(), "Created", "/orders/1", "", "", "e-1")
        again = pack([Publish(scene.clock.now(), [event])], only=mine.id, origin="box:SUB/1/a.json")
        await scene.log.append([NewSegment(topic.id, 1, *again)])
        explained = await scene.explain()
        said = {one["subscription"]: one for one in explained["subscriptions"]}
        assert "2 times" in explained["note"]
        assert said["sub"]["decidedBy"]["clause"] == "redriven" and said["sub"]["state"] == "unread"
        assert "from SUB/1/a.json" in said["sub"]["decidedBy"]["text"]
        assert said["other"]["decidedBy"]["clause"] == "includedEventTypes"
        scene.dispatcher.notify()
        await asyncio.sleep(10)
        said = {one["subscription"]: one for one in (await scene.explain())["subscriptions"]}
        assert said["sub"]["state"] == "delivered"
        assert [one["outcome"] for one in said["sub"]["attempts"]] == ["NotFound", "DeadLettered", "Success"]


def test_a_cloud_events_topic() -> None:
    """CloudEvents are found by their id, and their attributes and extensions decide."""

    @play(200)
    async def story(scene: Scene) -> None:
        topic = await scene.orders(input_schema=InputSchema.CLOUD_EVENT)
        await scene.add(topic, filter=Filter(conditions=(Condition(Operator.NUMBER_IN, "size", (5,)),)))
        event = {"id": "c-1", "source": "mine", "type": "t", "specversion": "1.0", "size": 4}
        await scene.accept(topic, json.dumps([event]).encode())
        await asyncio.sleep(10)
        explained = await scene.explain("c-1")
        assert (explained["event"]["type"], explained["event"]["publishedAt"]) == ("t", at(0))
        (refused,) = explained["subscriptions"]
        assert refused["decidedBy"]["text"] == "size NumberIn 5 does not hold: size is 4"


def test_a_domain() -> None:
    """Of a domain only the subscriptions of the event's topic and of the domain itself are spoken of."""

    @play(200)
    async def story(scene: Scene) -> None:
        topic = await scene.orders(kind=TopicKind.DOMAIN)
        for name in ("north", "south"):
            await scene.add(topic, name, Filter(domain_topic=name), domain_topic=name)
        await scene.add(topic, "all")
        picky = Filter(domain_topic="north", subject_begins_with="nobody")
        await scene.add(topic, "picky", picky, domain_topic="north")
        await scene.send(topic, {"topic": "North"})
        await asyncio.sleep(10)
        said = {one["subscription"]: one["state"] for one in (await scene.explain())["subscriptions"]}
        assert said == {"north": "delivered", "all": "delivered", "picky": "notMatched"}


def test_a_late_answer() -> None:
    """A success after 30 seconds is recorded as late, and ends the delivery whatever was decided before."""

    @play(200)
    async def story(scene: Scene) -> None:
        topic = await scene.orders()
        await scene.add(topic)
        scene.delay_s = 40
        await scene.send(topic)
        await asyncio.sleep(35)
        given_up = await scene.one()
        assert [one["outcome"] for one in given_up["attempts"]] == ["TimedOut"]
        await asyncio.sleep(10)
        done = await scene.one()
        assert done["state"] == "delivered" and done["attempts"][1]["late"] is True
        assert done["attempts"][1]["tookMs"] == 40_000


def test_what_the_log_has_no_more() -> None:
    """Then only the attempts are known, and the note says so; an event without any trace is not found."""

    @play(200)
    async def story(scene: Scene) -> None:
        topic = await scene.orders()
        await scene.add(topic)
        await scene.add(topic, "picky", Filter(event_types=("Other",)))
        await scene.send(topic)
        await asyncio.sleep(10)
        await scene.log.trim(topic.id, 100)
        explained = await scene.explain()
        assert "The log no longer has the event" in explained["note"]
        assert explained["event"]["type"] is None and explained["event"]["topic"] == "orders"
        states = {one["subscription"]: (one["matched"], one["state"]) for one in explained["subscriptions"]}
        assert states == {"sub": (True, "delivered"), "picky": (None, "unknown")}
        with pytest.raises(NotFound):
            await scene.explain("nobody")
        with pytest.raises(NotFound):
            await scene.explain("e-1", "nowhere")


def test_an_id_of_several_topics() -> None:
    """Without a topic the one that had it last is explained, and the note names the others."""

    @play(200)
    async def story(scene: Scene) -> None:
        topic = await scene.orders()
        other = await scene.log.put_topic(replace(await scene._blank(), name="others"))
        for one in (topic, other):
            await scene.add(one, f"of-{one.name}")
            await scene.send(one)
            await asyncio.sleep(10)
        explained = await scene.explain()
        assert explained["event"]["topic"] == "others" and "Topics orders" in explained["note"]
        named = await scene.explain("e-1", "ORDERS")
        assert [one["subscription"] for one in named["subscriptions"]] == ["of-orders"]


class LaterHistory:
    """History as another process reads it: attempts can be read from an instant on."""

    def __init__(self, history: MemoryHistory, clock: SimClock, readable_at: int) -> None:
        self._history = history
        self._clock = clock
        self._readable_at = readable_at
        self.reads = 0

    async def newest_first(self, selection: AttemptQuery, before: int | None, limit: int) -> AttemptPage:
        self.reads += 1
        page = await self._history.newest_first(selection, before, limit)
        return page if self._clock.now() >= self._readable_at else AttemptPage([], None, 0)

    async def oldest_first(self, selection: AttemptQuery, after: int, limit: int) -> AttemptPage:
        return await self._history.oldest_first(selection, after, limit)

    async def extent(self) -> HistoryExtent:
        return await self._history.extent()

    async def close(self) -> None:
        await self._history.close()


@pytest.mark.parametrize(("lag_s", "state"), [(0.6, State.DELIVERED), (60.0, State.UNKNOWN)])
def test_an_explanation_waits_for_history(lag_s: float, state: State) -> None:
    """Right after a delivery it waits until history is written, in bounded time, instead of knowing nothing."""

    @play(200)
    async def story(scene: Scene) -> None:
        orders = await scene.orders()
        await scene.add(orders)
        await scene.send(orders)
        await asyncio.sleep(2)
        asked_at = scene.clock.now()
        later = LaterHistory(scene.history, scene.clock, asked_at + int(lag_s * SECOND))
        damages = DamageReport(scene.log, scene.ledger)
        explainer = Explainer(scene.log, scene.log, scene.ledger, later, scene.clock, DEFAULT, damages, scene.clock)
        (part,) = (await explainer.explain("e-1", None)).subscriptions
        assert part.standing.state is state and later.reads == 3
        assert scene.clock.now() - asked_at == sum(limits.EXPLAIN_WAITS_NS)
