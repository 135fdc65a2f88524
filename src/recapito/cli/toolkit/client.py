"""A small client of the server's API: one connection, and for each error one line with its remedy."""

import http.client
import json
import os
import socket
import ssl
import sys
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote, urlencode, urlsplit

from recapito.cli.text.terminal import plain
from recapito.domain.cluster.partition import silent, silent_nodes
from recapito.domain.delivery.headers import SAS_KEY
from recapito.errors import CallerError, NotFound

API_VERSION = "2022-06-15"
MANAGEMENT = "https://management.azure.com"
DATA = "https://eventgrid.azure.net"
TIMEOUT_S = 60.0
_CLOCK_TIMEOUT_S = 3600.0
_PAGE = 100
_IDLE_S = 2.0  # a server may close an idle connection: uvicorn does so after 5 s
_AWAY = (502, 503, 504)


class NoAnswer(CallerError):
    """The server is absent or not ready; trying again may succeed."""


class Credential(NamedTuple):
    """A principal that signs in by its secret."""

    tenant: str
    client_id: str
    secret: str

    def __repr__(self) -> str:
        return f"<Credential {self.client_id}>"


class ApiAnswer(NamedTuple):
    """The status and the body of an answer; `portal` if the portal gave it, which is no server."""

    status: int
    body: bytes
    portal: bool = False


