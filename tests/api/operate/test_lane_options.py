"""Options of a lane over HTTP: what is taken, what is shown of it, and what ARM's verbs leave alone."""

from typing import Any

import pytest

from recapito.connections.encryption import SecretBox
from recapito.domain.delivery.signature import show_secret
from recapito.domain.resources.delivery_options import signing_name
from tests.api.client import NESTED, TOPIC, VERSION, World, run

BOX = SecretBox.in_memory()
SECRETS = [show_secret(bytes([n]) * 32) for n in range(3)]


def body(endpoint: str = "http://127.0.0.1:9999/a", **more: Any) -> Any:
    return {"properties": {"destination": {"endpointType": "WebHook", "properties": {"endpointUrl": endpoint}}, **more}}


def optional(test: Any, **more: Any) -> None:
    """Run a test in a world with a topic and a subscription."""

    async def prepared(world: World) -> None:
        await world.call("PUT", f"{TOPIC}?{VERSION}", {"location": "here"})
        made = await world.call("PUT", f"{NESTED}/hook?{VERSION}", body())
        assert made.status == 201, made.body
        await test(world)

    run(prepared, encrypt=BOX.encrypt, **more)


async def secrets_of(world: World) -> list[str]:
    subscription = await world.log.subscription_by_id(1)
    assert subscription is not None
    return [show_secret(BOX.decrypt(sealed, signing_name(1))) for sealed in subscription.options.signing]


def test_secrets_rotate() -> None:
    """A secret is set, rotated, and the former one forgotten; the lane shows their number, never a secret."""

    async def test(world: World) -> None:
        for change, secret, kept in (
            ("set", 0, [0]),
            ("rotate", 1, [1, 0]),
            ("rotate", 2, [2, 1]),
            ("finish", None, [2]),
            ("set", 1, [1]),
            ("off", None, []),
        ):
            wanted = {"change": change} | ({} if secret is None else {"secret": SECRETS[secret]})
            answered = await world.call("POST", "/lanes/1/signing", wanted)
            assert (answered.status, answered.json["options"]["signingSecrets"]) == (200, len(kept))
            assert await secrets_of(world) == [SECRETS[n] for n in kept]
            shown = await world.call("GET", "/lanes")
            assert shown.json["value"][0]["options"]["signingSecrets"] == len(kept)
            stored = repr(await world.log.subscription_by_id(1))
            for text in (answered.body.decode(), shown.body.decode(), stored):
                assert "whsec" not in text

    optional(test)


def test_arm_leaves_options_alone() -> None:
    """A PUT and a PATCH of the subscription neither show its options nor change them."""

    async def test(world: World) -> None:
        await world.call("POST", "/lanes/1/signing", {"change": "set", "secret": SECRETS[0]})
        before = (await world.call("GET", f"{NESTED}/hook?{VERSION}")).json
        assert "options" not in str(before)
        await world.call("PUT", f"{NESTED}/hook?{VERSION}", body("http://127.0.0.1:9999/b"))
        await world.call("PATCH", f"{NESTED}/hook?{VERSION}", {"labels": ["new"]})
        assert await secrets_of(world) == SECRETS[:1]

    optional(test)


def test_limits() -> None:
    """Limits are set together and lifted by leaving them out; those out of range are refused; secrets stay."""

    async def test(world: World) -> None:
        await world.call("POST", "/lanes/1/signing", {"change": "set", "secret": SECRETS[0]})
        for wanted in ({"maxRequests": 2, "eventsPerSecond": 10}, {"eventsPerSecond": 5}, {}):
            answered = await world.call("POST", "/lanes/1/limits", wanted)
            whole = {"signingSecrets": 1, "maxRequests": None, "eventsPerSecond": None} | wanted
            assert answered.json["options"] == whole
            assert (await world.call("GET", "/lanes")).json["value"][0]["options"] == whole
        for wrong in ({"maxRequests": 0}, {"maxRequests": 65}, {"eventsPerSecond": -1}, {"rate": 1}):
            assert (await world.call("POST", "/lanes/1/limits", wrong)).status == 400

    optional(test)


def test_replay() -> None:
    """A start by time or by position is taken, both or neither is not; what is replayed is told."""

    async def test(world: World) -> None:
        for wanted in ({"position": 1}, {"since": "2020-01-01"}):
            answered = await world.call("POST", "/lanes/1/replay", wanted)
            assert (answered.status, answered.json["done"], answered.json["next"]) == (200, 0, None)
        for wrong in ({}, {"position": 0}, {"position": 1, "since": "2020-01-01"}, {"since": "x"}):
            assert (await world.call("POST", "/lanes/1/replay", wrong)).status == 400

    optional(test, replay=True)


def test_retry_now() -> None:
    """Each request leaves a later instant, even while the clock stands still, and answers what waited."""

    async def test(world: World) -> None:
        asked = []
        for _ in range(2):
            answered = await world.call("POST", "/lanes/1/retry-now", {})
            assert answered.json == {"id": 1, "subscription": "hook", "held": False, "parked": 0}
            subscription = await world.log.subscription_by_id(1)
            assert subscription is not None
            asked.append(subscription.options.retry_asked_at)
        assert asked == [world.clock.now(), world.clock.now() + 1]
        assert (await world.call("POST", "/lanes/7/retry-now", {})).status == 404
        assert (await world.call("POST", "/lanes/1/retry-now", {"what": 1})).status == 400

    optional(test)


@pytest.mark.parametrize(
    ("path", "wanted", "status", "says"),
    [
        ("1", {"change": "set"}, 400, "'set' needs 'secret'"),
        ("1", {"change": "off", "secret": SECRETS[0]}, 400, "takes no 'secret'"),
        ("1", {"change": "set", "secret": "hunter2"}, 400, "whsec_"),
        ("1", {"change": "toggle"}, 400, "change"),
        ("2", {"change": "off"}, 404, "2"),
        ("x", {"change": "off"}, 404, "x"),
    ],
)
def test_wrong_changes(path: str, wanted: Any, status: int, says: str) -> None:
    """A wrong change is refused by name, without the secret."""

    async def test(world: World) -> None:
        answered = await world.call("POST", f"/lanes/{path}/signing", wanted)
        assert (answered.status, says in answered.error["message"]) == (status, True), answered.body
        assert "hunter2" not in answered.body.decode()

    optional(test)
