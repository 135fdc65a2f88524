"""Our own token issuer: it signs tokens for the principals of its directory, and accepts only its own."""

from collections.abc import Mapping
from typing import Any

import jwt

from recapito.api.auth.tokens import Claims, IssuerTrust, same_audience
from recapito.domain.access.roles import Plane, Principal, PrincipalDirectory
from recapito.identity.signer import ALGORITHM, Signer


class TokenIssuer:
    """Issues and verifies the tokens of one tenant."""

    def __init__(
        self, signer: Signer, directory: PrincipalDirectory, audiences: Mapping[Plane, frozenset[str]]
    ) -> None:
        self.url = signer.url
        self.tenant = signer.tenant
        self.issuer = signer.issuer
        self.directory = directory
        self._signer = signer
        self._audiences = {plane: frozenset(map(same_audience, named)) for plane, named in audiences.items()}

    def __repr__(self) -> str:
        return f"<TokenIssuer {self.issuer}>"

    @property
    def jwk(self) -> dict[str, Any]:
        """The public key as a JWK."""
        return self._signer.jwk

    def serves(self, audience: str) -> bool:
        """Whether it issues tokens for that audience."""
        return any(same_audience(audience) in ours for ours in self._audiences.values())

    def issue(self, principal: Principal, audience: str) -> str:
        return self._signer.sign(principal.id, audience, principal.roles)

    def trust(self) -> IssuerTrust:
        """The rules by which our own tokens are verified: the current directory decides about roles, not the token."""
        key = jwt.PyJWK(self.jwk)

        async def find_key(kid: str) -> jwt.PyJWK | None:
            return key if kid == self.jwk["kid"] else None

        def principal_of(claims: Claims) -> Principal | None:
            client = claims.get("appid")
            return self.directory.principal(client) if isinstance(client, str) else None

        return IssuerTrust(self.issuer, self._audiences, (ALGORITHM,), find_key, principal_of)
