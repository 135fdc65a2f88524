"""Admission of publishers: a key of the topic, a token signed with one, or a bearer token of a data sender.

Every reason for a 401 has the same text. A verified token is cached until it expires or the topic changes.
"""

from collections.abc import Callable, Mapping
from urllib.parse import unquote_to_bytes

from recapito.api.auth.tokens import NO_TOKENS, TokenVerifier
from recapito.api.errors import Forbidden
from recapito.domain import limits
from recapito.domain.access import sas
from recapito.domain.access.roles import Operation, Plane, Principal, key_matches, lets_in, may
from recapito.domain.delivery.headers import SAS_KEY, SAS_TOKEN
from recapito.domain.resources.topic import Topic
from recapito.errors import Unauthorized

KEY = SAS_KEY.encode()
TOKEN = SAS_TOKEN.encode()
_SIGNATURE_SCHEME = b"sharedaccesssignature"


class PublishGate:
    """Admits publishers to topics. `now` is the service's clock."""

    def __init__(self, now: Callable[[], int], tokens: TokenVerifier = NO_TOKENS) -> None:
        self._now = now
        self._tokens = tokens
        self._verified: dict[bytes, tuple[Topic, int]] = {}  # SAS token -> the topic it is valid for, and its end

    def __repr__(self) -> str:
        return f"<PublishGate {len(self._verified)} SAS tokens>"

    def check(self, headers: Mapping[bytes, bytes], query: bytes, peer: str | None, topic: Topic) -> None:
        """Raise Forbidden or Unauthorized unless keys and cached tokens admit the request, without I/O."""
        if (topic.ip_rules or not topic.public_access) and not lets_in(peer or "", topic.public_access, topic.ip_rules):
            raise Forbidden("Forbidden", "The network rules of this topic do not let this address publish.")
        if topic.local_auth and self._shows_key(headers, query, topic):
            return
        token = bearer_of(headers)
        if token is None or not _may_send(self._tokens.known(token, Plane.DATA)):
            raise Unauthorized(
                "Unauthorized",
                "The request is not authorized: it needs a key of this topic, a SAS token that was signed with one and "
                "has not expired, or the bearer token of a data sender.",
            )

    async def admit(self, headers: Mapping[bytes, bytes], query: bytes, peer: str | None, topic: Topic) -> None:
        """Like `check`, but a bearer token that is not cached is verified."""
        try:
            self.check(headers, query, peer, topic)
        except Unauthorized:
            token = bearer_of(headers)
            if token is None or not _may_send(await self._tokens.verify(token, Plane.DATA)):
                raise

    def _shows_key(self, headers: Mapping[bytes, bytes], query: bytes, topic: Topic) -> bool:
        key = (headers.get(KEY) or _query_key(query)).strip()  # the parser leaves blanks after a value
        if key and key_matches(key.decode("latin-1"), topic.key1, topic.key2):
            return True
        token = headers.get(TOKEN) or _credential(headers, _SIGNATURE_SCHEME)
        return bool(token) and self._is_signed(token or b"", topic)

    def _is_signed(self, text: bytes, topic: Topic) -> bool:
        cached = self._verified.get(text)
        now = self._now()
        if cached is not None and cached[0] is topic:  # a topic whose keys change is another object
            return now < cached[1]
        token = sas.parse_token(text.decode("latin-1").strip())
        if token is None or token.expires_at <= now or not sas.is_for(token, topic):
            return False
        if not sas.is_signed(token, topic.key1, topic.key2):
            return False
        if len(self._verified) >= limits.VERIFIED_TOKENS:
            del self._verified[next(iter(self._verified))]
        self._verified[text] = (topic, token.expires_at)
        return True


def bearer_of(headers: Mapping[bytes, bytes]) -> str | None:
    token = _credential(headers, b"bearer")
    return None if token is None else token.decode("latin-1")


def _credential(headers: Mapping[bytes, bytes], scheme: bytes) -> bytes | None:
    named, _, credential = headers.get(b"authorization", b"").partition(b" ")
    return credential.strip() if named.lower() == scheme else None


def _query_key(query: bytes) -> bytes:
    """The key in the query. A plus stays a plus: keys are base64, and few clients encode it."""
    if KEY not in query.lower():
        return b""
    for part in query.split(b"&"):
        name, _, value = part.partition(b"=")
        if name.lower() == KEY:
            return unquote_to_bytes(value)
    return b""


def _may_send(principal: Principal | None) -> bool:
    return principal is not None and may(principal.roles, Operation.SEND)
