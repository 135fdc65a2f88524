"""Handshakes as a subscription's owner meets them: when an endpoint is asked, and what is in force meanwhile."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from msgspec.structs import replace

from recapito.clock import ManualClock, SystemClock
from recapito.domain import limits
from recapito.domain.access.egress import Egress
from recapito.domain.events.schema import DeliverySchema, InputSchema
from recapito.domain.filters.filter import TAKE_ALL, TAKE_NONE, Filter
from recapito.domain.handshake.consent import provisioning_state
from recapito.domain.handshake.handshake import ConsentTarget, read_token
from recapito.domain.handshake.http_call import FailureKind, HttpReply, HttpRequest, NoReply
from recapito.domain.instant import HOUR, MINUTE, SECOND
from recapito.domain.resources.destination import WebHook
from recapito.domain.resources.subscription import Subscription
from recapito.domain.resources.topic import Domain, Topic, TopicKind
from recapito.errors import Busy, Conflict, Gone, InvalidInput, NotFound
from recapito.intake.resources.drafts import SubscriptionDraft, TopicDraft
from recapito.intake.resources.handshakes import Handshakes, NeedsConsent
from recapito.senders.http.web_caller import WebCaller
from recapito.senders.memory_caller import CallScript, MemoryCaller, ScriptedAnswer
from recapito.stores.memory import MemoryLog
from tests.intake.doubles import StillClock, make_resources, tokens
from tests.senders.receiver import Receiver, answering, status

SECRET_URL = "https://example.com/hook?code=secret"


def echo(request: HttpRequest) -> ScriptedAnswer:
    """An endpoint that knows both handshakes."""
    if request.method == "OPTIONS":
        return ScriptedAnswer(HttpReply(200, (("WebHook-Allowed-Origin", "*"),)))
    code = json.loads(request.body)[0]["data"].get("validationCode")
    return ScriptedAnswer(HttpReply(200, (), json.dumps({"validationResponse": code}).encode()))


def plain(request: HttpRequest) -> ScriptedAnswer:
    """An endpoint that answers 200 to everything."""
    return ScriptedAnswer(HttpReply(200))


class Bench:
    """Topics and subscriptions on a registry in memory, with scripted endpoints."""

    def __init__(self, script: CallScript = echo) -> None:
        self.registry = MemoryLog()
        self.clock = StillClock()
        self.patience = ManualClock(0)
        self.script = script
        self.told: list[tuple[str, dict[str, object]]] = []
        self.caller = MemoryCaller(lambda request: self.script(request))
        self.handshakes = Handshakes(
            self.caller, self.clock, self.patience, tokens(), "http://127.0.0.1:8585", self._journal
        )
        self.expiring: list[Subscription] = []
        self.topics, self.subscriptions = make_resources(
            self.registry, self.clock, handshakes=self.handshakes, on_expiry=self.expiring.append
        )

    def _journal(self, event: str, **fields: object) -> None:
        self.told.append((event, fields))

    async def topic(self) -> Topic:
        return await self.topics.put(TopicDraft.of(name="orders", azure_subscription="sub", resource_group="group"))

    async def put(self, topic: Topic, url: str = SECRET_URL, **more: Any) -> Subscription:
        return await self.subscriptions.put(
            topic, SubscriptionDraft.of(name="mine", destination=WebHook(url=url), **more)
        )

    async def consent(self, callback: str | None = None) -> None:
        """Open the URL that the last handshake gave."""
        url = urlsplit(callback or callback_of(self.caller.requests[-1]))
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        place = read_token(query["token"])
        assert place is not None
        await self.subscriptions.give_consent(place, url.path.split("/")[2], query["id"])

    async def settle(self) -> None:
        """Let everybody run until they wait."""
        for _ in range(20):
            await asyncio.sleep(0)


def callback_of(request: HttpRequest) -> str:
    if request.method == "OPTIONS":
        return dict(request.headers)["WebHook-Request-Callback"]
    url = json.loads(request.body)[0]["data"]["validationUrl"]
    assert isinstance(url, str)
    return url


def run(test: Callable[[Bench], Awaitable[None]], script: CallScript = echo) -> None:
    async def whole() -> None:
        async with asyncio.timeout(20):
            await test(Bench(script))

    asyncio.run(whole())


def test_an_endpoint_that_echoes_is_subscribed_at_once() -> None:
    """With the code in the answer the subscription is in force when PUT returns."""

    async def test(bench: Bench) -> None:
        stored = await bench.put(await bench.topic())
        assert (stored.filter, stored.handshake, stored.proposed) == (TAKE_ALL, None, None)
        [request] = bench.caller.requests
        assert (request.method, request.url) == ("POST", SECRET_URL)

    run(test)


def test_cloud_events_ask_by_options() -> None:
    """A subscription in the CloudEvents schema asks its endpoint by OPTIONS, also by default of its topic."""

    async def test(bench: Bench) -> None:
        topic = await bench.topic()
        stored = await bench.put(topic, delivery_schema=DeliverySchema.CLOUD_EVENT)
        assert (stored.delivery_schema, stored.handshake) == (DeliverySchema.CLOUD_EVENT, None)
        assert [request.method for request in bench.caller.requests] == ["OPTIONS"]
        assert InputSchema.EVENT_GRID is topic.input_schema

    run(test)


def test_nobody_is_asked_without_need() -> None:
    """A change of filter, labels or batching asks no endpoint; another URL or another kind of handshake does."""

    async def test(bench: Bench) -> None:
        topic = await bench.topic()
        await bench.put(topic)
        await bench.put(topic, filter=Filter(subject_begins_with="a"), labels=("x",))
        assert len(bench.caller.requests) == 1
        await bench.put(topic, "https://example.com/hook?code=other")
        assert len(bench.caller.requests) == 2
        await bench.put(topic, "https://example.com/hook?code=other", delivery_schema=DeliverySchema.CLOUD_EVENT)
        assert [request.method for request in bench.caller.requests] == ["POST", "POST", "OPTIONS"]

    run(test)


@pytest.mark.parametrize("schema", [DeliverySchema.EVENT_GRID, DeliverySchema.CLOUD_EVENT])
def test_consent_by_hand(schema: DeliverySchema) -> None:
    """A plain 200 leaves ten minutes: until consent nothing is taken, from consent on what was asked for is."""

    async def test(bench: Bench) -> None:
        wanted = Filter(subject_begins_with="a")
        stored = await bench.put(await bench.topic(), filter=wanted, delivery_schema=schema)
        assert stored.filter == TAKE_NONE
        assert provisioning_state(stored, bench.clock.now()) == "AwaitingManualAction"
        bench.clock.instant += 10 * MINUTE
        await bench.consent()
        found = await bench.registry.subscription_by_id(stored.id)
        assert found is not None
        assert (found.filter, found.handshake, found.proposed) == (wanted, None, None)
        assert [since.filter for since in found.filters] == [TAKE_NONE, wanted]
        assert found.filters[1].position > stored.created_position
        assert (found.created_at, found.modified_at) == (stored.created_at, bench.clock.now())

    run(test, plain)


def test_consent_that_comes_too_late() -> None:
    """After ten minutes by the service's clock the state is Failed and the URL is gone; PUT starts afresh."""

    async def test(bench: Bench) -> None:
        topic = await bench.topic()
        stored = await bench.put(topic)
        bench.clock.instant += 10 * MINUTE + 1
        assert provisioning_state(stored, bench.clock.now()) == "Failed"
        late = callback_of(bench.caller.requests[-1])
        with pytest.raises(Gone):
            await bench.consent()
        again = await bench.put(topic)
        assert provisioning_state(again, bench.clock.now()) == "AwaitingManualAction"
        with pytest.raises(NotFound):
            await bench.consent(late)
        await bench.consent()
        assert (await bench.subscriptions.get(topic, "mine")).handshake is None

    run(test, plain)


