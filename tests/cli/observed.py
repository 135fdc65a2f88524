"""A server of which only the answers about deliveries and lanes are there, each as the test says."""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

Query = dict[str, str]
Answers = Callable[[str, Query, Any], tuple[int, Any]]

NOW = "2026-01-31T12:00:00.0000000Z"


class Observed:
    """Answers by a function of path, query and body; it keeps what was asked."""

    def __init__(self, answers: Answers, port: int = 0, headers: Mapping[str, str] | None = None) -> None:
        self.asked: list[tuple[str, Query, Any]] = []
        observed = self

        class Handler(BaseHTTPRequestHandler):  # one request a connection: who ends, ends all of them
            def do_GET(self) -> None:
                self._answer(None)

            def do_POST(self) -> None:
                content = self.rfile.read(int(self.headers["Content-Length"])).decode()
                self._answer(json.loads(content) if self.headers["Content-Type"] == "application/json" else content)

            def _answer(self, body: Any) -> None:
                parts = urlsplit(self.path)
                asked = (parts.path, dict(parse_qsl(parts.query)), body)
                observed.asked.append(asked)
                status, answer = answers(*asked)
                content = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
                self.send_response(status)
                for name, value in (headers or {}).items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *args: object) -> None:
                """Silence."""

        class Server(ThreadingHTTPServer):
            daemon_threads = True

        self._server = Server(("127.0.0.1", port), Handler)
        self.port = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@contextmanager
def observed(answers: Answers, port: int = 0, headers: Mapping[str, str] | None = None) -> Iterator[Observed]:
    """Such a server for the length of a test."""
    it = Observed(answers, port, headers)
    try:
        yield it
    finally:
        it.close()


def attempt(number: int = 1, outcome: str = "Busy", status: int | None = 503, **changed: Any) -> dict[str, Any]:
    """An attempt as the history answers it, a minute after the one before."""
    event = {"id": "e-1", "attempt": number, "then": "retry", "dueAt": f"2026-01-31T11:5{number}:00.0000000Z"}
    event |= {"rule": "schedule", "reason": None} | changed.pop("event", {})
    return {
        "mark": f"m{number}",
        "at": f"2026-01-31T11:5{number - 1}:00.1234567Z",
        "tookMs": 12.3,
        "topic": "orders",
        "subscription": "billing",
        "subscriptionId": 7,
        "outcome": outcome,
        "status": status,
        "detail": "",
        "probe": False,
        "late": False,
        "events": [event],
        "eventCount": 1,
        **changed,
    }


def lane(id: int, subscription: str, **changed: Any) -> dict[str, Any]:
    """A lane that has delivered all, as the API shows it."""
    return {
        "id": id,
        "topic": "orders",
        "topicKind": "custom",
        "domainTopic": None,
        "subscription": subscription,
        "resourceId": f"/subscriptions/s/eventSubscriptions/{subscription}",
        "endpointType": "WebHook",
        "endpoint": "https://host/hook",
        "provisioningState": "Succeeded",
        "matched": 10,
        "unmatched": 0,
        "delivered": 10,
        "deadLettered": 0,
        "dropped": {},
        "pending": 0,
        "parked": 0,
        "buried": 0,
        "unread": 0,
        "failedAttempts": {},
        "answers": 10,
        "tookMs": 100.0,
        "failuresInARow": 0,
        "nextDueAt": None,
        "options": {"signingSecrets": 0, "maxRequests": None, "eventsPerSecond": None},
        "hold": None,
        "stopped": None,
        **changed,
    }
