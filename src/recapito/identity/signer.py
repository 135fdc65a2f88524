"""Signs tokens with the server's key: for principals that request them, and for webhooks that require one.

A webhook that an Entra application protects gets the same token as from Event Grid: for that application, with the role
and the name that Event Grid has in every tenant. It is signed once, and again when it is about to expire.
"""

import base64
import hashlib
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

from recapito.domain import limits
from recapito.domain.instant import SECOND

ALGORITHM = "RS256"
EVENT_GRID = "4962773b-9cdb-44cf-a8bf-237846a00ab7"  # Event Grid's application, the same in every tenant
WEBHOOK_ROLE = "AzureEventGridSecureWebhookSubscriber"


class Signer:
    """Signs for one tenant. `url` is the issuer's address; `now` is the clock's."""

    def __init__(self, key: rsa.RSAPrivateKey, url: str, tenant: str, now: Callable[[], int], lifetime_ns: int) -> None:
        self.url = url
        self.tenant = tenant
        self._key = key
        self._now = now
        self._lifetime_ns = lifetime_ns
        self._for_webhooks: dict[str, tuple[str, int]] = {}  # by application: a token, and the end of its use

    def __repr__(self) -> str:
        return f"<Signer {self.issuer}>"

    @property
    def issuer(self) -> str:
        """The issuer's name in tokens."""
        return f"{self.url}/{self.tenant}/v2.0"

    def sign(self, client: str, audience: str, roles: Iterable[str]) -> str:
        """A token that identifies a client to an audience."""
        now = self._now() // SECOND
        claims = {
            "iss": self.issuer,
            "aud": audience,
            "sub": client,
            "oid": client,
            "appid": client,
            "azp": client,
            "tid": self.tenant,
            "roles": sorted(roles),
            "iat": now,
            "nbf": now,
            "exp": now + self._lifetime_ns // SECOND,
            "ver": "2.0",
        }
        return jwt.encode(claims, self._key, ALGORITHM, {"kid": self.jwk["kid"]})

    def webhook_token(self, application: str) -> str:
        """A token for a webhook that this application protects."""
        token, until = self._for_webhooks.get(application, ("", 0))
        if self._now() >= until:
            if len(self._for_webhooks) >= limits.WEBHOOK_TOKENS:
                self._for_webhooks.clear()
            token, until = self.sign(EVENT_GRID, application, [WEBHOOK_ROLE]), self._now() + self._lifetime_ns // 2
            self._for_webhooks[application] = (token, until)
        return token

    @cached_property
    def jwk(self) -> dict[str, Any]:
        """The public key as a JWK. Its id is a hash of the key."""
        public = RSAAlgorithm.to_jwk(self._key.public_key(), as_dict=True)
        kid = base64.urlsafe_b64encode(hashlib.sha256(public["n"].encode()).digest())[:27].decode()
        return {"kty": "RSA", "use": "sig", "alg": ALGORITHM, "kid": kid, "n": public["n"], "e": public["e"]}