def test_a_change_waits_while_the_old_goes_on() -> None:
    """While another endpoint has not consented, everything goes to the one that had; its return needs no handshake."""

    async def test(bench: Bench) -> None:
        topic = await bench.topic()
        await bench.put(topic, filter=Filter(subject_begins_with="a"))
        bench.script = plain
        changed = await bench.put(topic, "https://other.example/", filter=Filter(subject_begins_with="b"))
        assert (changed.destination.url, changed.filter.subject_begins_with) == (SECRET_URL, "a")
        assert changed.proposed is not None
        assert changed.proposed.destination.url == "https://other.example/"
        back = await bench.put(topic)
        assert (back.handshake, back.proposed, len(bench.caller.requests)) == (None, None, 2)
        with pytest.raises(NotFound):
            await bench.consent()

    run(test)


def test_consent_to_a_change() -> None:
    """With consent the change is in force, filter and all."""

    async def test(bench: Bench) -> None:
        topic = await bench.topic()
        first = await bench.put(topic)
        bench.script = plain
        await bench.put(topic, "https://other.example/", filter=Filter(subject_begins_with="b"), labels=("new",))
        await bench.consent()
        found = await bench.subscriptions.get(topic, "mine")
        assert (found.id, found.destination.url, found.labels) == (first.id, "https://other.example/", ("new",))
        assert [since.filter.subject_begins_with for since in found.filters] == ["", "b"]

    run(test)


