"""The client of the server under test: one connection per request, so that any thread may ask while another waits."""

import http.client
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

API_VERSION = "2022-06-15"
_TIMEOUT_S = 60.0


class ServerRefused(AssertionError):
    """The server under test answered with an error, or not at all; the message has the request and the reason."""


class LocalClient:
    """A client of one server on this machine; `log` is the server's log file."""

    def __init__(self, port: int, log: Path) -> None:
        self._port = port
        self._log = log

    def __repr__(self) -> str:
        return f"<LocalClient of port {self._port}>"

    def arm(self, method: str, path: str, body: Any = None) -> Any:
        """A management request; its JSON answer, None if it has none."""
        return self.call(method, f"{path}?api-version={API_VERSION}", body)

    def call(
        self,
        method: str,
        target: str,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        timeout_s: float = _TIMEOUT_S,
    ) -> Any:
        """A request that must succeed; its JSON answer, None if it has none."""
        content = None if body is None else json.dumps(body).encode()
        sent = {"Content-Type": "application/json", **(headers or {})}
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=timeout_s)
        try:
            connection.request(method, target, content, sent)
            response = connection.getresponse()
            answered = response.read()
        except (OSError, http.client.HTTPException) as error:
            text = f"Recapito did not answer {method} {target}: {error!r}. The server's log is {self._log}"
            raise ServerRefused(text) from None
        finally:
            connection.close()
        if response.status >= 300:
            raise ServerRefused(f"Recapito refused {method} {target}: {response.status} {_reason(answered)}")
        return json.loads(answered) if answered else None


def _reason(answered: bytes) -> str:
    try:
        error = json.loads(answered)["error"]
        return f"{error['code']}: {error['message']}"
    except (ValueError, KeyError, TypeError):
        return answered.decode("utf-8", "replace")
