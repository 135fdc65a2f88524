"""Shared access signatures: tokens that name a resource and an expiry, signed with a key.

Publishers send tokens signed with one of a topic's keys; the signature covers the text exactly as it was received,
since every client encodes it in its own way (spec §3). Relays and other namespaces take tokens signed with a named key.
"""

import base64
import binascii
import hashlib
import re
from datetime import UTC, datetime, timedelta, timezone
from hmac import compare_digest, digest
from typing import NamedTuple
from urllib.parse import quote, unquote, urlsplit

from recapito.domain import limits
from recapito.domain.instant import SECOND
from recapito.domain.resources.topic import Topic

_TOKEN = re.compile(r"(r=(?P<resource>[^&]+)&e=(?P<expiry>[^&]+))&s=(?P<signature>[^&]+)")
_GAP = "[ +\u00a0\u202f]"  # a blank, as it is or as forms encode it, or the narrow one of newer en-US formats
_TIME = r"(?P<hour>\d{1,2}):(?P<minute>\d{1,2})(?::(?P<second>\d{1,2})(?:\.(?P<fraction>\d{1,9}))?)?"
_ISO = re.compile(
    rf"(?P<year>\d{{4}})-(?P<month>\d{{2}})-(?P<day>\d{{2}})(?:[Tt]|{_GAP}){_TIME}"
    rf"(?P<zone>[Zz]|{_GAP}?UTC|(?P<sign>[-+ ])(?P<zone_hour>\d{{2}}):?(?P<zone_minute>\d{{2}}))?",
    re.ASCII,
)
_EN_US = re.compile(
    rf"(?P<month>\d{{1,2}})/(?P<day>\d{{1,2}})/(?P<year>\d{{4}}),?{_GAP}{_TIME}(?:{_GAP}(?P<half>[AaPp][Mm]))?",
    re.ASCII,
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_HOST_PATH = "/api/events"


class SasToken(NamedTuple):
    """A topic's token as it was received: `signed` is the text under the signature, `resource` is decoded."""

    signed: str
    resource: str
    expires_at: int
    signature: str

    def __repr__(self) -> str:
        return f"<SasToken expires_at={self.expires_at}>"


def parse_token(text: str) -> SasToken | None:
    """Parse a topic's token; None if the text is not one."""
    parts = _TOKEN.fullmatch(text) if len(text) <= limits.SAS_TOKEN_CHARS and text.isascii() else None
    expires_at = None if parts is None else parse_expiry(unquote(parts["expiry"]))
    if parts is None or expires_at is None:
        return None
    return SasToken(parts[1], unquote(parts["resource"]), expires_at, parts["signature"])


def is_signed(token: SasToken, key1: str, key2: str) -> bool:
    """Whether one of the two keys made the signature. Both are always tried, in constant time."""
    given = token.signature.encode()
    matches = [compare_digest(given, form) for key in (key1, key2) for form in _forms(_sign(token.signed, key), token)]
    return any(matches)


def is_for(token: SasToken, topic: Topic) -> bool:
    """Whether the resource is this topic's endpoint: its path at any host, or Event Grid's host name of the topic."""
    try:
        resource = urlsplit(token.resource.lower())
    except ValueError:
        return False
    path = resource.path.rstrip("/")
    if path == f"/{topic.kind.lower()}/{topic.name.lower()}{_HOST_PATH}":
        return True
    return path == _HOST_PATH and (resource.hostname or "").partition(".")[0] == topic.name.lower()


def parse_expiry(text: str) -> int | None:
    """Parse an expiry in en-US or ISO 8601 form, UTC unless it has an offset; None if it is neither."""
    found = _ISO.fullmatch(text) or _EN_US.fullmatch(text)
    if found is None:
        return None
    parts = {name: text or "" for name, text in found.groupdict().items()}
    hour, half = int(parts["hour"]), parts.get("half", "").lower()
    if half:
        if hour > 12:  # an old client writes noon as 0 PM
            return None
        hour = hour % 12 + (12 if half == "pm" else 0)
    date = (int(parts["year"]), int(parts["month"]), int(parts["day"]))
    try:
        at = datetime(*date, hour, int(parts["minute"]), int(parts["second"] or 0), tzinfo=_zone(parts))
    except ValueError:
        return None
    elapsed = at - _EPOCH
    fraction = int(parts["fraction"].ljust(9, "0"))
    return (elapsed.days * 86_400 + elapsed.seconds) * SECOND + fraction


def _zone(parts: dict[str, str]) -> timezone:
    if not parts.get("sign"):
        return UTC
    offset = timedelta(hours=int(parts["zone_hour"]), minutes=int(parts["zone_minute"]))
    return timezone(-offset if parts["sign"] == "-" else offset)


def sign(resource: str, expiry: str, key: str) -> str:
    """Sign a topic's token for a resource and an expiry, neither encoded yet."""
    signed = f"r={quote(resource, safe='')}&e={quote(expiry, safe='')}"
    return f"{signed}&s={quote(_sign(signed, key), safe='')}"


def _sign(signed: str, key: str) -> str:
    try:
        secret = base64.b64decode(key)
    except binascii.Error:
        secret = b""  # not a key of ours; nothing that is signed with it may pass
    if not secret:
        return ""
    return base64.b64encode(digest(secret, signed.encode(), hashlib.sha256)).decode()


def _forms(signature: str, token: SasToken) -> list[bytes]:
    """The spellings of a signature: bare, or percent-encoded in the same letter case as the rest of the token.

    Only these are accepted, because no client writes any other spelling that decodes to the same bytes.
    """
    encoded = quote(signature, safe="")
    small = re.sub("%..", lambda escape: escape[0].lower(), encoded)
    escapes = "".join(re.findall("%(..)", token.signed))
    forms = [signature] + [encoded] * (escapes == escapes.upper()) + [small] * (escapes == escapes.lower())
    return [form.encode() for form in forms if signature]


def sign_namespace_token(uri: str, name: str, key: str, ends_at: int) -> str:
    """Sign a namespace's token for a resource and everything under it, until an instant, with the text of the key."""
    resource, ends_s = quote(uri, safe=""), ends_at // SECOND
    signature = base64.b64encode(digest(key.encode(), f"{resource}\n{ends_s}".encode(), hashlib.sha256)).decode()
    return f"SharedAccessSignature sr={resource}&sig={quote(signature, safe='')}&se={ends_s}&skn={quote(name, safe='')}"
