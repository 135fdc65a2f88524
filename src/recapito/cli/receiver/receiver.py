"""A webhook for trials: it answers both handshakes, reports each request, and answers by a script."""

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from recapito.cli.receiver.script import ReceiverScript
from recapito.domain.delivery.headers import DELETION, DELIVERY_COUNT, EVENT_TYPE, SUBSCRIPTION_NAME, VALIDATION

_BODY_BYTES = 4 * 1024 * 1024
_ORIGIN = "WebHook-Request-Origin"


class Arrival(NamedTuple):
    """One request: what kind it was, which attempt, its events, and what was answered (0 is nothing)."""

    kind: str
    attempt: int
    subscription: str
    events: list[Any]
    status: int


OnRequest = Callable[[Arrival], None]
OnAnswer = Callable[[int], None]


class WebhookReceiver:
    """A server on a thread of its own, from `start` to `stop`.

    `on_request` gets each request when it has arrived; `on_answer` its number of events when its answer has left.
    """

    def __init__(
        self, host: str, port: int, script: ReceiverScript, on_request: OnRequest, on_answer: OnAnswer
    ) -> None:
        self.stopping = threading.Event()
        receiver = self

        class Handler(_ReceiverHandler):
            def __init__(self, *args: Any) -> None:
                self.script, self.stopping = script, receiver.stopping
                self.on_request, self.on_answer = on_request, on_answer
                super().__init__(*args)

        self._server = _ReceiverServer((host, port), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)

    @property
    def port(self) -> int:
        """Port that the server listens on."""
        return int(self._server.server_address[1])

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    def stop(self) -> None:
        """End, also what is delayed."""
        self.stopping.set()
        self._server.shutdown()
        self._server.server_close()


class _ReceiverServer(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 512

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that closes its connection early is no error."""


class _ReceiverHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    script: ReceiverScript
    on_request: OnRequest
    on_answer: OnAnswer
    stopping: threading.Event

    def do_OPTIONS(self) -> None:
        """The handshake of CloudEvents: allow the origin that asks."""
        origin = self.headers.get(_ORIGIN, "*")
        self._report("handshake", [], 200)
        self._answer(200, {"WebHook-Allowed-Origin": origin, "WebHook-Allowed-Rate": "*"})

    def do_POST(self) -> None:
        """A handshake of the Event Grid schema, a farewell, or events."""
        size = int(self.headers.get("Content-Length") or 0)
        if size > _BODY_BYTES:
            self._answer(413)
            self.close_connection = True
            return
        body = self.rfile.read(size)
        events = _events(body)
        kind = self.headers.get(EVENT_TYPE, "")
        if kind == VALIDATION:
            self._report("handshake", [], 200)
            self._answer(200, body=json.dumps({"validationResponse": _code(events)}).encode())
        elif kind == DELETION:
            self._report("deleted", [], 200)
            self._answer(200)
        else:
            self._take(events)

    def _take(self, events: list[Any]) -> None:
        reply = self.script.next()
        self._report("events", events, reply.status)
        if reply.delay_s:
            self.stopping.wait(reply.delay_s)
        if reply.status == 0:
            self.close_connection = True
        else:
            self._answer(reply.status, {} if reply.retry_after_s is None else {"Retry-After": str(reply.retry_after_s)})
        self.on_answer(len(events))

    def _report(self, kind: str, events: list[Any], status: int) -> None:
        count = self.headers.get(DELIVERY_COUNT) or "0"
        attempt = int(count) + 1 if count.isdigit() else 1
        self.on_request(Arrival(kind, attempt, self.headers.get(SUBSCRIPTION_NAME, ""), events, status))

    def _answer(self, status: int, headers: dict[str, str] | None = None, body: bytes = b"") -> None:
        self.send_response(status)
        for name, value in {**(headers or {}), "Content-Type": "application/json"}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """No log: `on_request` has reported the request."""


def _events(body: bytes) -> list[Any]:
    """The events of a body; whatever else is posted here is shown as it is."""
    try:
        read = json.loads(body)
    except (ValueError, RecursionError):
        read = body.decode("utf-8", "replace")
    return read if isinstance(read, list) else [read]


def _code(events: list[Any]) -> str:
    try:
        return str(events[0]["data"]["validationCode"])
    except (LookupError, TypeError):
        return ""
