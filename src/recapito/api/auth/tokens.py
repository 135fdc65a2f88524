"""Bearer tokens: their verification, and their principals. A verified token is cached until it expires."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import jwt
from jwt.types import Options

from recapito.domain import limits
from recapito.domain.access.roles import Plane, Principal
from recapito.domain.instant import SECOND

Claims = Mapping[str, Any]
_OURS_TO_CHECK = Options(verify_exp=False, verify_nbf=False, verify_iat=False, verify_aud=False, verify_iss=False)


@dataclass(frozen=True)
class IssuerTrust:
    """The rules for one issuer's tokens. `find_key` finds the key of an id, `principal_of` the principal of claims."""

    issuer: str
    audiences: Mapping[Plane, frozenset[str]]
    algorithms: tuple[str, ...]
    find_key: Callable[[str], Awaitable[jwt.PyJWK | None]]
    principal_of: Callable[[Claims], Principal | None]


class _Verified(NamedTuple):
    principal: Principal
    planes: frozenset[Plane]
    begins_at: int
    ends_at: int


class TokenVerifier:
    """Verifies tokens of one issuer; without one it accepts none. `now` is the service's clock."""

    def __init__(self, trust: IssuerTrust | None, now: Callable[[], int]) -> None:
        self._trust = trust
        self._now = now
        self._verified: dict[str, _Verified] = {}

    def __repr__(self) -> str:
        return f"<TokenVerifier {self._trust.issuer if self._trust else 'of none'}, {len(self._verified)} tokens>"

    def known(self, token: str, plane: Plane) -> Principal | None:
        """The principal of a token that was verified before; None if it was not, or is not valid here and now."""
        verified = self._verified.get(token)
        if verified is None or plane not in verified.planes or not verified.begins_at <= self._now() < verified.ends_at:
            return None
        return verified.principal

    async def verify(self, token: str, plane: Plane) -> Principal | None:
        """The principal of a token; None, without a reason, if it is not valid."""
        if token not in self._verified and self._trust is not None and len(token) <= limits.BEARER_TOKEN_CHARS:
            verified = await _verify(token, self._trust)
            if verified is not None:
                if len(self._verified) >= limits.VERIFIED_TOKENS:
                    del self._verified[next(iter(self._verified))]
                self._verified[token] = verified
        return self.known(token, plane)


NO_TOKENS = TokenVerifier(None, lambda: 0)


def same_audience(audience: str) -> str:
    """An audience for comparison: clients differ in the slash at its end, and in case."""
    return audience.rstrip("/").lower()


async def _verify(token: str, trust: IssuerTrust) -> _Verified | None:
    try:
        header = jwt.get_unverified_header(token)
        kid = header.get("kid")
        if header.get("alg") not in trust.algorithms or not isinstance(kid, str):
            return None
        key = await trust.find_key(kid)
        if key is None:
            return None
        claims = jwt.decode(token, key, algorithms=list(trust.algorithms), options=_OURS_TO_CHECK)
    except (jwt.PyJWTError, ValueError, TypeError, KeyError):
        return None  # whatever is wrong with a token is the sender's fault
    return _accept(claims, trust)


def _accept(claims: Claims, trust: IssuerTrust) -> _Verified | None:
    claimed = claims.get("aud")
    audiences = claimed if isinstance(claimed, list) else [claimed]
    named = {same_audience(audience) for audience in audiences if isinstance(audience, str)}
    planes = frozenset(plane for plane, ours in trust.audiences.items() if named & ours)
    begins, ends = _instant(claims.get("nbf", 0)), _instant(claims.get("exp"))
    principal = trust.principal_of(claims)
    if claims.get("iss") != trust.issuer or not planes or begins is None or ends is None or principal is None:
        return None
    return _Verified(principal, planes, begins, ends)


def _instant(seconds: object) -> int | None:
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds < 1 << 40:
        return None
    return int(seconds) * SECOND
