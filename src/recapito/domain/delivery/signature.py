"""Standard Webhooks signatures (https://www.standardwebhooks.com): symmetric, version 1.

The law: the signed content is the message id, the time of the attempt in whole seconds and the body as it is sent,
joined by dots. The id stays through all attempts of the same events; the time is that of the attempt.
"""

import base64
import binascii
import hmac
from collections.abc import Iterable
from hashlib import blake2b, sha256
from typing import NamedTuple

from recapito.domain import limits
from recapito.domain.delivery.delivery import DeliveryId
from recapito.errors import InvalidInput

ID, TIMESTAMP, SIGNATURE = "webhook-id", "webhook-timestamp", "webhook-signature"
NAMES = frozenset({ID, TIMESTAMP, SIGNATURE})
PREFIX = "whsec_"


class Signing(NamedTuple):
    """The signing of a request: its message id, the name of its subscription's secrets, and the secrets, encrypted."""

    message_id: str
    name: str
    sealed: tuple[bytes, ...]

    def __repr__(self) -> str:
        return f"<Signing of {self.message_id}>"


def parse_secret(text: str, target: str = "secret") -> bytes:
    """The key in a secret `whsec_…`. InvalidInput if it is not Base64 of 24 to 64 bytes."""
    least, most = limits.SIGNING_SECRET_BYTES
    try:
        key = base64.b64decode(text.removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not text.startswith(PREFIX) or not least <= len(key) <= most:
        message = f"'{target}' must be '{PREFIX}' and the Base64 text of {least} to {most} bytes."
        raise InvalidInput("InvalidRequest", message, target)
    return key


def show_secret(key: bytes) -> str:
    """The text of a key, as receivers take it."""
    return PREFIX + base64.b64encode(key).decode()


def message_id(lane: int, origin: str, identities: Iterable[DeliveryId]) -> str:
    """The id of a request with these events of a lane, whatever their order. It has no dot."""
    places = ",".join(f"{position}.{offset}" for position, offset in sorted(identities))
    return f"msg_{blake2b(f'{lane}/{origin}/{places}'.encode(), digest_size=16).hexdigest()}"


def sign(keys: Iterable[bytes], id: str, seconds: int, body: bytes) -> str:
    """The signatures of a request, one for each key, separated by spaces."""
    signed = b"%b.%d.%b" % (id.encode(), seconds, body)
    digests = (hmac.digest(key, signed, sha256) for key in keys)
    return " ".join(f"v1,{base64.b64encode(digest).decode()}" for digest in digests)
