"""Signs the requests of subscriptions that ask for it: decrypts their secrets, and makes the headers.

The timestamp is real time, whatever clock the service has: a receiver compares it with its own.
"""

import time
from collections.abc import Callable
from functools import lru_cache

from recapito.domain import limits
from recapito.domain.delivery.outcome import Outcome, Result
from recapito.domain.delivery.signature import ID, SIGNATURE, TIMESTAMP, Signing, sign
from recapito.domain.instant import SECOND
from recapito.errors import SettingsError

Decrypt = Callable[[bytes, str], bytes]


class RequestSigner:
    """Keeps the keys of the subscriptions that it signed for last."""

    def __init__(self, decrypt: Decrypt, wall: Callable[[], int] = time.time_ns) -> None:
        self._wall = wall

        @lru_cache(limits.ROUTES)
        def keys(name: str, sealed: tuple[bytes, ...]) -> tuple[bytes, ...]:
            return tuple(decrypt(one, name) for one in sealed)

        self._keys = keys

    def __repr__(self) -> str:
        return "<RequestSigner>"

    def headers(self, signing: Signing, body: bytes) -> list[str] | Outcome:
        """The three headers of a request, or the failure of one that must not go unsigned."""
        try:
            keys = self._keys(signing.name, signing.sealed)
        except SettingsError:
            detail = "the signing secret cannot be decrypted: set it again with recapito sign, or put the old key back"
            return Outcome(Result.UNAUTHORIZED, detail=detail)
        seconds = self._wall() // SECOND
        signatures = sign(keys, signing.message_id, seconds, body)
        return [f"{ID}: {signing.message_id}", f"{TIMESTAMP}: {seconds}", f"{SIGNATURE}: {signatures}"]
