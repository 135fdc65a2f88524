"""The directory: who signs in with which secret."""

import pytest

from recapito.domain.access.principals import PrincipalDirectory, RegisteredPrincipal, hash_secret
from recapito.domain.access.roles import Principal, Role

READER = RegisteredPrincipal("Ours", hash_secret("secret").upper(), frozenset({Role.READER}))


@pytest.mark.parametrize(
    ("client", "secret", "known"),
    [
        ("Ours", "secret", True),
        ("OURS", "secret", True),
        ("Ours", "Secret", False),
        ("Ours", "", False),
        ("Ours", READER.secret_sha256, False),
        ("theirs", "secret", False),
        ("", "", False),
        ("Ours", "\udcff", False),
    ],
)
def test_sign_in(client: str, secret: str, known: bool) -> None:
    """Only a registered client with its own secret is let in; the hash is no secret."""
    found = PrincipalDirectory([READER]).sign_in(client, secret)
    assert found == (Principal("Ours", frozenset({Role.READER})) if known else None)


def test_no_secret_is_shown() -> None:
    """What may be logged of a registered principal has no hash in it."""
    assert READER.secret_sha256 not in repr(READER) + repr(PrincipalDirectory([READER]))