def test_a_patch_asks_too() -> None:
    """A PATCH with another endpoint asks it, any other PATCH asks none; a later one changes the proposal."""

    async def test(bench: Bench) -> None:
        topic = await bench.topic()
        await bench.put(topic)
        await bench.subscriptions.change(topic, "mine", None, lambda old: old.changed(labels=("a",)))
        assert len(bench.caller.requests) == 1
        bench.script = plain
        other = WebHook(url="https://other.example/")
        waiting = await bench.subscriptions.change(topic, "mine", None, lambda old: old.changed(destination=other))
        assert (waiting.destination.url, len(bench.caller.requests)) == (SECRET_URL, 2)
        await bench.subscriptions.change(topic, "mine", None, lambda old: old.changed(labels=("b",)))
        await bench.consent()
        found = await bench.subscriptions.get(topic, "mine")
        assert (found.destination.url, found.labels) == ("https://other.example/", ("b",))

    run(test)


def test_a_domain_topic_consents_by_its_own_url() -> None:
    """The URL of a subscription on a domain topic finds it there, and not its namesake on the domain."""

    async def test(bench: Bench) -> None:
        domain = await bench.topics.put(
            TopicDraft.of(
                kind=TopicKind.DOMAIN, name="shop", azure_subscription="sub", resource_group="group", domain=Domain()
            )
        )
        await bench.put(domain)
        await bench.put(domain, domain_topic="europe")
        await bench.consent()
        assert (await bench.subscriptions.get(domain, "mine", "europe")).handshake is None
        assert (await bench.subscriptions.get(domain, "mine")).handshake is not None

    run(test, plain)


def test_a_refused_subscription_makes_no_domain_topic() -> None:
    """A domain topic is made with its first subscription, and not when that was refused."""

    async def test(bench: Bench) -> None:
        domain = await bench.topics.put(
            TopicDraft.of(
                kind=TopicKind.DOMAIN, name="shop", azure_subscription="sub", resource_group="group", domain=Domain()
            )
        )
        with pytest.raises(InvalidInput):
            await bench.put(domain, domain_topic="europe")
        assert await bench.topics.domain_topics.find(domain, "europe") is None

    run(test, lambda request: ScriptedAnswer(HttpReply(404)))


