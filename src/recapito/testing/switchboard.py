"""The one HTTP server behind all receivers of a test run: each has a path of its own."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import Any

from recapito.domain.delivery.headers import DELETION, EVENT_TYPE, SUBSCRIPTION_NAME, VALIDATION
from recapito.testing.answer import Answer, Request
from recapito.testing.client import ServerRefused
from recapito.testing.clock import ServerClock
from recapito.testing.receiver import Receiver

_GONE = Answer(410)


class Switchboard:
    """Listens on a free port of loopback, from `start` to `stop`, and hands requests to receivers by path."""

    def __init__(self, clock: ServerClock) -> None:
        self.receivers: dict[str, Receiver] = {}
        self._numbers = count(1)
        board = self

        class Handler(_SwitchboardHandler):
            def __init__(self, *args: Any) -> None:
                self.board, self.clock = board, clock
                super().__init__(*args)

        self._server = _SwitchboardServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    def stop(self) -> None:
        """End."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def next_url(self, name: str) -> str:
        """A URL that no other receiver has had."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/{next(self._numbers)}/{name}"

    def connect(self, receiver: Receiver) -> None:
        """Pass the requests for its URL to a receiver."""
        self.receivers[_path(receiver.url)] = receiver

    def disconnect(self, receiver: Receiver) -> None:
        """Answer 410 for its URL from now on."""
        self.receivers.pop(_path(receiver.url), None)


class _SwitchboardServer(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 512

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that closes its connection early is no error."""


class _SwitchboardHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    board: Switchboard
    clock: ServerClock

    def do_OPTIONS(self) -> None:
        """The handshake of CloudEvents: allow the origin that asks."""
        origin = self.headers.get("WebHook-Request-Origin", "*")
        self._answer(Answer(200, headers={"WebHook-Allowed-Origin": origin, "WebHook-Allowed-Rate": "*"}))

    def do_POST(self) -> None:
        """A handshake of the Event Grid schema, a farewell, or events."""
        # One request a connection: on one that was used before, a client may repeat a request that is not answered,
        # and the script would be one step ahead.
        self.close_connection = True
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        kind = self.headers.get(EVENT_TYPE, "")
        if kind == VALIDATION:
            code = json.loads(body)[0]["data"]["validationCode"]
            self._answer(Answer(200, json.dumps({"validationResponse": code}).encode()))
        elif kind == DELETION:
            self._answer(Answer())
        else:
            self._take(body)

    def _take(self, body: bytes) -> None:
        receiver = self.board.receivers.get(self.path.split("?")[0])
        if receiver is None:
            self._answer(_GONE)
            return
        headers = {name.lower(): value for name, value in self.headers.items()}
        name = headers.get(SUBSCRIPTION_NAME, "").lower()
        try:
            answer = receiver.take(Request(name, self.clock.now, headers, body))
            if answer.delay_s:
                self.clock.sleep(answer.delay_s)
        except ServerRefused:
            return  # the server has ended meanwhile: no answer is awaited
        if answer.status:
            self._answer(answer)

    def _answer(self, answer: Answer) -> None:
        self.send_response(answer.status)
        for name, value in {"Content-Type": "application/json", **answer.headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(answer.body)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(answer.body)

    def log_message(self, format: str, *args: object) -> None:
        """The receivers keep what arrives."""


def _path(url: str) -> str:
    return "/" + url.split("/", 3)[3]
