"""The credentials that a server accepts, as its parent, its roles and a standby share them."""

from typing import NamedTuple

from recapito.api.auth.issuer import TokenIssuer
from recapito.api.auth.tokens import NO_TOKENS, TokenVerifier
from recapito.domain.access.near_networks import LOOPBACK_ONLY, NearNetworks


class Access(NamedTuple):
    """The credentials that are accepted.

    tokens: verifies bearer tokens.
    issuer: our own token issuer, if there is one.
    authority: the URL that issues tokens.
    open_to_loopback: callers on this machine manage without a token.
    near: the networks whose callers do so too, in development mode.
    scrape_token: reads metrics and details of readiness, and nothing else.
    status_authenticated: metrics and details of readiness need a token.
    """

    tokens: TokenVerifier = NO_TOKENS
    issuer: TokenIssuer | None = None
    authority: str = ""
    open_to_loopback: bool = True
    scrape_token: str = ""
    status_authenticated: bool = True
    near: NearNetworks = LOOPBACK_ONLY

    def __repr__(self) -> str:
        return f"<Access by {self.authority}>"


ONLY_LOOPBACK = Access()
