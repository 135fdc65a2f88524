"""Roles and the operations that each allows, the principals that hold them, a topic's keys and its network rules.

Secrets and keys are compared in constant time."""

import hashlib
from collections.abc import Iterable
from enum import StrEnum
from functools import lru_cache
from hmac import compare_digest
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import NamedTuple

from recapito.domain import limits


class Role(StrEnum):
    """The roles of principals, by Azure's names."""

    READER = "Reader"
    CONTRIBUTOR = "Contributor"
    DATA_SENDER = "EventGrid Data Sender"


class Operation(StrEnum):
    """The operations that roles allow. `find` reads topics and their containers, `read` reads everything else.

    `act` shows or changes secrets, or moves the clock; `send` publishes.
    """

    FIND = "find"
    READ = "read"
    WRITE = "write"
    DELETE = "delete"
    ACT = "action"
    SEND = "send"


class Plane(StrEnum):
    """The two sides of the service: a token for one side is not valid for the other."""

    MANAGEMENT = "management"
    DATA = "data"


class Principal(NamedTuple):
    """An authenticated caller and its roles."""

    id: str
    roles: frozenset[Role]


ALLOWED: dict[Role, frozenset[Operation]] = {
    Role.READER: frozenset({Operation.FIND, Operation.READ}),
    Role.CONTRIBUTOR: frozenset(
        {Operation.FIND, Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ACT},
    ),
    Role.DATA_SENDER: frozenset({Operation.FIND, Operation.SEND}),
}

_FOUND = ("/subscriptions", "/providers", "/tenants")
_ASKED = ("/deliveries/explain",)  # only reads, whatever the method
_BY_METHOD = {
    "PUT": Operation.WRITE,
    "PATCH": Operation.WRITE,
    "DELETE": Operation.DELETE,
    "POST": Operation.ACT,
}


def may(roles: frozenset[Role], operation: Operation) -> bool:
    return any(operation in ALLOWED[role] for role in roles)


def operation_of(method: str, path: str) -> Operation:
    """The operation that a management request needs a role for."""
    lower = path.lower()
    operation = None if lower in _ASKED else _BY_METHOD.get(method)
    if operation is not None:
        return operation
    return Operation.FIND if "/eventsubscriptions" not in lower and lower.startswith(_FOUND) else Operation.READ


def roles_named(names: object) -> frozenset[Role]:
    """The roles of a claim that lists them by name; unknown names are ignored."""
    known = {role.lower(): role for role in Role}
    listed = names if isinstance(names, list) else [names]
    return frozenset(known[name.lower()] for name in listed if isinstance(name, str) and name.lower() in known)


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
        self._registered = {principal.client_id.lower(): principal for principal in registered}

    def __repr__(self) -> str:
        return f"<Directory of {len(self._registered)}>"

    def sign_in(self, client_id: str, secret: str) -> Principal | None:
        """The principal, if this is its secret. An unknown client id takes as long as a known one."""
        registered = self._registered.get(client_id.lower())
        matches = compare_digest(hash_secret(secret), registered.secret_sha256.lower() if registered else "0" * 64)
        return self.principal(client_id) if matches and registered else None

    def principal(self, client_id: str) -> Principal | None:
        registered = self._registered.get(client_id.lower())
        return None if registered is None else Principal(registered.client_id, registered.roles)


def hash_secret(secret: str) -> str:
    """The hash that is kept of a secret. Secrets are long and random, so a plain hash is enough."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def key_matches(given: str, key1: str, key2: str) -> bool:
    """Whether a key is one of the topic's two. Both are always compared, in constant time."""
    offered = given.encode("utf-8", "surrogatepass")
    first = compare_digest(offered, key1.encode())
    second = compare_digest(offered, key2.encode())
    return first | second


def is_loopback(host: str) -> bool:
    """Whether an address is this machine's own."""
    address = _address(host)
    return address is not None and address.is_loopback


@lru_cache(limits.PEER_CACHE)
def lets_in(peer: str, public_access: bool, ip_rules: tuple[str, ...]) -> bool:
    """Whether a topic's network rules let a publisher in.

    Without public access Azure leaves private endpoints; here that is loopback, and the rules do not count.
    """
    if not public_access:
        return is_loopback(peer)
    if not ip_rules:
        return True
    address = _address(peer)
    return address is not None and any(address in network for network in map(read_network, ip_rules) if network)


def read_network(rule: str) -> IPv4Network | IPv6Network | None:
    """The network of a rule, an address or a range in CIDR notation; None if it is neither."""
    try:
        return ip_network(rule.strip(), strict=False)
    except ValueError:
        return None


def _address(host: str) -> IPv4Address | IPv6Address | None:
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address
