"""Shared access signatures as relays and other namespaces take them: a resource and an end, signed with a named key."""

import base64
import hashlib
from hmac import digest
from urllib.parse import quote

from recapito.domain.instant import SECOND


def sign_access(uri: str, name: str, key: str, ends_at: int) -> str:
    """A token for a resource, and what lies under it, until an instant; the key's text is what signs."""
    resource, ends_s = quote(uri, safe=""), ends_at // SECOND
    signature = base64.b64encode(digest(key.encode(), f"{resource}\n{ends_s}".encode(), hashlib.sha256)).decode()
    return f"SharedAccessSignature sr={resource}&sig={quote(signature, safe='')}&se={ends_s}&skn={quote(name, safe='')}"
