"""The webhook that Event Grid calls: it consents to the subscription, and takes orders."""

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from orders_service.reservations import BadOrder, Reservations, WarehouseDown


def make_server(port: int, reservations: Reservations) -> ThreadingHTTPServer:
    """A server on loopback; port 0 is a free one."""

    class Webhook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            events = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if self.headers["aeg-event-type"] == "SubscriptionValidation":
                self._answer(200, {"validationResponse": events[0]["data"]["validationCode"]})
            elif self.headers["aeg-event-type"] == "Notification":
                self._take(events)
            else:
                self._answer(200)

        def _take(self, events: list[dict[str, object]]) -> None:
            try:
                for event in events:
                    reservations.take(event)
            except WarehouseDown as error:
                self._answer(503, {"error": str(error)})  # Event Grid comes again
            except BadOrder as error:
                self._answer(400, {"error": str(error)})  # Event Grid gives up
            else:
                self._answer(200)

        def _answer(self, status: int, body: object = None) -> None:
            content = b"" if body is None else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            """The answers say enough."""

    return ThreadingHTTPServer(("127.0.0.1", port), Webhook)
