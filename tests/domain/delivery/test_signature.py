"""Standard Webhooks signatures: the specification's example, ids and secrets."""

import base64
import time
from datetime import UTC, datetime

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

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
    """The specification's library accepts the request with either of two secrets, and not with a third."""
    first, second, third = (show_secret(bytes([n]) * 32) for n in (1, 2, 3))
    body, now = '{"é": 1}'.encode(), int(time.time())
    signed = sign([parse_secret(first), parse_secret(second)], "msg_1", now, body)
    headers = {"webhook-id": "msg_1", "webhook-timestamp": str(now), "webhook-signature": signed}
    assert verify(first, headers, body) == verify(second, headers, body) == "msg_1"
    for secret, sent, named in (
        (third, body, "msg_1"),
        (first, body + b" ", "msg_1"),
        (first, body, "msg_2"),
    ):
        with pytest.raises(WebhookVerificationError, match="No matching signature"):
            verify(secret, {**headers, "webhook-id": named}, sent)


@pytest.mark.parametrize("size", [24, 33, 64])
def test_the_library_makes_the_same_signature(size: int) -> None:
    """Keys of each length, bodies of any text and whole seconds sign as the specification's library does."""
    secret = show_secret(bytes(range(size)))
    for seconds in (1, 1_614_265_330, 4_102_444_800):
        for body in ("", "[]", '[{"data": "ü \u2028"}]'):
            theirs = Webhook(secret).sign("msg_7", datetime.fromtimestamp(seconds, UTC), body)
            assert sign([parse_secret(secret)], "msg_7", seconds, body.encode()) == theirs


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
