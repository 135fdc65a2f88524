"""Sessions: a random name in a cookie stands for the tokens of a principal until they expire.

Secrets are exchanged for tokens and forgotten. Sessions live in memory, so a restart of the portal ends them all.
"""

import secrets
from collections.abc import Callable
from http.cookies import CookieError, SimpleCookie
from typing import NamedTuple

from recapito.clock import SECOND
from recapito.domain import limits
from recapito.portal.client import Tokens

COOKIE = "recapito_session"
_NAME_BYTES = 32


class Session(NamedTuple):
    """A principal that has signed in."""

    principal: str
    tokens: Tokens
    ends_at: int


class Sessions:
    """All sessions. `now` is the clock's; under TLS cookies are for TLS alone."""

    def __init__(self, now: Callable[[], int], secure: bool) -> None:
        self._now = now
        self._secure = secure
        self._sessions: dict[str, Session] = {}

    def __repr__(self) -> str:
        return f"<Sessions {len(self._sessions)}>"

    def begin(self, principal: str, tokens: Tokens, life_s: int) -> str:
        """Start a session; the cookie to set."""
        if len(self._sessions) >= limits.PORTAL_SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        name = secrets.token_urlsafe(_NAME_BYTES)
        self._sessions[name] = Session(principal, tokens, self._now() + life_s * SECOND)
        return self._cookie(name, life_s)

    def end(self, cookies: bytes) -> str:
        """End the session that these cookies name; the cookie to set."""
        self._sessions.pop(_name_in(cookies), None)
        return self._cookie("", 0)

    def find(self, cookies: bytes) -> Session | None:
        """The session that these cookies name, until its tokens expire."""
        name = _name_in(cookies)
        found = self._sessions.get(name)
        if found is not None and found.ends_at <= self._now():
            del self._sessions[name]
            return None
        return found

    def _cookie(self, name: str, life_s: int) -> str:
        secure = "; Secure" if self._secure else ""
        return f"{COOKIE}={name}; Path=/; Max-Age={life_s}; HttpOnly; SameSite=Strict{secure}"


def _name_in(cookies: bytes) -> str:
    try:
        jar = SimpleCookie(cookies.decode("latin-1"))
    except CookieError:
        return ""
    return jar[COOKIE].value if COOKIE in jar else ""
