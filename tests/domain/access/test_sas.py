"""Shared access signatures: whose are believed, for how long, and for which topic."""

import base64
import hashlib
import hmac
import random
import string
from datetime import UTC, datetime
from urllib.parse import quote, quote_plus

import pytest

from recapito.domain.access.sas import is_for, is_signed, parse_expiry, parse_token, sign
from recapito.domain.instant import SECOND
from recapito.domain.resources.topic import Topic, TopicKind
from tests.kit.resources import a_topic

KEY1 = base64.b64encode(bytes(range(32))).decode()
KEY2 = base64.b64encode(bytes(range(32, 64))).decode()
OTHER = base64.b64encode(bytes(range(64, 96))).decode()
ENDPOINT = "https://orders.westus2-1.eventgrid.azure.net/api/events"
NOW = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp()) * SECOND


def topic(name: str = "orders", kind: TopicKind = TopicKind.CUSTOM) -> Topic:
    return a_topic(name=name, kind=kind, location="local", key1=KEY1, key2=KEY2)


def accepts(text: str, now: int = NOW) -> bool:
    """The whole judgement, as the service makes it."""
    token = parse_token(text)
    if token is None:
        return False
    return token.expires_at > now and is_for(token, topic()) and is_signed(token, KEY1, KEY2)


def signed_by_hand(signed: str, encode: object, key: str = KEY1) -> str:
    """A token over a text that was encoded already."""
    mac = hmac.new(base64.b64decode(key), signed.encode(), hashlib.sha256).digest()
    assert callable(encode)
    return f"{signed}&s={encode(base64.b64encode(mac).decode())}"


def net(text: str) -> str:
    """As .NET's HttpUtility.UrlEncode writes it: small letters, and a plus for a blank."""
    encoded = quote_plus(text)
    return "".join(c.lower() if encoded[max(0, i - 2) : i].count("%") else c for i, c in enumerate(encoded))


@pytest.mark.parametrize("key", [KEY1, KEY2])
@pytest.mark.parametrize("encode", [lambda text: quote(text, safe=""), quote_plus, net], ids=["python", "plus", "net"])
@pytest.mark.parametrize("expiry", ["6/15/2026 6:20:15 PM", "2026-06-15 18:20:15+00:00", "2026-06-15T18:20:15"])
def test_tokens_of_all_clients_with_either_key(key: str, encode: object, expiry: str) -> None:
    """The signature is over the text as it was sent, however a client encodes it."""
    assert callable(encode)
    signed = f"r={encode(ENDPOINT + '?apiVersion=2018-01-01')}&e={encode(expiry)}"
    assert accepts(signed_by_hand(signed, encode, key))
    assert not accepts(signed_by_hand(signed, encode, OTHER))


def test_a_token_of_our_own() -> None:
    """A token of `sign` is accepted until it expires, and not at that moment."""
    token = sign(ENDPOINT, "2026-06-15T18:20:15Z", KEY2)
    assert accepts(token)
    expires_at = parse_expiry("2026-06-15T18:20:15Z")
    assert expires_at is not None
    assert accepts(token, expires_at - 1)
    assert not accepts(token, expires_at)


def test_what_is_not_encoded_is_taken_as_it_is() -> None:
    """A token without any encoding, the plus of its offset and of its signature included."""
    assert accepts(signed_by_hand(f"r={ENDPOINT}&e=2027-01-01 00:00:00+00:00", str))


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("6/15/2017 6:20:15 PM", datetime(2017, 6, 15, 18, 20, 15, tzinfo=UTC)),
        ("6/15/2017+6:20:15+PM", datetime(2017, 6, 15, 18, 20, 15, tzinfo=UTC)),
        ("6/15/2017 6:20:15\u202fPM", datetime(2017, 6, 15, 18, 20, 15, tzinfo=UTC)),
        ("6/15/2017, 6:20:15 PM", datetime(2017, 6, 15, 18, 20, 15, tzinfo=UTC)),
        ("1/1/2027 12:00:00 AM", datetime(2027, 1, 1, tzinfo=UTC)),
        ("1/1/2027 12:00:00 pm", datetime(2027, 1, 1, 12, tzinfo=UTC)),
        ("1/2/2027 3:4:5 AM", datetime(2027, 1, 2, 3, 4, 5, tzinfo=UTC)),
        ("1/1/2027 0:05:00 PM", datetime(2027, 1, 1, 12, 5, tzinfo=UTC)),
        ("01/31/2027 23:59:58", datetime(2027, 1, 31, 23, 59, 58, tzinfo=UTC)),
        ("2027-01-01 00:00:00+00:00", datetime(2027, 1, 1, tzinfo=UTC)),
        ("2027-01-01+00:00:00+00:00", datetime(2027, 1, 1, tzinfo=UTC)),
        ("2027-01-01 00:00:00 00:00", datetime(2027, 1, 1, tzinfo=UTC)),
        ("2027-01-01T02:30:00+02:30", datetime(2027, 1, 1, tzinfo=UTC)),
        ("2026-12-31T22:00:00-0200", datetime(2027, 1, 1, tzinfo=UTC)),
        ("2027-01-01T00:00:00", datetime(2027, 1, 1, tzinfo=UTC)),
        ("2027-01-01T00:00", datetime(2027, 1, 1, tzinfo=UTC)),
        ("2027-01-01 00:00:00", datetime(2027, 1, 1, tzinfo=UTC)),
        ("2027-01-01T00:00:00Z", datetime(2027, 1, 1, tzinfo=UTC)),
        ("2027-01-01 00:00:00 UTC", datetime(2027, 1, 1, tzinfo=UTC)),
    ],
)
def test_expiries(text: str, instant: datetime) -> None:
    """Every format that a client writes is the instant that it means; without an offset it is UTC."""
    assert parse_expiry(text) == int(instant.timestamp()) * SECOND


