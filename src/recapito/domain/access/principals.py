"""The principals that the server knows, each with the hash of its secret and its roles."""

import hashlib
from collections.abc import Iterable
from hmac import compare_digest
from typing import NamedTuple

from recapito.domain.access.roles import Principal, Role


class RegisteredPrincipal(NamedTuple):
    """A principal and the SHA-256 of its secret, in hex."""

    client_id: str
    secret_sha256: str
    roles: frozenset[Role]

    def __repr__(self) -> str:
        return f"<Registered {self.client_id}>"


class PrincipalDirectory:
    """Finds principals by their client ids, which compare without case."""

    def __init__(self, registered: Iterable[RegisteredPrincipal]) -> None:
        self._registered = {one.client_id.lower(): one for one in registered}

    def __repr__(self) -> str:
        return f"<Directory of {len(self._registered)}>"

    def sign_in(self, client_id: str, secret: str) -> Principal | None:
        """The principal, if this is its secret. An unknown one takes as long as a known one."""
        found = self._registered.get(client_id.lower())
        matches = compare_digest(hash_secret(secret), found.secret_sha256.lower() if found else "0" * 64)
        return self.principal(client_id) if matches and found else None

    def principal(self, client_id: str) -> Principal | None:
        """The principal of that client id."""
        found = self._registered.get(client_id.lower())
        return None if found is None else Principal(found.client_id, found.roles)


def hash_secret(secret: str) -> str:
    """What is kept of a secret. Secrets are long and random, so that a plain hash is enough."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
