"""Who may publish: every way to show a key or a token, what is refused, and how fast."""

import asyncio
from typing import Any
from urllib.parse import quote

import msgspec
import pytest

from recapito.domain import limits
from recapito.domain.access import sas
from recapito.domain.capacity import Rate
from recapito.domain.instant import HOUR, SECOND, utc
from recapito.domain.resources.topic import Topic
from tests.api.client import EVENTS, TOPIC, Answer, World, event, run
from tests.api.server.raw_http import Line, answer, publish, talk
from tests.kit.publish_errors import refused

ENDPOINT = f"http://127.0.0.1:8585{EVENTS}"


def token(world: World, key: str, lifetime: int = HOUR, resource: str = ENDPOINT) -> str:
    """A SAS token that lives so long from now on."""
    return sas.sign(resource, f"{utc(world.clock.instant + lifetime):%Y-%m-%d %H:%M:%S+00:00}", key)


async def send(world: World, headers: dict[str, str], query: str = "", **more: Any) -> Answer:
    return await world.call("POST", EVENTS + query, [event()], headers=headers, **more)


async def changed(world: World, **changes: Any) -> Topic:
    """The topic `orders` with other rules; management has no words for them in these tests."""
    return await world.log.put_topic(msgspec.structs.replace(await world.topic(), **changes))


@pytest.mark.parametrize("which", ["key1", "key2"])
def test_every_way_to_show_a_key(which: str) -> None:
    """Each of Event Grid's ways opens the topic, with either key."""

    async def test(world: World) -> None:
        topic = await world.topic()
        key = getattr(topic, which)
        sas_token = token(world, key)
        for headers, query in (
            ({"aeg-sas-key": key}, ""),
            ({}, f"?api-version=2018-01-01&aeg-sas-key={quote(key, safe='')}"),
            ({}, f"?AEG-SAS-KEY={key}"),
            ({"aeg-sas-token": sas_token}, ""),
            ({"authorization": f"SharedAccessSignature {sas_token}"}, ""),
            ({"authorization": f"sharedaccesssignature  {sas_token}"}, "?api-version=2018-01-01"),
        ):
            assert (await send(world, headers, query)).status == 200, (headers, query)

    run(test)


def test_every_refusal_has_one_text() -> None:
    """A wrong, an expired, a foreign or a broken credential is refused alike, and no secret is in the answer."""

    async def test(world: World) -> None:
        topic = await world.topic()
        good = token(world, topic.key1)
        messages = set()
        for headers, query in (
            ({}, ""),
            ({}, "?aeg-sas-key=wrong"),
            ({}, "?aeg-sas-key"),
            ({"aeg-sas-key": good}, ""),
            ({"aeg-sas-token": topic.key1}, ""),
            ({"aeg-sas-token": token(world, "d3Jvbmc=")}, ""),
            ({"aeg-sas-token": token(world, topic.key1, -SECOND)}, ""),
            ({"aeg-sas-token": token(world, topic.key1, 0)}, ""),
            ({"aeg-sas-token": token(world, topic.key1, resource=ENDPOINT.replace("orders", "others"))}, ""),
            ({"aeg-sas-token": good + "x" * limits.SAS_TOKEN_CHARS}, ""),
            ({"authorization": good}, ""),
            ({"authorization": f"Basic {good}"}, ""),
            ({"authorization": "SharedAccessSignature"}, ""),
            ({"authorization": f"Bearer {good}"}, ""),
            ({"authorization": "Bearer " + "é" * 10}, ""),
        ):
            answer = await send(world, headers, query)
            messages.add(refused(answer, 401, "Unauthorized", "Unauthorized").partition("Report")[0])
            assert topic.key1.encode() not in answer.body
        assert len(messages) == 1

    run(test)


def test_a_token_expires_though_it_was_verified_before() -> None:
    """A verified token is remembered until it expires, not longer."""

    async def test(world: World) -> None:
        headers = {"aeg-sas-token": token(world, (await world.topic()).key1)}
        assert (await send(world, headers)).status == 200
        world.clock.instant += HOUR - SECOND
        assert (await send(world, headers)).status == 200
        world.clock.instant += SECOND
        assert (await send(world, headers)).status == 401

    run(test)


def test_a_regenerated_key_cuts_off_its_tokens_at_once() -> None:
    """A token of the old key is refused after regenerateKey though it was accepted before; the other key's is not."""

    async def test(world: World) -> None:
        topic = await world.topic()
        first, second = ({"aeg-sas-token": token(world, key)} for key in (topic.key1, topic.key2))
        for _ in range(2):
            assert (await send(world, first)).status == 200
            assert (await send(world, second)).status == 200
        keys = (await world.arm("POST", f"{TOPIC}/regenerateKey", {"keyName": "key1"})).json
        assert (await send(world, first)).status == 401
        assert (await send(world, second)).status == 200
        assert (await send(world, {"aeg-sas-token": token(world, keys["key1"])})).status == 200

    run(test)