def test_what_is_wrong_is_refused_before_anybody_is_asked() -> None:
    """An endpoint is not troubled with a subscription that could not be stored."""

    async def test(bench: Bench) -> None:
        domain = await bench.topics.put(
            TopicDraft.of(
                kind=TopicKind.DOMAIN,
                name="shop",
                azure_subscription="sub",
                resource_group="group",
                domain=Domain(auto_create=False),
            )
        )
        for name, kind in (("a b", InvalidInput), ("europe", NotFound)):
            with pytest.raises(kind):
                await bench.put(domain, domain_topic=name)
        with pytest.raises(InvalidInput):
            await bench.put(domain, "https://169.254.169.254/")
        assert bench.caller.requests == []

    run(test)


def test_consent_before_the_answer() -> None:
    """An endpoint may open the URL while it still holds back its 200: the subscription is in force when PUT returns."""

    async def test(bench: Bench) -> None:
        topic = await bench.topic()
        bench.script = lambda request: ScriptedAnswer(HttpReply(200), 0.05)
        putting = asyncio.create_task(bench.put(topic))
        await bench.settle()
        await bench.consent()
        stored = await putting
        assert (stored.handshake, stored.filter) == (None, TAKE_ALL)

    run(test)


def test_consent_is_not_enough_without_200() -> None:
    """Who opens the URL and then refuses has refused."""

    async def test(bench: Bench) -> None:
        topic = await bench.topic()
        bench.script = lambda request: ScriptedAnswer(HttpReply(500), 0.05)
        putting = asyncio.create_task(bench.put(topic))
        await bench.settle()
        await bench.consent()
        with pytest.raises(InvalidInput):
            await putting
        with pytest.raises(NotFound):
            await bench.subscriptions.get(topic, "mine")

    run(test)


@pytest.mark.parametrize("code", ["", "wrong", "ÿ\ud800", "00000000-0000-4000-8000-000000000009" * 3])
def test_a_wrong_code_consents_to_nothing(code: str) -> None:
    """Without the code nothing happens, and the caller does not learn whether the subscription exists."""

    async def test(bench: Bench) -> None:
        topic = await bench.topic()
        await bench.put(topic)
        for place, name in (
            (ConsentTarget(topic.id, None), "mine"),
            (ConsentTarget(99, None), "mine"),
            (ConsentTarget(topic.id, "x"), "none"),
        ):
            with pytest.raises(NotFound) as caught:
                await bench.subscriptions.give_consent(place, name, code)
            assert caught.value.message == "No subscription waits for this consent: it was given, replaced or deleted."
        assert (await bench.subscriptions.get(topic, "mine")).handshake is not None

    run(test, plain)


def test_consent_is_given_once() -> None:
    """The URL works once; a deleted subscription's does not work at all."""

    async def test(bench: Bench) -> None:
        topic = await bench.topic()
        await bench.put(topic)
        await bench.consent()
        with pytest.raises(NotFound):
            await bench.consent()
        await bench.put(topic, "https://other.example/")
        await bench.subscriptions.delete(topic, "mine")
        with pytest.raises(NotFound):
            await bench.consent()

    run(test, plain)


def test_a_refusal_stores_nothing() -> None:
    """A refused create leaves nothing behind, a refused change leaves everything as it was."""

    async def test(bench: Bench) -> None:
        topic = await bench.topic()
        bench.script = lambda request: ScriptedAnswer(HttpReply(404, (), b"no such page"))
        with pytest.raises(InvalidInput) as caught:
            await bench.put(topic)
        assert (caught.value.code, caught.value.target) == ("Url validation", "endpointUrl")
        assert "status 404, body: no such page" in caught.value.message
        assert "secret" not in caught.value.message
        with pytest.raises(NotFound):
            await bench.subscriptions.get(topic, "mine")
        bench.script = echo
        before = await bench.put(topic)
        bench.script = lambda request: ScriptedAnswer(NoReply(FailureKind.TLS_FAILED, "self-signed"))
        with pytest.raises(InvalidInput):
            await bench.put(topic, "https://other.example/")
        assert await bench.subscriptions.get(topic, "mine") == before

    run(test)


