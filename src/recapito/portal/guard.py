"""The guard in front of every page and socket of the portal: admission, and the headers that restrict the browser.

Without a login the Host header must name this machine by loopback, so that no other name can be bent to it (DNS
rebinding). A request of a page from elsewhere names it in its Origin and is refused, sockets included: nothing that
changes state is reachable by GET, and the session's cookie is SameSite=Strict besides. Nothing here touches the text
of a page: which scripts get the nonce is decided where they are written.
"""

import secrets
from collections.abc import Iterable
from urllib.parse import quote, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from recapito.domain.access.near_networks import LOOPBACK_ONLY, NearNetworks
from recapito.portal.session import Sessions

SESSION = "recapito.session"
NONCE = "recapito.nonce"
LOGIN = "/login"
_OPEN = (LOGIN, "/assets/", "/_nicegui/", "/favicon.ico")
_NONCE_BYTES = 16
_PREFIX = b"x-forwarded-prefix"  # NiceGUI would put it in front of the address of every script
# NiceGUI's own script evaluates what its server sends it, hence 'unsafe-eval' (SECURITY.md); scripts in the page are
# those of its template, which alone have our nonce (template.py).
_POLICY = (
    "default-src 'none'; script-src 'self' 'nonce-{nonce}' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; font-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'"
)
_HEADERS = {
    "X-Recapito": "portal",  # by which a command sees that it asked the portal instead of the server
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",  # with no-referrer, browsers would not name the page of a form
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Guard:
    """Admits or refuses. With `sessions` people must have signed in; without, they must be on this machine.

    `near` are the networks that count as this machine, in development mode.
    """

    def __init__(self, app: ASGIApp, sessions: Sessions | None, near: NearNetworks = LOOPBACK_ONLY) -> None:
        self.app = app
        self._sessions = sessions
        self._near = near

    def __repr__(self) -> str:
        return f"<Guard with {self._sessions}>" if self._sessions else "<Guard of loopback>"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        nonce = secrets.token_urlsafe(_NONCE_BYTES)
        headers = [header for header in scope["headers"] if header[0] != _PREFIX]
        scope = {**scope, "headers": headers, NONCE: nonce}
        refused = self._refusal(scope)
        if refused is None:
            await self.app(scope, receive, send if scope["type"] == "websocket" else _Protected(send, nonce))
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            await refused(scope, receive, _Protected(send, nonce))

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        hosts = headers.getlist("host")
        if len(hosts) != 1:
            return PlainTextResponse("A request names one host.", 400)
        if self._sessions is None and not self._near.may_be_called(_hostname(f"//{hosts[0]}")):
            return PlainTextResponse("The portal answers only when it is asked by a loopback name.", 403)
        if self._sessions is None and not self._near.has((scope.get("client") or ("", 0))[0]):
            return PlainTextResponse(f"The portal is open to this machine and the networks {self._near}.", 403)
        if not _is_own(headers.getlist("origin"), hosts[0]):
            return PlainTextResponse("The portal does not answer pages from elsewhere.", 403)
        if self._sessions is None:
            return None
        session = self._sessions.find(headers.get("cookie", "").encode("latin-1"))
        scope[SESSION] = session
        path = scope["path"]
        if session is not None or path.startswith(_OPEN):
            return None
        if scope["type"] == "http" and scope["method"] == "GET" and not path.startswith("/_nicegui_ws/"):
            return RedirectResponse(f"{LOGIN}?next={quote(path, safe='')}", 303)
        return PlainTextResponse("Sign in first.", 401)


class _Protected:
    """Sends an answer with the headers that protect a page; `nonce` is that of the scripts of our own pages."""

    def __init__(self, send: Send, nonce: str) -> None:
        self._send = send
        self._nonce = nonce

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(raw=message["headers"])
            for name, value in _HEADERS.items():
                headers[name] = value
            headers["Content-Security-Policy"] = _POLICY.format(nonce=self._nonce)
        await self._send(message)


def _is_own(origins: Iterable[str], host: str) -> bool:
    return all(origin.partition("://")[2].lower() == host.lower() for origin in origins)


def _hostname(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""