class ApiClient:
    """Asks one server. Off loopback it signs in first, once."""

    def __init__(self, url: str, ca_file: str = "", credential: Credential | None = None) -> None:
        self.url = url
        self._ca_file = ca_file
        self._credential = credential
        self._tokens: dict[str, str] = {}
        self._connection: http.client.HTTPConnection | None = None
        self._used_at = 0.0
        self.missing: set[int] = set()  # partitions of the cluster that answers lacked
        self.silent: set[str] = set()  # nodes of the cluster whose attempts answers lacked
        self.warn: Callable[[str], None] = _warn

    def __repr__(self) -> str:
        return f"<ApiClient {self.url}>"

    @property
    def signs_in(self) -> bool:
        """True if it has a credential or a token."""
        return self._credential is not None or bool(os.environ.get("RECAPITO_TOKEN"))

    def elsewhere(self, url: str) -> "ApiClient":
        """A client of another address, with the same CA file and no credential."""
        return ApiClient(url, self._ca_file)

    def close(self) -> None:
        """End the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def arm(self, method: str, path: str, body: Mapping[str, Any] | None = None, timeout_s: float = TIMEOUT_S) -> Any:
        """A management request; its JSON answer, None if it has none."""
        return self.call(method, f"{path}?api-version={API_VERSION}", body, timeout_s)

    def list(self, path: str, filter: str | None = None) -> list[Any]:
        """All members of a list that a filter on names takes, page by page."""
        query = {"api-version": API_VERSION, "$top": _PAGE} | ({} if filter is None else {"$filter": filter})
        page = self.call("GET", f"{path}?{urlencode(query, quote_via=quote)}")
        members: list[Any] = list(page["value"])
        while page.get("nextLink"):
            link = urlsplit(page["nextLink"])
            page = self.call("GET", f"{link.path}?{link.query}")
            members += page["value"]
        return members

    def call(self, method: str, target: str, body: Any = None, timeout_s: float = TIMEOUT_S) -> Any:
        """A request that must succeed; its JSON answer, None if it has none."""
        content = None if body is None else json.dumps(body).encode()
        answer = self._ask(method, target, content, timeout_s)
        if answer.status == 401 and self._tokens:  # the token may have grown old meanwhile
            self._tokens.clear()
            answer = self._ask(method, target, content, timeout_s)
        if answer.status >= 300 or answer.portal:
            raise self._refusal(answer)
        decoded = self._decode(answer.body)
        if isinstance(decoded, dict) and (found := set(decoded.get("missingPartitions", ())) - self.missing):
            self.missing |= found
            self.warn(left_out(found))
        if isinstance(decoded, dict) and (nodes := set(decoded.get("missingNodes", ())) - self.silent):
            self.silent |= nodes
            self.warn(f"{silent_nodes(nodes)}: attempts that were made there are missing")
        return decoded

    def _ask(self, method: str, target: str, content: bytes | None, timeout_s: float) -> ApiAnswer:
        headers = {"Content-Type": "application/json", **self._bearer(MANAGEMENT)}
        return self.request(method, target, content, headers, timeout_s)

    def look(self, target: str) -> ApiAnswer:
        """The answer to a GET, of any status; without a token if signing in fails."""
        try:
            return self._ask("GET", target, None, TIMEOUT_S)
        except CallerError:
            return self.request("GET", target, None, {})

    def advance(self, body: Mapping[str, Any]) -> Any:
        """Move the clock, however long that takes."""
        return self.call("POST", "/clock/advance", body, _CLOCK_TIMEOUT_S)

    def publish(self, path: str, body: bytes, content_type: str, key: str) -> None:
        """Publish a body with a key, or with a token where there is none."""
        sign = {SAS_KEY: key} if key else self._bearer(DATA)
        answer = self.request("POST", path, body, {"Content-Type": content_type, **sign})
        if answer.status != 200:
            raise self._refusal(answer)

    def request(
        self, method: str, target: str, body: bytes | None, headers: Mapping[str, str], timeout_s: float = TIMEOUT_S
    ) -> ApiAnswer:
        """Send a request as it is; its answer, of any status."""
        try:
            connection = self._connect(timeout_s)
            connection.request(method, target, body, dict(headers))
            response = connection.getresponse()
            answer = ApiAnswer(response.status, response.read(), response.headers.get("X-Recapito") == "portal")
            self._used_at = time.monotonic()
            return answer
        except (OSError, http.client.HTTPException, ValueError) as error:
            self.close()
            raise self._trouble(error) from None

    def _connect(self, timeout_s: float) -> http.client.HTTPConnection:
        if time.monotonic() - self._used_at > _IDLE_S:
            self.close()
        if self._connection is None:
            parts = urlsplit(self.url)
            host = parts.hostname or ""
            if parts.scheme == "https":
                context = ssl.create_default_context()
                if self._ca_file:
                    context.load_verify_locations(self._ca_file)
                self._connection = http.client.HTTPSConnection(host, parts.port, timeout=timeout_s, context=context)
            else:
                self._connection = http.client.HTTPConnection(host, parts.port, timeout=timeout_s)
        self._connection.timeout = timeout_s
        if self._connection.sock is not None:
            self._connection.sock.settimeout(timeout_s)
        return self._connection

    def _bearer(self, audience: str) -> dict[str, str]:
        if os.environ.get("RECAPITO_TOKEN"):
            return {"Authorization": f"Bearer {os.environ['RECAPITO_TOKEN']}"}
        if self._credential is None:
            return {}
        if audience not in self._tokens:
            self._tokens[audience] = self._sign_in(self._credential, audience)
        return {"Authorization": f"Bearer {self._tokens[audience]}"}

    def _sign_in(self, credential: Credential, audience: str) -> str:
        form = {
            "grant_type": "client_credentials",
            "client_id": credential.client_id,
            "client_secret": credential.secret,
            "scope": f"{audience}/.default",
        }
        target = f"/{quote(credential.tenant, safe='')}/oauth2/v2.0/token"
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        answer = self.request("POST", target, urlencode(form).encode(), headers)
        if answer.status == 404:
            text = "This server trusts another token issuer; get a token there and set RECAPITO_TOKEN."
            raise CallerError("SignInFailed", text)
        granted = self._decode(answer.body) or {}
        if answer.status != 200 or "access_token" not in granted:
            reason = plain(str(granted.get("error_description", f"status {answer.status}")))
            raise CallerError("SignInFailed", f"Signing in as {credential.client_id} failed: {reason}")
        token: str = granted["access_token"]
        return token

    def _decode(self, body: bytes) -> Any:
        if not body:
            return None
        try:
            return json.loads(body)
        except ValueError:
            raise CallerError("NotJson", f"{self.url} answered, but not as Recapito does. Is it the server?") from None

    def _refusal(self, answer: ApiAnswer) -> CallerError:
        if answer.portal:
            text = f"{self.url} is the portal. Name the server with --server; its port is another, 8585 by default."
            return CallerError("Portal", text)
        try:
            error = json.loads(answer.body)["error"]
            code, message, target = (
                plain(str(error["code"])),
                plain(" ".join(str(error["message"]).split())),
                error.get("target"),
            )
        except (ValueError, KeyError, TypeError):
            text = f"{self.url} answered with status {answer.status}, but not as Recapito does. Is it the server?"
            return CallerError("NotRecapito", text)
        if answer.status == 401 and code == "AuthenticationFailed":
            message += (
                " Sign in with --tenant, --client-id and --client-secret, or set AZURE_TENANT_ID, AZURE_CLIENT_ID"
                " and AZURE_CLIENT_SECRET."
            )
        kind = NotFound if answer.status == 404 else NoAnswer if answer.status in _AWAY else CallerError
        return kind(code, f"({code}) {message}", target)

    def _trouble(self, error: Exception) -> CallerError:
        """A failure below HTTP, with its remedy."""
        return NoAnswer("NoAnswer", self._explain(error))

    def _explain(self, error: Exception) -> str:
        match error:
            case ssl.SSLCertVerificationError():
                return (
                    f"The certificate of {self.url} is not trusted: {error.verify_message}. Name its authority with"
                    " --ca-file or `recapito config set ca_file`; a server's own is ca.pem under tls/ of its data"
                    " directory."
                )
            case ssl.SSLError():
                return f"{self.url} does not speak TLS as it should ({error.reason}). Is it http:// there?"
            case ConnectionRefusedError():
                return (
                    f"No server listens at {self.url}. Start one with `recapito serve`, or name another with"
                    " --server or `recapito config set server URL`."
                )
            case socket.gaierror():
                return f"The name in {self.url} cannot be found: {error.strerror}."
            case TimeoutError():
                return f"{self.url} did not answer in time."
            case FileNotFoundError():
                return f"The CA file {self._ca_file} does not exist; correct --ca-file."
            case http.client.RemoteDisconnected() | http.client.BadStatusLine() | ConnectionError():
                return f"{self.url} ended the connection without an answer. If it speaks TLS, use https://."
            case OSError():
                return f"{self.url} cannot be reached: {error.strerror or error}."
        # The error itself may quote a key.
        return f"{self.url} cannot be asked: a name, a key or a token has characters in it that cannot be sent."


def left_out(partitions: Collection[int]) -> str:
    """The warning that an answer lacks partitions."""
    return f"{silent(partitions)}: nothing of {'it' if len(partitions) == 1 else 'them'} is in the answer"


def _warn(text: str) -> None:
    print(f"recapito: {text}", file=sys.stderr)


Asked = TypeVar("Asked")

_PAUSE_S = 1.0


def patiently(ask: Callable[[], Asked], note: Callable[[str], None]) -> Asked:
    """The server's answer; while there is none, ask again once a second. `note` gets a line for each change."""
    lost = False
    while True:
        try:
            answer = ask()
        except NoAnswer as error:
            if not lost:
                note(f"the connection is lost, trying again: {error.message}")
            lost = True
            time.sleep(_PAUSE_S)
        else:
            if lost:
                note("connected again")
            return answer
