"""Tokens for webhooks that an application protects."""

import functools

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

from recapito.domain.instant import HOUR, SECOND
from recapito.identity.signer import EVENT_GRID, Signer

URL = "https://localhost:8585"


@functools.cache
def key() -> rsa.RSAPrivateKey:
    """A key for signing."""
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def test_a_webhook_can_verify_its_token() -> None:
    """It is Event Grid's, for the application, in the role that the application gave it, under the published key."""
    signer = Signer(key(), URL, "tenant", lambda: 1_800_000_000 * SECOND, HOUR)
    token = signer.webhook_token("api://orders")
    assert jwt.get_unverified_header(token)["kid"] == signer.jwk["kid"]
    claims = jwt.decode(
        token,
        jwt.PyJWK(signer.jwk),
        audience="api://orders",
        issuer=f"{URL}/tenant/v2.0",
        options={"verify_exp": False, "verify_nbf": False, "verify_iat": False},
    )
    assert (claims["appid"], claims["tid"]) == (EVENT_GRID, "tenant")
    assert claims["roles"] == ["AzureEventGridSecureWebhookSubscriber"]
    assert claims["exp"] - claims["iat"] == 3600


def test_a_token_is_signed_once_and_anew_before_it_ends() -> None:
    """Signing takes a millisecond: the same token serves for half of its life."""
    now = 1_800_000_000 * SECOND
    signer = Signer(key(), URL, "tenant", lambda: now, HOUR)
    first = signer.webhook_token("a")
    assert signer.webhook_token("a") == first
    assert signer.webhook_token("b") != first
    now += HOUR // 2 - 1
    assert signer.webhook_token("a") == first
    now += 1
    assert signer.webhook_token("a") != first