def test_fractions_of_a_second() -> None:
    """An expiry may have a fraction, of as many digits as Python and .NET write."""
    whole = parse_expiry("2027-01-01T00:00:00Z")
    assert whole is not None
    assert parse_expiry("2027-01-01 00:00:00.123456+00:00") == whole + 123_456_000
    assert parse_expiry("2027-01-01T00:00:00.1234567Z") == whole + 123_456_700


@pytest.mark.parametrize(
    "text",
    [
        "",
        "never",
        "13/1/2027 1:00:00 AM",
        "1/32/2027 1:00:00 AM",
        "1/1/2027 13:00:00 PM",
        "1/1/2027 1:60:00 PM",
        "2027-02-30T00:00:00Z",
        "2027-01-01T24:00:00Z",
        "2027-01-01T00:00:00+24:00",
        "0000-01-01T00:00:00Z",
        "2027-01-01",
        "1893456000",
        "2027-01-01T00:00:00Z ",
        "2027-01-01T00:00:00Z\n",
        "٢٠٢٧-01-01T00:00:00Z",
    ],
)
def test_no_expiries(text: str) -> None:
    """A text that is no date, or an impossible one, is no expiry."""
    assert parse_expiry(text) is None


@pytest.mark.parametrize(
    ("resource", "ours"),
    [
        (ENDPOINT, True),
        (ENDPOINT.upper(), True),
        (f"{ENDPOINT}?api-version=2018-01-01", True),
        (f"{ENDPOINT}/", True),
        ("http://127.0.0.1:8585/topics/orders/api/events", True),
        ("https://localhost/Topics/ORDERS/api/events?apiVersion=2018-01-01", True),
        ("http://elsewhere.example/topics/orders/api/events", True),
        ("/topics/orders/api/events", True),
        ("https://orders.localhost:8585/api/events", True),
        ("https://other.westus2-1.eventgrid.azure.net/api/events", False),
        ("https://ordersx.westus2-1.eventgrid.azure.net/api/events", False),
        ("http://127.0.0.1:8585/topics/other/api/events", False),
        ("http://127.0.0.1:8585/domains/orders/api/events", False),
        ("http://127.0.0.1:8585/x/topics/orders/api/events", False),
        ("http://127.0.0.1:8585/", False),
        ("https://orders.westus2-1.eventgrid.azure.net/", False),
        ("https://[orders/api/events", False),
        ("x?/topics/orders/api/events", False),
    ],
)
def test_resources(resource: str, ours: bool) -> None:
    """A token is for the topic whose endpoint it names, by path or by host name, whatever its query and case."""
    assert accepts(sign(resource, "2027-01-01T00:00:00Z", KEY1)) is ours


def test_a_domain_has_its_own_path() -> None:
    """The path of a domain's endpoint is not that of a topic."""
    token = parse_token(sign("http://h/domains/orders/api/events", "2027-01-01T00:00:00Z", KEY1))
    assert token is not None
    assert is_for(token, topic(kind=TopicKind.DOMAIN))
    assert not is_for(token, topic())


@pytest.mark.parametrize("key", ["", "=", "not base64!"])
def test_an_empty_key_signs_nothing(key: str) -> None:
    """A key that decodes to nothing opens nothing, not even for a caller who guesses that."""
    signed = f"r={quote(ENDPOINT, safe='')}&e={quote('2027-01-01T00:00:00Z', safe='')}"
    for secret in (b"", b"\0"):
        mac = base64.b64encode(hmac.new(secret, signed.encode(), hashlib.sha256).digest()).decode()
        for text in (f"{signed}&s={quote(mac, safe='')}", f"{signed}&s="):
            token = parse_token(text)
            assert token is None or not is_signed(token, key, key)


def test_a_token_shows_nothing_of_its_signature() -> None:
    """Its representation may be logged."""
    token = parse_token(sign(ENDPOINT, "2027-01-01T00:00:00Z", KEY1))
    assert token is not None
    assert token.signature not in repr(token)
    assert "orders" not in repr(token)


def mutate(text: str, chance: random.Random) -> str:
    """One small change, or a few."""
    changed = text
    while changed == text:
        for _ in range(chance.choice((1, 1, 1, 2, 5))):
            at = chance.randrange(len(changed))
            letter = chance.choice(string.printable)
            match chance.randrange(7):
                case 0:
                    changed = changed[:at] + letter + changed[at + 1 :]
                case 1:
                    changed = changed[:at] + letter + changed[at:]
                case 2:
                    changed = changed[:at] + changed[at + 1 :]
                case 3:
                    changed = changed[:at] + changed[at:].swapcase()
                case 4:
                    changed = changed[:at] + changed[at].swapcase() + changed[at + 1 :]
                case 5:
                    other = chance.randrange(len(changed))
                    at, other = min(at, other), max(at, other)
                    changed = changed[:at] + changed[other:] + changed[at:other]
                case _:
                    changed = changed[:at]
            changed = changed or "r"
    return changed


@pytest.mark.parametrize("encode", [lambda text: quote(text, safe=""), net], ids=["python", "net"])
def test_ten_thousand_mutated_tokens_are_refused(encode: object) -> None:
    """A token that differs in anything from the one that was signed is refused, encodings of the same included."""
    assert callable(encode)
    signed = f"r={encode(ENDPOINT + '?apiVersion=2018-01-01')}&e={encode('1/1/2027 12:00:00 AM')}"
    token = signed_by_hand(signed, encode)
    assert accepts(token)
    chance = random.Random(3)
    mutated: set[str] = set()
    while len(mutated) < 10_000:
        mutated.add(mutate(token, chance))
    assert [text for text in mutated if accepts(text)] == []
