"""A webhook that prints what it gets: `python3 examples/receiver.py [--port 9000] [--fail 503] [--times 2]`.

It needs nothing but Python, and consents to whoever wants to send it events: it answers both handshakes of Event Grid.
With --fail it answers that status to the first --times requests, so that a retry can be watched; without --times, to
all of them.
"""

import argparse
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Receiver(BaseHTTPRequestHandler):
    """Prints each event on one line and answers."""

    protocol_version = "HTTP/1.1"
    fail = 0
    times = 0

    def do_OPTIONS(self) -> None:
        """The handshake of CloudEvents: name who may send."""
        origin = self.headers.get("WebHook-Request-Origin", "*")
        print(f"consent to CloudEvents from {origin}", flush=True)
        self._answer(200, headers={"WebHook-Allowed-Origin": origin})

    def do_POST(self) -> None:
        """A handshake of the Event Grid schema, or events."""
        received = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))
        events = received if isinstance(received, list) else [received]
        kind = self.headers.get("aeg-event-type")
        if kind == "SubscriptionValidation":
            print(f"consent to subscription {self.headers.get('aeg-subscription-name')}", flush=True)
            self._answer(200, {"validationResponse": events[0]["data"]["validationCode"]})
        elif kind == "SubscriptionDeletion":
            print(f"subscription {self.headers.get('aeg-subscription-name')} was deleted", flush=True)
            self._answer(200)
        else:
            self._take(events)

    def _take(self, events: list[dict[str, Any]]) -> None:
        status = 200
        if Receiver.fail and Receiver.times:
            Receiver.times -= 1
            status = Receiver.fail
        attempt = int(self.headers.get("aeg-delivery-count", 0)) + 1
        for event in events:
            name = event.get("eventType") or event.get("type")  # of the Event Grid schema, of CloudEvents
            data = json.dumps(event.get("data"))
            print(f"attempt {attempt}: {name} {event.get('subject')} {data} -> {status}", flush=True)
        self._answer(status)

    def _answer(self, status: int, body: object = None, headers: dict[str, str] | None = None) -> None:
        content = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """The events are enough."""


def main() -> None:
    """Listen until interrupted."""
    parser = argparse.ArgumentParser(description="A webhook that prints what it gets.")
    parser.add_argument("--port", type=int, default=9000)
    parser.add_argument("--fail", type=int, default=0, metavar="STATUS", help="answer this status …")
    parser.add_argument("--times", type=int, default=-1, metavar="N", help="… to the first N requests (default: all)")
    options = parser.parse_args()
    Receiver.fail, Receiver.times = options.fail, options.times
    server = ThreadingHTTPServer(("127.0.0.1", options.port), Receiver)
    print(f"Listening at http://127.0.0.1:{server.server_port}/ (Ctrl-C stops)", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
