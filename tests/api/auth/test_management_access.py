"""Who may manage: tokens and their roles, forged ones, and callers on this machine."""

import base64
import hashlib
import hmac
import json
from ipaddress import IPv4Network
from typing import Any

import jwt
import msgspec
import pytest
from cryptography.hazmat.primitives import serialization

from recapito.domain.access.near_networks import NearNetworks
from recapito.domain.access.roles import Operation
from recapito.domain.instant import HOUR, SECOND
from recapito.domain.resources.topic import Topic
from tests.api.client import EVENTS, NESTED, TOPIC, VERSION, Answer, World, event, run, webhook
from tests.api.known import CLIENTS, DATA, MANAGEMENT, URL, Known, bearer, key
from tests.domain.access.role_table import TABLE
from tests.kit.publish_errors import refused

REQUESTS: dict[Operation, list[tuple[str, str, Any]]] = {
    Operation.FIND: [("GET", TOPIC, b""), ("GET", TOPIC.rpartition("/")[0], b"")],
    Operation.READ: [("GET", NESTED, b""), ("GET", f"{NESTED}/mine", b""), ("GET", "/clock", b"")],
    Operation.WRITE: [
        ("PUT", TOPIC, {"location": "westus2"}),
        ("PUT", f"{NESTED}/mine", {"properties": {"destination": webhook()}}),
    ],
    Operation.ACT: [
        ("POST", f"{TOPIC}/listKeys", b""),
        ("POST", f"{TOPIC}/regenerateKey", {"keyName": "key2"}),
        ("POST", "/clock/advance", {"seconds": 1}),
    ],
    Operation.DELETE: [("DELETE", f"{NESTED}/mine", b""), ("DELETE", TOPIC, b"")],
}


def unauthenticated(answer: Answer) -> None:
    """Check the whole answer to an unknown caller."""
    assert answer.status == 401, answer.body
    assert answer.error["code"] == "AuthenticationFailed"
    assert answer.headers["www-authenticate"].startswith("Bearer authorization_uri=")


async def prepared(world: World, known: Known) -> Topic:
    """The topic with a subscription, made by a principal that may make them."""
    admin = bearer(known.token("everything", URL))
    assert (await world.arm("PUT", TOPIC, {"location": "westus2"}, headers=admin)).status == 201
    body = {"properties": {"destination": webhook()}}
    assert (await world.arm("PUT", f"{NESTED}/mine", body, headers=admin)).status == 201
    topic = await world.log.topic("orders")
    assert topic is not None
    return topic


def run_known(test: Any, known: Known | None = None) -> None:
    """Run with a tenant, on one clock."""
    tenant = known or Known()

    async def whole(world: World) -> None:
        tenant.clock = world.clock
        await test(world, tenant)

    run(whole, access=tenant.access)


@pytest.mark.parametrize("loopback", [True, False])
@pytest.mark.parametrize("client", ["reader", "contributor", "sender", "nothing", "everything"])
def test_every_role_over_http(client: str, loopback: bool) -> None:
    """Each role gets what the table gives it and 403 for the rest, on loopback too: a token that is sent decides."""

    async def test(world: World, known: Known) -> None:
        topic = await prepared(world, known)
        headers = bearer(known.token(client))
        for operation, requests in REQUESTS.items():
            allowed = any(TABLE[role, operation] for role in CLIENTS[client])
            for method, path, body in requests:
                answer = await world.arm(method, path, body, headers=headers)
                assert (answer.status == 403) is not allowed, (method, path, answer.body)
                if not allowed:
                    assert answer.error["code"] == "AuthorizationFailed"
                    assert f"'{client}'" in answer.error["message"]
        if client == "reader":
            assert await world.log.topic("orders") == topic

    run_known(test, Known(open_to_loopback=loopback))


