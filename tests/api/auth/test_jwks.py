"""Another issuer: its keys are found, kept and asked for again, and its claims mean our roles."""

import asyncio
import json
from typing import Any

import jwt
import pytest
from jwt.algorithms import RSAAlgorithm

from recapito.api.auth.jwks import RemoteKeys, trust_remote
from recapito.api.auth.tokens import TokenVerifier
from recapito.domain.access.roles import Plane, Principal, Role
from recapito.domain.instant import DAY, HOUR, MINUTE, SECOND
from tests.api.known import key
from tests.intake.doubles import StillClock

ISSUER = "https://login.example/tenant/v2.0"
AUDIENCE = "api://recapito"
DISCOVERY = f"{ISSUER}/.well-known/openid-configuration"
JWKS = "https://login.example/keys"


def jwk(name: str, **changes: Any) -> dict[str, Any]:
    """A public key as an issuer shows it, its name for an id."""
    return {**RSAAlgorithm.to_jwk(key(name).public_key(), as_dict=True), "kid": name, "use": "sig", **changes}


class Elsewhere:
    """The issuer, as far as it can be fetched, and our trust in it."""

    def __init__(self, *names: str, role_claim: str = "roles", **role_names: str) -> None:
        self.clock = StillClock()
        self.asked: list[str] = []
        self.told: list[str] = []
        self.pages: dict[str, Any] = {
            DISCOVERY: {"issuer": ISSUER, "jwks_uri": JWKS},
            JWKS: {"keys": [jwk(name) for name in names]},
        }
        self.keys = RemoteKeys(ISSUER, self._fetch, self.clock, lambda event, **_: self.told.append(event))
        trust = trust_remote(self.keys, ISSUER, AUDIENCE, role_claim, role_names)
        self.tokens = TokenVerifier(trust, self.clock.now)

    async def _fetch(self, url: str) -> bytes | None:
        self.asked.append(url)
        await asyncio.sleep(0)
        page = self.pages.get(url)
        return page if page is None or isinstance(page, bytes) else json.dumps(page).encode()

    def token(self, name: str = "first", **changes: Any) -> str:
        """A token that is signed with a key of that name."""
        now = self.clock.now() // SECOND
        claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": "somebody", "exp": now + 3600, "roles": ["Reader"], **changes}
        return jwt.encode(claims, key(name), "RS256", {"kid": name})

    async def verify(self, token: str) -> Principal | None:
        return await self.tokens.verify(token, Plane.MANAGEMENT)


def test_its_tokens_are_believed_on_both_sides() -> None:
    """A token that it signed for our audience names its principal, for management and for publishing."""
    there = Elsewhere("first")

    async def test() -> None:
        token = there.token()
        assert await there.verify(token) == Principal("somebody", frozenset({Role.READER}))
        assert await there.tokens.verify(token, Plane.DATA) is not None
        assert there.asked == [DISCOVERY, JWKS]

    asyncio.run(test())


def test_what_is_wrong_is_refused() -> None:
    """Another audience, issuer or key, an expired token and one with a shared secret are not believed."""
    there = Elsewhere("first")
    there.pages[JWKS]["keys"].append({"kty": "oct", "kid": "shared", "k": "c2VjcmV0", "alg": "HS256"})

    async def test() -> None:
        now = there.clock.now() // SECOND
        for token in (
            there.token(aud="api://other"),
            there.token(iss="https://login.example/other/v2.0"),
            there.token("second"),
            there.token(exp=now),
            there.token(sub=None),
            jwt.encode({"iss": ISSUER, "aud": AUDIENCE}, b"secret" * 8, "HS256", {"kid": "shared"}),
            jwt.encode({"iss": ISSUER, "aud": AUDIENCE}, key("second"), "RS256", {"kid": "first"}),
        ):
            assert await there.verify(token) is None

    asyncio.run(test())


@pytest.mark.parametrize("begins", ["soon", True, -1, 1 << 40, [0]])
def test_a_token_whose_begin_is_no_instant(begins: Any) -> None:
    """It is refused as any other wrong token is, and breaks nothing."""
    there = Elsewhere("first")

    async def test() -> None:
        assert await there.verify(there.token(nbf=begins)) is None

    asyncio.run(test())


