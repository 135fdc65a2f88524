"""The keys of another issuer: found by OpenID discovery, cached, and fetched again when a token names an unknown one.

The issuer is asked at most once a minute, whatever tokens come. A token that the issuer has not signed is refused.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import jwt
import msgspec

from recapito.api.auth.tokens import Claims, IssuerTrust, same_audience
from recapito.clock import Clock
from recapito.domain import limits
from recapito.domain.access.roles import Plane, Principal, roles_named
from recapito.observability.journal import Journal, silent

Fetch = Callable[[str], Awaitable[bytes | None]]
ALGORITHMS = ("RS256", "ES256")
_DISCOVERY = "/.well-known/openid-configuration"


class RemoteKeys:
    """The keys of one issuer. `fetch` returns the content of a URL, None on failure; `clock` is the wall clock."""

    def __init__(self, issuer: str, fetch: Fetch, clock: Clock, journal: Journal = silent) -> None:
        self._issuer = issuer
        self._fetch = fetch
        self._clock = clock
        self._journal = journal
        self._keys: dict[str, jwt.PyJWK] = {}
        self._asking = asyncio.Lock()
        self._asked_at: int | None = None

    def __repr__(self) -> str:
        return f"<RemoteKeys {self._issuer}, {len(self._keys)} keys>"

    async def find(self, kid: str) -> jwt.PyJWK | None:
        """The key of that id; None if the issuer has none, as far as known."""
        if kid not in self._keys or self._since_asked() > limits.ISSUER_KEYS_NS:
            async with self._asking:
                pause = limits.ISSUER_PAUSE_NS if kid not in self._keys else limits.ISSUER_KEYS_NS
                if self._asked_at is None or self._since_asked() > pause:
                    await self._ask()
        return self._keys.get(kid)

    def _since_asked(self) -> int:
        return self._clock.now() - (self._asked_at or 0)

    async def _ask(self) -> None:
        """Fetch the issuer's keys; if that fails, the known ones stay."""
        self._asked_at = self._clock.now()
        keys = None
        document = _object(await self._fetch(self._issuer.rstrip("/") + _DISCOVERY))
        if document.get("issuer") == self._issuer and isinstance(document.get("jwks_uri"), str):
            keys = _object(await self._fetch(document["jwks_uri"])).get("keys")
        if isinstance(keys, list):
            self._keys = {key.key_id: key for key in map(_key, keys) if key is not None and key.key_id}
        else:
            self._journal("issuer.silent", issuer=self._issuer)


def trust_remote(
    keys: RemoteKeys, issuer: str, audience: str, role_claim: str, role_names: Mapping[str, str]
) -> IssuerTrust:
    """The rules for tokens of another issuer. A value of the role claim is a role, or a name that is mapped to one."""

    def principal_of(claims: Claims) -> Principal | None:
        names = _claim(claims, role_claim)
        named = [role_names.get(name, name) for name in _listed(names) if isinstance(name, str)]
        id = next((claims[key] for key in ("oid", "appid", "azp", "sub") if isinstance(claims.get(key), str)), None)
        return None if id is None else Principal(id, roles_named(named))

    audiences = dict.fromkeys(Plane, frozenset({same_audience(audience)}))
    return IssuerTrust(issuer, audiences, ALGORITHMS, keys.find, principal_of)


def _claim(claims: Claims, name: str) -> object:
    """A claim by its name; a dot leads into an object."""
    if name in claims:
        return claims[name]
    value: object = claims
    for part in name.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def _listed(value: object) -> list[object]:
    return value if isinstance(value, list) else [value]


def _object(body: bytes | None) -> dict[str, Any]:
    try:
        decoded = msgspec.json.decode(body or b"")
    except msgspec.MsgspecError:
        return {}
    return decoded if isinstance(decoded, dict) else {}


def _key(described: object) -> jwt.PyJWK | None:
    if not isinstance(described, dict) or described.get("use", "sig") != "sig":
        return None
    if described.get("kty") not in ("RSA", "EC"):  # a published shared key would let any reader sign
        return None
    try:
        return jwt.PyJWK(described)
    except (jwt.PyJWTError, ValueError, TypeError, KeyError):
        return None