@pytest.mark.parametrize("client", ["reader", "contributor", "sender", "nothing"])
def test_every_role_publishing(client: str) -> None:
    """Only a data sender publishes with its token; the others get the one text of every 401."""

    async def test(world: World, known: Known) -> None:
        await prepared(world, known)
        headers = bearer(known.token(client, DATA))
        for _ in range(2):
            answer = await world.call("POST", EVENTS, [event()], headers=headers, peer="192.0.2.1")
            if any(TABLE[role, Operation.SEND] for role in CLIENTS[client]):
                assert answer.status == 200
            else:
                refused(answer, 401, "Unauthorized", "Unauthorized")

    run_known(test)


def test_a_token_has_one_side() -> None:
    """A token for management publishes nothing, one for publishing manages nothing, and each expires."""

    async def test(world: World, known: Known) -> None:
        await prepared(world, known)
        for_data, for_management = (bearer(known.token("everything", a)) for a in (DATA, MANAGEMENT))
        assert (await world.call("POST", EVENTS, [event()], headers=for_management)).status == 401
        unauthenticated(await world.arm("GET", TOPIC, headers=for_data))
        world.clock.instant += HOUR - SECOND
        assert (await world.call("POST", EVENTS, [event()], headers=for_data)).status == 200
        assert (await world.arm("GET", TOPIC, headers=for_management)).status == 200
        world.clock.instant += SECOND
        assert (await world.call("POST", EVENTS, [event()], headers=for_data)).status == 401
        unauthenticated(await world.arm("GET", TOPIC, headers=for_management))

    run_known(test)


def by_hand(header: dict[str, Any], claims: dict[str, Any], secret: bytes | None = None) -> str:
    """A token that no library would make."""
    parts = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=") for part in (header, claims)]
    mac = b"" if secret is None else hmac.new(secret, b".".join(parts), hashlib.sha256).digest()
    return b".".join([*parts, base64.urlsafe_b64encode(mac).rstrip(b"=")]).decode()