def test_a_token_for_others_is_not_kept() -> None:
    """A signed token of another audience takes no place among the verified ones."""
    there = Elsewhere("first")

    async def test() -> None:
        assert await there.verify(there.token(aud="api://other")) is None
        assert repr(there.tokens).endswith(", 0 tokens>")
        assert await there.verify(there.token()) is not None
        assert repr(there.tokens).endswith(", 1 tokens>")

    asyncio.run(test())


def test_a_new_key_is_fetched_at_most_once_a_minute() -> None:
    """An unknown key id asks the issuer again, but not more than once a minute, however many are sent."""
    there = Elsewhere("first")

    async def test() -> None:
        assert await there.verify(there.token()) is not None
        there.pages[JWKS]["keys"].append(jwk("second"))
        for n in range(5):
            assert await there.verify(there.token("second", jti=str(n))) is None
        assert len(there.asked) == 2
        there.clock.instant += MINUTE + 1
        tokens = [there.token("second", jti=str(n)) for n in range(5)]
        assert None not in await asyncio.gather(*map(there.verify, tokens))
        assert len(there.asked) == 4

    asyncio.run(test())


def test_a_silent_issuer_changes_nothing() -> None:
    """While it does not answer, what is known stays good; that is journalled, and asked for again later."""
    there = Elsewhere("first")

    async def test() -> None:
        assert await there.verify(there.token()) is not None
        good, there.pages[DISCOVERY] = there.pages[DISCOVERY], None
        there.clock.instant += HOUR
        assert await there.verify(there.token("second")) is None
        assert there.told == ["issuer.silent"]
        assert await there.verify(there.token()) is not None
        there.pages[DISCOVERY] = good
        there.pages[JWKS] = {"keys": [jwk("second")]}
        there.clock.instant += DAY + 1
        assert await there.verify(there.token()) is None  # withdrawn, and noticed within a day
        assert await there.verify(there.token("second")) is not None

    asyncio.run(test())


@pytest.mark.parametrize(
    ("url", "page"),
    [
        (DISCOVERY, b"not json"),
        (DISCOVERY, []),
        (DISCOVERY, {"issuer": "https://evil.example", "jwks_uri": JWKS}),
        (DISCOVERY, {"issuer": ISSUER, "jwks_uri": 7}),
        (JWKS, None),
        (JWKS, {"keys": {}}),
        (JWKS, {"keys": [None, 7, {}, {"kty": "RSA", "kid": "first"}, {"kty": "RSA", "n": "!", "e": "!"}]}),
        (JWKS, {"keys": [jwk("first", use="enc")]}),
        (JWKS, {"keys": [jwk("first", kid=None)]}),
    ],
)
def test_bad_answers_of_the_issuer(url: str, page: Any) -> None:
    """Whatever comes instead of keys, tokens are refused and nothing breaks."""
    there = Elsewhere("first")
    there.pages[url] = page

    async def test() -> None:
        assert await there.verify(there.token()) is None

    asyncio.run(test())


@pytest.mark.parametrize(
    ("claims", "roles"),
    [
        ({"roles": ["admins", "contributor", "unknown", 7]}, {Role.CONTRIBUTOR, Role.READER}),
        ({"roles": "senders"}, {Role.DATA_SENDER}),
        ({"roles": "EVENTGRID DATA SENDER"}, {Role.DATA_SENDER}),
        ({"roles": None}, set()),
        ({}, {Role.READER}),
    ],
)
def test_names_mean_roles(claims: dict[str, Any], roles: set[Role]) -> None:
    """A value of the claim is a name that the settings give a meaning, or a role's own."""
    there = Elsewhere("first", admins="Reader", senders="EventGrid Data Sender")

    async def test() -> None:
        assert await there.verify(there.token(**claims)) == Principal("somebody", frozenset(roles))

    asyncio.run(test())


def test_a_claim_inside_an_object() -> None:
    """Some issuers keep roles one level down."""
    there = Elsewhere("first", role_claim="realm_access.roles")

    async def test() -> None:
        found = await there.verify(there.token(realm_access={"roles": ["Contributor"]}, oid="object"))
        assert found == Principal("object", frozenset({Role.CONTRIBUTOR}))
        nothing = await there.verify(there.token(realm_access="x"))
        assert nothing is not None and nothing.roles == frozenset()

    asyncio.run(test())
