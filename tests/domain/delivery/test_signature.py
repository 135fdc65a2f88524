"""Standard Webhooks signatures: the specification's example, ids and secrets."""

import base64

import pytest

from recapito.domain.delivery.delivery import DeliveryId
from recapito.domain.delivery.signature import message_id, parse_secret, show_secret, sign
from recapito.errors import InvalidInput
from tests.kit.standard_webhooks import verify

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"  # of a published example


def test_published_example() -> None:
    """The signature of the published example is reproduced."""
    made = sign([parse_secret(SECRET)], "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')
    assert made == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_one_signature_for_each_key() -> None:
    """A receiver with either of two secrets accepts the request, one with a third does not."""
    first, second, third = (show_secret(bytes([n]) * 32) for n in (1, 2, 3))
    signed = sign([parse_secret(first), parse_secret(second)], "msg_1", 1000, b"\xff{}")
    headers = {"webhook-id": "msg_1", "webhook-timestamp": "1000", "webhook-signature": signed}
    assert verify(first, headers, b"\xff{}", 1000) == verify(second, headers, b"\xff{}", 1000) == "msg_1"
    with pytest.raises(AssertionError, match="no signature"):
        verify(third, headers, b"\xff{}", 1000)
    with pytest.raises(AssertionError, match="no signature"):
        verify(first, headers, b"\xff{ }", 1000)


@pytest.mark.parametrize(
    "text", ["", "whsec_", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_!", "whsec_é", "whsec_" + "A" * 28, "A" * 88]
)
def test_wrong_secrets(text: str) -> None:
    """A secret without the prefix, of other characters or of another length is refused, and not repeated."""
    with pytest.raises(InvalidInput) as refused:
        parse_secret(text)
    assert not text or text not in refused.value.message.replace("'whsec_'", "")


@pytest.mark.parametrize(("size", "taken"), [(23, False), (24, True), (64, True), (65, False)])
def test_lengths_of_secrets(size: int, taken: bool) -> None:
    """Keys of 24 to 64 bytes are taken."""
    text = "whsec_" + base64.b64encode(bytes(size)).decode()
    if taken:
        assert show_secret(parse_secret(text)) == text
    else:
        with pytest.raises(InvalidInput):
            parse_secret(text)


def test_message_ids() -> None:
    """The id depends on the lane, the log and the events, not on their order."""
    a, b = DeliveryId(1, 0), DeliveryId(1, 1)
    ids = [message_id(1, "o", [a]), message_id(2, "o", [a]), message_id(1, "p", [a]), message_id(1, "o", [a, b])]
    assert len(set(ids)) == 4
    assert message_id(1, "o", [b, a]) == ids[3]
