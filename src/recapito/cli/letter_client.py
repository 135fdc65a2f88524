"""What the commands about dead letters ask of a server, and its refusals in one line."""

import json
import os
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote, urlencode

from recapito.errors import CallerError

SERVER = "http://127.0.0.1:8585"
_TIMEOUT_S = 120.0


class LetterClient:
    """Asks one server. `token` is shown to servers that ask for one."""

    def __init__(self, server: str, token: str | None = None) -> None:
        self._server = server.rstrip("/")
        self._token = token

    def __repr__(self) -> str:
        return f"<LetterClient {self._server}>"

    def list(self, wanted: Mapping[str, Any], limit: int) -> Iterator[dict[str, Any]]:
        """Letters that are meant, at most so many, page by page."""
        query = {name: _text(value) for name, value in wanted.items() if value is not None}
        while limit > 0:
            page = self._ask("GET", f"?{urlencode({**query, 'limit': min(limit, 100)})}")
            yield from page["value"]
            limit -= len(page["value"])
            if page["next"] is None:
                return
            query["after"] = page["next"]

    def show(self, name: str) -> dict[str, Any]:
        """One letter, with its record."""
        return self._ask("GET", f"/{quote(name)}")

    def go_on(self, verb: str, wanted: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Redrive or purge, page by page: what each has done. Who stops asking stops it."""
        body = {name: value for name, value in wanted.items() if value is not None}
        while True:
            page = self._ask("POST", f"/{verb}", body)
            yield page
            if page["next"] is None:
                return
            body["after"] = page["next"]

    def _ask(self, method: str, rest: str, body: object = None) -> dict[str, Any]:
        request = urllib.request.Request(f"{self._server}/deadletters{rest}", method=method)
        if self._token:
            request.add_header("Authorization", f"Bearer {self._token}")
        data = None if body is None else json.dumps(body).encode()
        context = ssl.create_default_context() if self._server.startswith("https:") else None
        try:
            with urllib.request.urlopen(request, data, _TIMEOUT_S, context=context) as answer:
                answered: dict[str, Any] = json.load(answer)
                return answered
        except urllib.error.HTTPError as error:
            raise _refused(error) from None
        except (OSError, ValueError) as error:
            reason = getattr(error, "reason", error)
            raise CallerError("Unreachable", f"{self._server} does not answer: {reason}") from None


def client_of(server: str | None) -> LetterClient:
    """The client of the server that a flag or RECAPITO_SERVER names, with the token of RECAPITO_TOKEN."""
    return LetterClient(server or os.environ.get("RECAPITO_SERVER") or SERVER, os.environ.get("RECAPITO_TOKEN"))


def _refused(error: urllib.error.HTTPError) -> CallerError:
    try:
        message = json.load(error)["error"]["message"]
    except (ValueError, KeyError, TypeError):
        message = f"the server answered {error.code}"
    return CallerError("Refused", message)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
