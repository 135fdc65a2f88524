"""Keys of a topic, its network rules, the operations of each role, and signing in."""

import pytest

from recapito.domain.access.roles import (
    ALLOWED,
    Operation,
    Principal,
    PrincipalDirectory,
    RegisteredPrincipal,
    Role,
    hash_secret,
    is_loopback,
    key_matches,
    lets_in,
    may,
    operation_of,
)
from tests.domain.access.role_table import TABLE, A, D, F, R, W

READER = RegisteredPrincipal("Ours", hash_secret("secret").upper(), frozenset({Role.READER}))


@pytest.mark.parametrize(
    ("given", "matches"),
    [
        ("first-key", True),
        ("second-key", True),
        ("", False),
        ("first-ke", False),
        ("first-keys", False),
        ("FIRST-KEY", False),
        ("first-key ", False),
        ("schlüssel", False),
        ("\udcff", False),
    ],
)
def test_either_key_opens_and_nothing_else(given: str, matches: bool) -> None:
    """A key matches only if it is one of the two, whole and in its own case, and no text makes the check fail."""
    assert key_matches(given, "first-key", "second-key") is matches


@pytest.mark.parametrize(("pair", "allowed"), TABLE.items(), ids=lambda value: str(value))
def test_every_role_and_operation(pair: tuple[Role, Operation], allowed: bool) -> None:
    """Each pair is decided as the table says."""
    role, operation = pair
    assert may(frozenset({role}), operation) is allowed


def test_the_table_is_whole() -> None:
    """No role and no operation is missing from it, and roles add up."""
    assert set(TABLE) == {(role, operation) for role in Role for operation in Operation}
    assert set(ALLOWED) == set(Role)
    for operation in Operation:
        assert may(frozenset(Role), operation)
        assert not may(frozenset(), operation)


TOPIC = "/subscriptions/s/resourceGroups/g/providers/Microsoft.EventGrid/topics/t"


@pytest.mark.parametrize(
    ("method", "path", "operation"),
    [
        ("GET", "/subscriptions", F),
        ("GET", "/tenants", F),
        ("GET", TOPIC, F),
        ("HEAD", "/subscriptions/s/resourcegroups/g", F),
        ("GET", "/providers/Microsoft.EventGrid/topicTypes", F),
        ("GET", f"{TOPIC}/eventSubscriptions", R),
        ("GET", f"{TOPIC}/providers/Microsoft.EventGrid/EVENTSUBSCRIPTIONS/e", R),
        ("GET", "/clock", R),
        ("PUT", TOPIC, W),
        ("PATCH", TOPIC, W),
        ("DELETE", TOPIC, D),
        ("POST", f"{TOPIC}/listKeys", A),
        ("POST", f"{TOPIC}/regenerateKey", A),
        ("POST", f"{TOPIC}/eventSubscriptions/e/getFullUrl", A),
        ("POST", "/clock/advance", A),
    ],
)
def test_operations_of_requests(method: str, path: str, operation: Operation) -> None:
    """The operation of a request follows from its method and path."""
    assert operation_of(method, path) is operation


@pytest.mark.parametrize(
    ("address", "ours"),
    [
        *((address, True) for address in ("127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1", "::1%lo")),
        *((address, False) for address in ("10.0.0.1", "::ffff:10.0.0.1", "", "localhost", "::2")),
    ],
)
def test_loopback(address: str, ours: bool) -> None:
    """Loopback is what the address says, in any spelling."""
    assert is_loopback(address) is ours


@pytest.mark.parametrize(
    ("peer", "rules", "let_in"),
    [
        ("10.1.2.3", (), True),
        ("10.1.2.3", ("10.0.0.0/8",), True),
        ("::ffff:10.1.2.3", ("10.0.0.0/8",), True),
        ("10.1.2.3", ("10.1.2.3",), True),
        ("10.1.2.3", ("10.1.2.77/24",), True),
        ("10.1.2.3", ("192.168.0.0/16", "2001:db8::/32", "10.1.2.3"), True),
        ("2001:db8::7", ("2001:db8::/32",), True),
        ("10.1.2.3", ("10.1.2.4",), False),
        ("2001:db9::7", ("2001:db8::/32", "10.0.0.0/8"), False),
        ("127.0.0.1", ("10.0.0.0/8",), False),
        ("", ("10.0.0.0/8",), False),
        ("10.1.2.3", ("nonsense",), False),
    ],
)
def test_ip_rules(peer: str, rules: tuple[str, ...], let_in: bool) -> None:
    """With rules only the addresses that they name get in, loopback included; without rules, all do."""
    assert lets_in(peer, True, rules) is let_in


@pytest.mark.parametrize("rules", [(), ("10.0.0.0/8",)])
def test_without_public_access_only_loopback_gets_in(rules: tuple[str, ...]) -> None:
    """There are no private endpoints here: loopback stands for them, and the rules do not count."""
    assert lets_in("127.0.0.1", False, rules)
    assert lets_in("::1", False, rules)
    assert not lets_in("10.1.2.3", False, rules)
    assert not lets_in("", False, rules)


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
    """The repr of a registered principal, which may be logged, has no hash in it."""
    assert READER.secret_sha256 not in repr(READER) + repr(PrincipalDirectory([READER]))