def test_a_deleted_topic_takes_its_tokens_along() -> None:
    """A topic that is made again under the name of a deleted one has keys of its own."""

    async def test(world: World) -> None:
        headers = {"aeg-sas-token": token(world, (await world.topic()).key1)}
        assert (await send(world, headers)).status == 200
        await world.arm("DELETE", TOPIC)
        await world.topic()
        assert (await send(world, headers)).status == 401

    run(test)


def test_verified_tokens_are_bounded() -> None:
    """However many tokens a publisher makes, a bounded number is kept."""

    async def test(world: World) -> None:
        topic = await world.topic()
        gate = world.surface.publish.gate
        for n in range(limits.VERIFIED_TOKENS + 10):
            text = token(world, topic.key1, HOUR + n * SECOND)
            gate.check({b"aeg-sas-token": text.encode()}, b"", "127.0.0.1", topic)
        assert repr(gate) == f"<PublishGate {limits.VERIFIED_TOKENS} SAS tokens>"

    run(test)


def test_without_local_authentication_keys_open_nothing() -> None:
    """disableLocalAuth leaves bearer tokens."""

    async def test(world: World) -> None:
        topic = await changed(world, local_auth=False)
        for headers in ({"aeg-sas-key": topic.key1}, {"aeg-sas-token": token(world, topic.key1)}):
            refused(await send(world, headers), 401, "Unauthorized", "Unauthorized")

    run(test)


@pytest.mark.parametrize(
    ("rules", "peer", "status"),
    [
        ({"public_access": False}, "127.0.0.1", 200),
        ({"public_access": False}, "192.0.2.7", 403),
        ({"public_access": False}, None, 403),
        ({"ip_rules": ("192.0.2.0/24",)}, "192.0.2.7", 200),
        ({"ip_rules": ("192.0.2.0/24",)}, "198.51.100.1", 403),
        ({"ip_rules": ("192.0.2.0/24",)}, "127.0.0.1", 403),
        ({}, "198.51.100.1", 200),
    ],
)
def test_network_rules(rules: dict[str, Any], peer: str | None, status: int) -> None:
    """A publisher at an address that the topic's rules do not name gets 403, its key in hand."""

    async def test(world: World) -> None:
        topic = await changed(world, **rules)
        answer = await send(world, {"aeg-sas-key": topic.key1}, peer=peer)
        assert answer.status == status
        if status == 403:
            assert "network rules" in refused(answer, 403, "Forbidden", "Forbidden")

    run(test)


def test_a_topic_has_its_rate() -> None:
    """Beyond it publishers get 429 with the time to wait, other topics are served, and nothing refused is stored."""

    async def test(world: World) -> None:
        topic = await world.topic()
        batch = [event() for _ in range(25)]
        assert (await world.publish(batch, topic.key1)).status == 200
        answer = await world.publish(batch, topic.key1)
        refused(answer, 429, "TooManyRequests", "TooManyRequests")
        assert answer.headers["retry-after"] == "2"
        await world.arm("PUT", f"{TOPIC}-2", {"location": "westus2"})
        other = await world.log.topic("orders-2")
        assert other is not None
        path = EVENTS.replace("orders", "orders-2")
        assert (await world.call("POST", path, batch, headers={"aeg-sas-key": other.key1})).status == 200
        world.clock.instant += 2 * SECOND
        assert (await world.publish(batch, topic.key1)).status == 200
        assert world.publisher.stats.publishes == 3
        assert "recapito_publishes_throttled_total 1\n" in (await world.call("GET", "/metrics")).body.decode()

    run(test, rate=Rate(events=10))


def test_bytes_have_their_rate() -> None:
    """The rate counts bytes too."""

    async def test(world: World) -> None:
        topic = await world.topic()
        large = [event(data="x" * 5000)]
        assert (await world.publish(large, topic.key1)).status == 200
        assert (await world.publish(large, topic.key1)).headers["retry-after"] == "5"

    run(test, rate=Rate(bytes=1000))


def test_the_express_lane_takes_tokens_and_query_keys() -> None:
    """A credential that opens a topic opens it on the fast path too, and any other gets the ordinary answer."""

    async def conversation(line: Line, key: str) -> None:
        reader, writer = line
        good = sas.sign(ENDPOINT, "1/1/2099 12:00:00 AM", key)
        by_token = publish(key, 1).replace(f"aeg-sas-key: {key}".encode(), f"aeg-sas-token: {good}".encode())
        forged = by_token.replace(b"2099", b"2098")
        by_query = publish("", 2).replace(b"api/events", f"api/events?aeg-sas-key={key}".encode())
        for request, status in ((by_token, 200), (forged, 401), (by_token, 200), (by_query, 200)):
            writer.write(request)
            assert (await asyncio.wait_for(answer(reader), 20))[0] == status

    assert talk(conversation) == 3
