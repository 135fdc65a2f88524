"""A receiver's check of Standard Webhooks signatures, written from the specification alone."""

import base64
import hashlib
import hmac
from collections.abc import Mapping

TOLERANCE_S = 300


def verify(secret: str, headers: Mapping[str, str], body: bytes, now: float) -> str:
    """The id of a message that is authentic and fresh; AssertionError otherwise. Names are in lower case."""
    id, timestamp = headers["webhook-id"], headers["webhook-timestamp"]
    assert id, "the id is empty"
    assert "." not in id, "a dot in the id makes the signed content ambiguous"
    assert timestamp.isdecimal(), f"{timestamp} is no number of seconds"
    assert abs(now - int(timestamp)) <= TOLERANCE_S, "the message is too old or too new"
    prefix, _, encoded = secret.partition("_")
    assert prefix == "whsec"
    content = f"{id}.{timestamp}.".encode() + body
    expected = hmac.new(base64.b64decode(encoded), content, hashlib.sha256).digest()
    for versioned in headers["webhook-signature"].split(" "):
        version, _, signature = versioned.partition(",")
        if version == "v1" and hmac.compare_digest(base64.b64decode(signature), expected):
            return id
    raise AssertionError("no signature matches")
