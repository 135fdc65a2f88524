"""A subscriber's webhook on loopback: it consents to handshakes, and keeps what is delivered, by path."""

import json
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

PATIENCE_S = 30.0


class Request(NamedTuple):
    """One request as it arrived."""

    method: str
    headers: dict[str, str]
    body: bytes

    @property
    def events(self) -> list[dict[str, Any]]:
        """The events of a delivery; a single CloudEvent comes as an object."""
        content = json.loads(self.body)
        return content if isinstance(content, list) else [content]


class Webhook:
    """Keeps deliveries and handshakes apart. Each test takes a path of its own.

    It consents to every handshake, except at paths that begin with `closed`, which refuse, and `mute`, which leave
    the validation to somebody who opens the validation URL.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._deliveries: dict[str, list[Request]] = defaultdict(list)
        self._handshakes: dict[str, list[Request]] = defaultdict(list)
        webhook = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                request = self._request()
                if request.headers.get("aeg-event-type") == "SubscriptionValidation":
                    webhook._keep(webhook._handshakes, self.path, request)
                    if self.path.startswith("/closed"):
                        self._answer(b"Not here.", {}, 403)
                        return
                    code = "" if self.path.startswith("/mute") else request.events[0]["data"]["validationCode"]
                    self._answer(json.dumps({"validationResponse": code}).encode(), {})
                    return
                webhook._keep(webhook._deliveries, self.path, request)
                self._answer(b"", {})

            def do_OPTIONS(self) -> None:
                request = self._request()
                webhook._keep(webhook._handshakes, self.path, request)
                allowed = {"WebHook-Allowed-Origin": request.headers["webhook-request-origin"]}
                self._answer(b"", {**allowed, "WebHook-Allowed-Rate": "*"})

            def _request(self) -> Request:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                return Request(self.command, {name.lower(): value for name, value in self.headers.items()}, body)

            def _answer(self, body: bytes, headers: dict[str, str], status: int = 200) -> None:
                self.send_response(status)
                for name, value in {**headers, "Content-Length": str(len(body))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """Silence."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})
        self._thread.start()

    def url(self, name: str) -> str:
        """The endpoint of this name."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/{name}"

    def deliveries(self, name: str, events: int) -> list[Request]:
        """The deliveries to an endpoint, as soon as they hold so many events, deletion notices not counted."""
        return self._wait(name, lambda request: not is_deletion(request), events)

    def delivery_of(self, name: str, id: str) -> Request:
        """The delivery of an event, as soon as it has arrived."""
        return self._wait(name, lambda request: id in [event.get("id") for event in request.events], 1)[0]

    def deletions(self, name: str) -> list[Request]:
        """The notices that a subscription was deleted, as soon as there is one."""
        return self._wait(name, is_deletion, 1)

    def events(self, name: str, count: int) -> list[dict[str, Any]]:
        """The events that arrived at an endpoint, as soon as there are so many."""
        return [event for request in self.deliveries(name, count) for event in request.events]

    def handshakes(self, name: str) -> list[Request]:
        """The handshakes that an endpoint has seen."""
        with self._changed:
            return self._at(self._handshakes, name)

    def _at(self, kept: dict[str, list[Request]], name: str) -> list[Request]:
        return [r for path, requests in kept.items() if path.split("?")[0] == f"/{name}" for r in requests]

    def _wait(self, name: str, wanted: Callable[[Request], bool], events: int) -> list[Request]:
        def found() -> list[Request]:
            return [request for request in self._at(self._deliveries, name) if wanted(request)]

        with self._changed:
            arrived = self._changed.wait_for(lambda: sum(len(r.events) for r in found()) >= events, PATIENCE_S)
            assert arrived, f"{name}: {sum(len(r.events) for r in found())} events instead of {events}"
            return found()

    def _keep(self, kept: dict[str, list[Request]], path: str, request: Request) -> None:
        with self._changed:
            kept[path].append(request)
            self._changed.notify_all()

    def close(self) -> None:
        """End it."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def is_deletion(request: Request) -> bool:
    """Whether this tells of a deleted subscription."""
    return request.headers.get("aeg-event-type") == "SubscriptionDeletion"


@contextmanager
def webhook() -> Iterator[Webhook]:
    """A webhook for a while."""
    it = Webhook()
    try:
        yield it
    finally:
        it.close()