def forgeries(known: Known) -> dict[str, str]:
    """Tokens that must not be believed, by what is wrong with them."""
    now = known.clock.now() // SECOND
    good = known.token("everything")
    claims = jwt.decode(good, options={"verify_signature": False})
    kid = known.issuer.jwk["kid"]
    public = (
        key().public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    head, body, signature = good.split(".")
    other = known.token("reader").split(".")[1]
    return {
        "another key": known.forged(signed_with=key("theirs")),
        "no algorithm": by_hand({"alg": "none", "kid": kid}, claims),
        "no algorithm, capitals": by_hand({"alg": "NONE", "kid": kid}, claims),
        "our public key as a secret": by_hand({"alg": "HS256", "kid": kid}, claims, public),
        "another algorithm": known.forged(algorithm="RS512"),
        "another padding": known.forged(algorithm="PS256"),
        "no key id": known.forged(header={"kid": None}),
        "unknown key id": known.forged(header={"kid": "unknown"}),
        "key of its own": known.forged(signed_with=key("theirs"), header={"jwk": {"kty": "RSA"}, "jku": "http://x/"}),
        "expired": known.forged(exp=now),
        "expired long ago": known.forged(exp=0),
        "not yet": known.forged(nbf=now + 1),
        "never ends": known.forged(exp=None),
        "ends in words": known.forged(exp="tomorrow"),
        "ends at infinity": known.forged(exp=1e300),
        "another issuer": known.forged(iss="https://sts.windows.net/elsewhere/"),
        "no issuer": known.forged(iss=None),
        "another audience": known.forged(aud="https://graph.microsoft.com"),
        "no audience": known.forged(aud=None),
        "an audience that begins like ours": known.forged(aud=f"{URL}.evil.example"),
        "an unknown client": known.forged(appid="nobody"),
        "no client": known.forged(appid=None),
        "a client that is none": known.forged(appid=["everything"]),
        "another's claims": f"{head}.{other}.{signature}",
        "no signature": f"{head}.{body}.",
        "too many parts": f"{good}.x",
        "no token": "opaque",
        "nothing": "",
        "very long": "x" * 100_000,
        "not ASCII": "é.é.é",
    }


def test_forged_tokens_are_refused() -> None:
    """Whatever is wrong with a token, it is refused in one way, before and after a good one was seen."""

    async def test(world: World, known: Known) -> None:
        await prepared(world, known)
        for wrong, token in [*forgeries(known).items()] * 2:
            management = await world.arm("GET", TOPIC, headers=bearer(token))
            data = await world.call("POST", EVENTS, [event()], headers=bearer(token))
            assert (management.status, data.status) == (401, 401), wrong
            unauthenticated(management)
            refused(data, 401, "Unauthorized", "Unauthorized")
            assert not token or token.encode() not in management.body + data.body
            assert (await world.arm("GET", TOPIC, headers=bearer(known.token("reader")))).status == 200
        assert world.told == []

    run_known(test)


def test_roles_in_a_token_count_for_nothing() -> None:
    """The directory decides: a claim of roles changes nothing for our own principals."""

    async def test(world: World, known: Known) -> None:
        await prepared(world, known)
        token = known.forged(appid="reader", roles=["Contributor"])
        assert (await world.arm("DELETE", TOPIC, headers=bearer(token))).status == 403

    run_known(test)


def test_off_loopback_nobody_manages_without_a_token() -> None:
    """When other machines can reach the server, its own machine needs a token too; health does not."""

    async def test(world: World, known: Known) -> None:
        await prepared(world, known)
        for peer in ("127.0.0.1", "192.0.2.1", None):
            for requests in REQUESTS.values():
                for method, path, body in requests:
                    unauthenticated(await world.arm(method, path, body, peer=peer))
            for path in ("/healthz", "/readyz", "/", "/metadata/endpoints"):
                assert (await world.call("GET", path, peer=peer)).status == 200
        headers = bearer(known.token("reader")) | {"host": "events.example"}
        assert (await world.arm("GET", TOPIC, headers=headers, peer="192.0.2.1")).status == 200

    run_known(test, Known(open_to_loopback=False))


@pytest.mark.parametrize("authorization", ["Bearer nonsense", "Bearer", "Basic dTpw", "", "SharedAccessSignature r="])
def test_on_loopback_a_token_that_is_sent_must_be_good(authorization: str) -> None:
    """Without a token this machine manages; with a bad one it does not."""

    async def test(world: World, known: Known) -> None:
        await prepared(world, known)
        assert (await world.arm("GET", TOPIC)).status == 200
        unauthenticated(await world.arm("GET", TOPIC, headers={"authorization": authorization}))

    run_known(test)


def test_without_local_authentication_a_bearer_publishes() -> None:
    """disableLocalAuth leaves the tokens of data senders."""

    async def test(world: World, known: Known) -> None:
        topic = await world.topic()
        await world.log.put_topic(msgspec.structs.replace(topic, local_auth=False))
        assert (await world.publish([event()], topic.key1)).status == 401
        token = known.token("sender", DATA)
        assert (await world.call("POST", f"{EVENTS}?{VERSION}", [event()], headers=bearer(token))).status == 200

    run_known(test)


def test_in_development_mode_the_networks_of_the_server_manage() -> None:
    """Callers of a near network need no token, by a private name; a far caller, a public name and a page do."""
    tenant = Known()
    tenant.access = tenant.access._replace(near=NearNetworks((IPv4Network("172.17.0.0/16"),)))

    async def test(world: World, known: Known) -> None:
        await prepared(world, known)
        for peer, headers, status in (
            ("172.17.0.1", {"host": "localhost:8585"}, 200),
            ("172.17.0.9", {"host": "recapito:8585"}, 200),
            ("127.0.0.1", {"host": "localhost"}, 200),
            ("172.18.0.1", {"host": "recapito:8585"}, 403),
            ("172.17.0.1", {"host": "events.example"}, 403),
            ("172.17.0.1", {"host": "localhost", "origin": "https://evil.example"}, 403),
        ):
            assert (await world.arm("GET", TOPIC, headers=headers, peer=peer)).status == status, (peer, headers)
        unauthenticated(await world.arm("GET", TOPIC, headers={"authorization": "Bearer x"}, peer="172.17.0.1"))

    run_known(test, tenant)