def test_three_tries_by_real_time() -> None:
    """An endpoint that does not answer is given 30 seconds, three times, 5 seconds apart, whatever the clock says."""

    async def test(bench: Bench) -> None:
        topic = await bench.topic()
        bench.script = lambda request: None
        putting = asyncio.create_task(bench.put(topic))
        waits = []
        while not putting.done():
            await bench.settle()
            if (at := bench.patience.next_instant()) is not None:
                waits.append((at - bench.patience.now()) // SECOND)
                bench.patience.move_to(at)
                await bench.settle()
        assert waits == [30, 5, 30, 5, 30]
        assert len(bench.caller.requests) == 3
        with pytest.raises(InvalidInput, match=r"3 times, 5 seconds apart.*no answer within 30 s"):
            await putting

    run(test)


def test_the_third_try_counts() -> None:
    """An endpoint that is just starting is found by a later try."""

    async def test(bench: Bench) -> None:
        topic = await bench.topic()
        refused = NoReply(FailureKind.NOT_CONNECTED, "connection refused")
        bench.script = lambda request: echo(request) if len(bench.caller.requests) == 3 else ScriptedAnswer(refused)
        putting = asyncio.create_task(bench.put(topic))
        while not putting.done():
            await asyncio.sleep(0.001)
            if (at := bench.patience.next_instant()) is not None:
                bench.patience.move_to(at)
        assert (await putting).handshake is None

    run(test)


def test_others_go_on_meanwhile() -> None:
    """While one endpoint is slow to answer, other topics and subscriptions are made, listed and deleted."""

    async def test(bench: Bench) -> None:
        topic = await bench.topic()
        bench.script = lambda request: None if "slow" in request.url else echo(request)
        slow = asyncio.create_task(bench.put(topic, "https://slow.example/"))
        await bench.settle()
        quick = SubscriptionDraft.of(name="quick", destination=WebHook(url="https://quick.example/"))
        await bench.subscriptions.put(topic, quick)
        await bench.subscriptions.delete(topic, "quick")
        assert not slow.done()
        slow.cancel()
        await asyncio.gather(slow, return_exceptions=True)
        assert "0 open" in repr(bench.handshakes)

    run(test)


def test_a_topic_that_goes_while_its_endpoint_thinks() -> None:
    """A subscription whose topic went during the handshake is not stored anywhere."""

    async def test(bench: Bench) -> None:
        topic = await bench.topic()
        bench.script = lambda request: ScriptedAnswer(echo(request).answer, 0.05)
        putting = asyncio.create_task(bench.put(topic))
        await bench.settle()
        await bench.topics.delete(topic)
        with pytest.raises(NotFound):
            await putting

    run(test)


def test_two_at_once_for_one_name() -> None:
    """Two who put one subscription at once each ask their own endpoint, and the later one is in force."""

    async def test(bench: Bench) -> None:
        topic = await bench.topic()
        bench.script = lambda request: ScriptedAnswer(echo(request).answer, 0.05 if "slow" in request.url else 0.0)
        slow = asyncio.create_task(bench.put(topic, "https://slow.example/"))
        await bench.put(topic, "https://quick.example/")
        stored = await slow
        assert (stored.destination.url, len(bench.caller.requests)) == ("https://slow.example/", 2)
        assert len(await bench.registry.subscriptions(topic.id, 0, 10)) == 1

    run(test)


def test_consent_is_for_the_endpoint_that_was_asked() -> None:
    """Consent that was asked of one endpoint cannot be used for another."""

    async def test(bench: Bench) -> None:
        topic = await bench.topic()
        one = await bench.put(topic)
        other = await bench.put(topic, "https://other.example/")
        async with bench.handshakes.asking(NeedsConsent(topic, None, one)) as answer:
            with pytest.raises(Conflict):
                bench.handshakes.admit(NeedsConsent(topic, None, other), answer)

    run(test)


def test_stopping_answers_who_waits() -> None:
    """A server that stops says so to those whose endpoints it is asking."""

    async def test(bench: Bench) -> None:
        topic = await bench.topic()
        bench.script = lambda request: None
        putting = asyncio.create_task(bench.put(topic))
        await bench.settle()
        await bench.caller.close()
        with pytest.raises(Busy):
            await putting

    run(test)


def test_a_protected_endpoint_sees_a_token() -> None:
    """An endpoint that an application protects is asked, and told of the end, with a token that no error repeats."""

    async def test(bench: Bench) -> None:
        asked: list[str | None] = []

        def script(request: HttpRequest) -> ScriptedAnswer:
            asked.append(dict(request.headers).get("Authorization"))
            return echo(request) if len(asked) != 2 else ScriptedAnswer(HttpReply(401, (), b"no: Bearer for.app"))

        async def token_for(tenant: str, application: str) -> str | None:
            return f"for.{application}" if tenant == "t" else None

        bench.script = script
        handshakes = Handshakes(
            bench.caller, bench.clock, bench.patience, tokens(), "http://127.0.0.1:8585", token_for=token_for
        )
        bench.topics, bench.subscriptions = make_resources(bench.registry, bench.clock, handshakes=handshakes)
        topic = await bench.topic()
        hook = WebHook(url="https://example.com/one", tenant="t", application="app")
        await bench.subscriptions.put(topic, SubscriptionDraft.of(name="mine", destination=hook))
        with pytest.raises(InvalidInput) as refused:
            other = replace(hook, url="https://example.com/two")
            await bench.subscriptions.put(topic, SubscriptionDraft.of(name="other", destination=other))
        assert "for.app" not in refused.value.message
        await bench.subscriptions.delete(topic, "mine")
        await bench.settle()
        assert asked == ["Bearer for.app"] * 3

    run(test)


def test_protection_needs_an_issuer_of_our_own() -> None:
    """A server that believes another issuer signs nothing, and says so at once."""

    async def test(bench: Bench) -> None:
        bench.topics, bench.subscriptions = make_resources(bench.registry, bench.clock, signs_tokens=False)
        hook = WebHook(url="https://example.com/one", tenant="t", application="app")
        with pytest.raises(InvalidInput) as refused:
            draft = SubscriptionDraft.of(name="mine", destination=hook)
            await bench.subscriptions.put(await bench.topic(), draft)
        assert refused.value.target == "azureActiveDirectoryApplicationIdOrUri"

    run(test)


def test_endpoints_are_told_when_their_topic_is_deleted() -> None:
    """With a topic its subscriptions go, and each endpoint that had consented hears of it."""

    async def test(bench: Bench) -> None:
        topic = await bench.topic()
        await bench.put(topic)
        bench.caller.requests.clear()
        await bench.topics.delete(topic)
        await bench.settle()
        assert [dict(r.headers)["aeg-event-type"] for r in bench.caller.requests] == ["SubscriptionDeletion"]

    run(test)


def test_an_endpoint_is_told_of_the_end() -> None:
    """After DELETE the endpoint in force is told, once; who had not consented, and CloudEvents endpoints, are not."""

    async def test(bench: Bench) -> None:
        topic = await bench.topic()
        await bench.put(topic)
        bench.script = plain
        await bench.put(topic, "https://other.example/")
        bench.caller.requests.clear()
        await bench.subscriptions.delete(topic, "mine")
        await bench.settle()
        [request] = bench.caller.requests
        assert (request.url, dict(request.headers)["aeg-event-type"]) == (SECRET_URL, "SubscriptionDeletion")
        [event] = json.loads(request.body)
        assert event["data"]["eventSubscriptionId"].endswith(
            "/topics/orders/providers/Microsoft.EventGrid/eventSubscriptions/mine"
        )
        await bench.put(topic)
        await bench.subscriptions.delete(topic, "mine")
        bench.script = echo
        await bench.put(topic, delivery_schema=DeliverySchema.CLOUD_EVENT)
        await bench.subscriptions.delete(topic, "mine")
        await bench.settle()
        assert [dict(r.headers).get("aeg-event-type") for r in bench.caller.requests[1:]] == [
            "SubscriptionValidation",
            None,
        ]

    run(test)


def test_a_mute_endpoint_does_not_hold_up_a_deletion() -> None:
    """DELETE returns at once, whatever the endpoint does; more notices than the limit are let go, and said so."""

    async def test(bench: Bench) -> None:
        topic = await bench.topic()
        bench.script = lambda request: None if b"Deleted" in request.body else echo(request)
        for _ in range(limits.DELETION_NOTICES + 1):
            await bench.put(topic)
            await bench.subscriptions.delete(topic, "mine")
        await bench.settle()
        assert f"{limits.DELETION_NOTICES} notices" in repr(bench.handshakes)
        assert [event for event, _ in bench.told if event == "handshake.deletion_not_told"] != []
        bench.patience.move_to(limits.ANSWER_WAIT_NS)
        await bench.settle()
        assert "0 notices" in repr(bench.handshakes)
        await bench.handshakes.close()

    run(test)


def test_closing_ends_the_notices() -> None:
    """None of them runs on when the stores that it needs are closed."""

    async def test(bench: Bench) -> None:
        topic = await bench.topic()
        bench.script = lambda request: None if b"Deleted" in request.body else echo(request)
        await bench.put(topic)
        await bench.subscriptions.delete(topic, "mine")
        await bench.settle()
        assert "1 notices" in repr(bench.handshakes)
        await bench.handshakes.close()
        assert "0 notices" in repr(bench.handshakes)

    run(test)


def test_the_journal_has_no_secrets() -> None:
    """Each request to an endpoint is one line of the journal: who, and what came back, without code and query."""

    async def test(bench: Bench) -> None:
        topic = await bench.topic()
        await bench.put(topic)
        await bench.subscriptions.delete(topic, "mine")
        await bench.settle()
        assert [event for event, _ in bench.told] == ["handshake.asked", "handshake.deletion_told"]
        line = {"subscription": "mine", "endpoint": "https://example.com/hook", "status": 200}
        assert bench.told[0][1] == {**line, "verdict": "Granted"}
        assert bench.told[1][1] == line

    run(test)


@pytest.mark.parametrize(
    ("answer", "waits"),
    [
        (status(200, "WebHook-Allowed-Origin: eventgrid.azure.net", "Allow: POST"), False),
        (status(200, body=b"hello"), True),
    ],
)
def test_options_over_a_real_connection(answer: bytes, waits: bool) -> None:
    """A CloudEvents endpoint on a real port is asked as it should be, and its answer is understood."""

    async def main() -> None:
        bench = Bench()
        caller = WebCaller(Egress.LOCAL)
        handshakes = Handshakes(caller, bench.clock, SystemClock(), tokens(), "http://127.0.0.1:8585")
        bench.topics, bench.subscriptions = make_resources(bench.registry, bench.clock, handshakes=handshakes)
        async with asyncio.timeout(20), Receiver(answering(answer)) as receiver:
            stored = await bench.put(await bench.topic(), receiver.url, delivery_schema=DeliverySchema.CLOUD_EVENT)
            assert (stored.handshake is not None) is waits
            [request] = receiver.requests
            assert (request.line, request.body) == ("OPTIONS /hook HTTP/1.1", b"")
            assert request.headers["webhook-request-origin"] == "eventgrid.azure.net"
            if waits:
                await bench.consent(request.headers["webhook-request-callback"])
                assert (await bench.subscriptions.get(await bench.topic(), "mine")).filter == TAKE_ALL
            await caller.close()

    asyncio.run(main())


def test_what_an_endpoint_consents_to_expires_on_time() -> None:
    """The expiration time of a subscription is watched from its consent on."""

    async def test(bench: Bench) -> None:
        topic = await bench.topic()
        await bench.put(topic, expires_at=bench.clock.now() + HOUR)
        bench.expiring.clear()
        await bench.consent()
        assert [subscription.name for subscription in bench.expiring] == ["mine"]

    run(test, plain)
