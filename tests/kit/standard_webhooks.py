"""A receiver's check of Standard Webhooks signatures, by the specification's own library."""

from collections.abc import Mapping

from standardwebhooks import Webhook


def verify(secret: str, headers: Mapping[str, str], body: bytes) -> str:
    """The id of a message that is authentic and fresh; WebhookVerificationError otherwise. Names are in lower case."""
    Webhook(secret).verify(body, dict(headers), json_parse=False)
    id = headers["webhook-id"]
    assert "." not in id, "a dot in the id makes the signed content ambiguous"
    return id
