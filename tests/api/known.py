"""A tenant with principals of every role, for the tests of access: its issuer, its tokens, and forged ones."""

import functools
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

from recapito.api.auth.access import Access
from recapito.api.auth.issuer import TokenIssuer
from recapito.api.auth.tokens import TokenVerifier
from recapito.domain import limits
from recapito.domain.access.roles import Plane, Principal, PrincipalDirectory, RegisteredPrincipal, Role, hash_secret
from recapito.identity.signer import Signer
from tests.intake.doubles import StillClock

URL = "http://127.0.0.1:8585"
TENANT = "6c7e9e34-0000-4000-8000-5a1d2f3b4c5d"
SECRET = "a-long-random-secret+/="
DATA = "https://eventgrid.azure.net"
MANAGEMENT = "https://management.azure.com/"
CLIENTS = {
    "reader": frozenset({Role.READER}),
    "contributor": frozenset({Role.CONTRIBUTOR}),
    "sender": frozenset({Role.DATA_SENDER}),
    "everything": frozenset(Role),
    "nothing": frozenset[Role](),
}


@functools.cache
def key(name: str = "ours") -> rsa.RSAPrivateKey:
    """A key for signing, always the same under one name."""
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


class Known:
    """The tenant. It has a clock of its own; `access` is what the service gets."""

    def __init__(self, open_to_loopback: bool = True) -> None:
        self.clock = StillClock()
        directory = PrincipalDirectory(
            RegisteredPrincipal(id, hash_secret(SECRET), roles) for id, roles in CLIENTS.items()
        )
        audiences = {Plane.MANAGEMENT: frozenset({URL, MANAGEMENT}), Plane.DATA: frozenset({DATA})}
        signer = Signer(key(), URL, TENANT, lambda: self.clock.now(), limits.BEARER_LIFE_NS)
        self.issuer = TokenIssuer(signer, directory, audiences)
        self.tokens = TokenVerifier(self.issuer.trust(), lambda: self.clock.now())
        self.access = Access(self.tokens, self.issuer, f"{URL}/{TENANT}", open_to_loopback)

    def token(self, client: str, audience: str = MANAGEMENT) -> str:
        """A token as the issuer gives it."""
        return self.issuer.issue(Principal(client, CLIENTS.get(client, frozenset())), audience)

    def forged(self, signed_with: Any = None, algorithm: str = "RS256", header: Any = None, **changes: Any) -> str:
        """A token of everything for management, changed; a claim that is None is left out."""
        claims = jwt.decode(self.token("everything"), options={"verify_signature": False}) | changes
        kept = {name: value for name, value in claims.items() if value is not None}
        wanted = {"kid": self.issuer.jwk["kid"], **(header or {})}
        headers = {name: value for name, value in wanted.items() if value is not None}
        return jwt.encode(kept, key() if signed_with is None else signed_with, algorithm, headers)


def bearer(token: str) -> dict[str, str]:
    """The header of a token."""
    return {"authorization": f"Bearer {token}"}
