"""Our own token issuer: it signs tokens for the principals of its directory, and believes only those."""

import base64
import hashlib
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

from recapito.api.token import Claims, Trust, same_audience
from recapito.domain.access import Plane, Principal
from recapito.domain.directory import Directory
from recapito.domain.instant import SECOND

ALGORITHM = "RS256"


class TokenIssuer:
    """Issues and knows tokens of one tenant. `url` is where clients reach it; `now` is the clock's."""

    def __init__(
        self,
        key: rsa.RSAPrivateKey,
        url: str,
        tenant: str,
        directory: Directory,
        audiences: Mapping[Plane, frozenset[str]],
        now: Callable[[], int],
        lifetime_ns: int,
    ) -> None:
        self.url = url
        self.tenant = tenant
        self.directory = directory
        self._audiences = {plane: frozenset(map(same_audience, named)) for plane, named in audiences.items()}
        self._key = key
        self._now = now
        self._lifetime_ns = lifetime_ns

    def __repr__(self) -> str:
        return f"<TokenIssuer {self.issuer}>"

    @property
    def issuer(self) -> str:
        """Its name in tokens."""
        return f"{self.url}/{self.tenant}/v2.0"

    def serves(self, audience: str) -> bool:
        """Whether tokens are issued for that audience."""
        return any(same_audience(audience) in ours for ours in self._audiences.values())

    def issue(self, principal: Principal, audience: str) -> str:
        """A signed token for an audience."""
        now = self._now() // SECOND
        claims = {
            "iss": self.issuer,
            "aud": audience,
            "sub": principal.id,
            "oid": principal.id,
            "appid": principal.id,
            "azp": principal.id,
            "tid": self.tenant,
            "roles": sorted(principal.roles),
            "iat": now,
            "nbf": now,
            "exp": now + self._lifetime_ns // SECOND,
            "ver": "2.0",
        }
        return jwt.encode(claims, self._key, ALGORITHM, {"kid": self.jwk["kid"]})

    @cached_property
    def jwk(self) -> dict[str, Any]:
        """The public key, as JWKS shows it. Its id is made from it."""
        public = RSAAlgorithm.to_jwk(self._key.public_key(), as_dict=True)
        kid = base64.urlsafe_b64encode(hashlib.sha256(public["n"].encode()).digest())[:27].decode()
        return {"kty": "RSA", "use": "sig", "alg": ALGORITHM, "kid": kid, "n": public["n"], "e": public["e"]}

    def trust(self) -> Trust:
        """How our own tokens are verified: the directory of now decides about roles, not the token."""
        key = jwt.PyJWK(self.jwk)

        async def find_key(kid: str) -> jwt.PyJWK | None:
            return key if kid == self.jwk["kid"] else None

        def principal_of(claims: Claims) -> Principal | None:
            client = claims.get("appid")
            return self.directory.principal(client) if isinstance(client, str) else None

        return Trust(self.issuer, self._audiences, (ALGORITHM,), find_key, principal_of)
