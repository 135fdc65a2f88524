"""Signing in and out: a form that needs no script, in exchange for a session.

People enter a principal's client id and secret, or a token of the configured issuer, and have in the portal the rights
of that principal at the API.
"""

from html import escape
from importlib import resources
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from recapito.domain import limits
from recapito.errors import TooManyRequests
from recapito.identity.wrong_secrets import WrongSecrets
from recapito.portal.client import RequestRefused, ServerApi, ServerConnections, Tokens, Unreachable
from recapito.portal.guard import LOGIN
from recapito.portal.session import Sessions

LOGOUT = "/logout"
_TOKEN_LIFE_S = 3600
_BY_SECRET = """
<label>Client id<input name="client_id" autocomplete="username" required autofocus></label>
<label>Client secret<input name="client_secret" type="password" autocomplete="current-password" required></label>"""
_BY_TOKEN = """
<label>Access token<input name="token" type="password" autocomplete="off" required autofocus></label>"""


class LoginPage:
    """The form and its submission. With `by_token` people sign in with a token of another issuer."""

    def __init__(
        self, wire: ServerConnections, sessions: Sessions, by_token: bool, wrong_secrets: WrongSecrets
    ) -> None:
        self._wire = wire
        self._sessions = sessions
        self._wrong_secrets = wrong_secrets
        self._by_token = by_token
        self._page = (resources.files("recapito.portal") / "assets" / "login.html").read_text("utf-8")

    def routes(self) -> list[Route]:
        """Every path, with its method."""
        return [
            Route(LOGIN, self._show, methods=["GET"]),
            Route(LOGIN, self._sign_in, methods=["POST"]),
            Route(LOGOUT, self._sign_out, methods=["POST"]),
        ]

    async def _show(self, request: Request) -> Response:
        return self._form(_local(request.query_params.get("next", "/")))

    async def _sign_in(self, request: Request) -> Response:
        form = await _read(request)
        target = _local(form.get("next", "/"))
        try:
            principal, tokens, life_s = await self._slow_down(request, form)
        except TooManyRequests as error:
            slowed = self._form(target, error.message, 429)
            slowed.headers["Retry-After"] = str(error.retry_after_s)
            return slowed
        except RequestRefused as error:
            return self._form(target, error.message, 403)
        except Unreachable as error:
            return self._form(target, str(error), 503)
        answer = RedirectResponse(target, 303)
        answer.headers["Set-Cookie"] = self._sessions.begin(principal, tokens, life_s)
        return answer

    async def _slow_down(self, request: Request, form: dict[str, str]) -> tuple[str, Tokens, int]:
        """Sign in; wrong secrets are throttled by the browser's address, because the server sees only the portal's."""
        peer = request.client.host if request.client else None
        self._wrong_secrets.check("portal", peer)
        try:
            return await self._exchange(form)
        except RequestRefused:
            await self._wrong_secrets.refused("portal", peer)
            raise

    async def _exchange(self, form: dict[str, str]) -> tuple[str, Tokens, int]:
        if self._by_token:
            tokens = Tokens(form.get("token", "").strip(), None)
            await ServerApi(self._wire, tokens).clock()  # a token that may read the clock is valid here
            return "token", tokens, _TOKEN_LIFE_S
        tokens, life_s = await self._wire.sign_in(form.get("client_id", "").strip(), form.get("client_secret", ""))
        return form.get("client_id", "").strip(), tokens, life_s

    async def _sign_out(self, request: Request) -> Response:
        answer = RedirectResponse(LOGIN, 303)
        answer.headers["Set-Cookie"] = self._sessions.end(request.headers.get("cookie", "").encode("latin-1"))
        return answer

    def _form(self, target: str, problem: str = "", status: int = 200) -> Response:
        alert = f'<p class="said" role="alert">{escape(problem)}</p>' if problem else ""
        fields = _BY_TOKEN if self._by_token else _BY_SECRET
        html = self._page.replace("{{said}}", alert).replace("{{fields}}", fields)
        return HTMLResponse(html.replace("{{next}}", escape(target)), status, {"Cache-Control": "no-store"})


async def _read(request: Request) -> dict[str, str]:
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > limits.PORTAL_LOGIN_BYTES:
            return {}
    return dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=10))


def _local(target: str) -> str:
    """The target if it is a path of the portal, else the first page."""
    return target if target.startswith("/") and not target.startswith(("//", "/\\")) else "/"
