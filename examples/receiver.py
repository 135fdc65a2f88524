"""A webhook that prints what it gets: `python3 examples/receiver.py [--port 9000] [--fail 503] [--times 2]`.

It needs nothing but Python. With --fail it answers that status to the first --times requests, so that a retry can be
watched; without --times, to all of them.
"""

import argparse
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Receiver(BaseHTTPRequestHandler):
    """Prints each event on one line and answers."""

    protocol_version = "HTTP/1.1"
    fail = 0
    times = 0

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        status = 200
        if Receiver.fail and Receiver.times:
            Receiver.times -= 1
            status = Receiver.fail
        attempt = int(self.headers.get("aeg-delivery-count", 0)) + 1
        for event in json.loads(body):
            data = json.dumps(event.get("data"))
            print(f"attempt {attempt}: {event['eventType']} {event['subject']} {data} -> {status}", flush=True)
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

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
    print(f"Listening at http://127.0.0.1:{options.port}/ (Ctrl-C stops)", flush=True)
    try:
        ThreadingHTTPServer(("127.0.0.1", options.port), Receiver).serve_forever()
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
