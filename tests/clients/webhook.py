"""A subscriber's webhook on loopback: it consents to handshakes, and keeps what is delivered, by path."""

import json
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

from tests.kit.http_server import PATIENCE_S, ArrivedRequest, CannedReply, LoopbackServer


class Webhook:
    """Keeps deliveries and handshakes apart. Each test takes a path of its own.

    It consents to every handshake, except at paths that begin with `closed`, which refuse, and `mute`, which leave
    the validation to a person who opens the validation URL.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._deliveries: dict[str, list[ArrivedRequest]] = defaultdict(list)
        self._handshakes: dict[str, list[ArrivedRequest]] = defaultdict(list)
        self._server = LoopbackServer(self._take)

    def _take(self, request: ArrivedRequest) -> CannedReply:
        if request.method == "OPTIONS":
            self._keep(self._handshakes, request)
            allowed = {"WebHook-Allowed-Origin": request.headers["webhook-request-origin"]}
            return CannedReply(headers={**allowed, "WebHook-Allowed-Rate": "*"})
        if request.headers.get("aeg-event-type") == "SubscriptionValidation":
            self._keep(self._handshakes, request)
            if request.path.startswith("/closed"):
                return CannedReply(403, b"Not here.")
            code = "" if request.path.startswith("/mute") else request.events[0]["data"]["validationCode"]
            return CannedReply(200, json.dumps({"validationResponse": code}).encode())
        self._keep(self._deliveries, request)
        return CannedReply()

    def url(self, name: str) -> str:
        """The endpoint of this name."""
        return f"{self._server.url}/{name}"

    def deliveries(self, name: str, events: int) -> list[ArrivedRequest]:
        """The deliveries to an endpoint, as soon as they hold that many `events`, deletion notices not counted."""
        return self._wait(name, lambda request: not is_deletion(request), events)

    def delivery_of(self, name: str, id: str) -> ArrivedRequest:
        """The delivery of an event, as soon as it has arrived."""
        return self._wait(name, lambda request: id in [event.get("id") for event in request.events], 1)[0]

    def deletions(self, name: str) -> list[ArrivedRequest]:
        """The notices that a subscription was deleted, as soon as there is one."""
        return self._wait(name, is_deletion, 1)

    def events(self, name: str, count: int) -> list[dict[str, Any]]:
        """The events that arrived at an endpoint, as soon as there are `count`."""
        return [event for request in self.deliveries(name, count) for event in request.events]

    def handshakes(self, name: str) -> list[ArrivedRequest]:
        """The handshakes that an endpoint has seen."""
        with self._changed:
            return self._at(self._handshakes, name)

    def _at(self, kept: dict[str, list[ArrivedRequest]], name: str) -> list[ArrivedRequest]:
        return [r for path, requests in kept.items() if path.split("?")[0] == f"/{name}" for r in requests]

    def _wait(self, name: str, wanted: Callable[[ArrivedRequest], bool], events: int) -> list[ArrivedRequest]:
        def found() -> list[ArrivedRequest]:
            return [request for request in self._at(self._deliveries, name) if wanted(request)]

        with self._changed:
            arrived = self._changed.wait_for(lambda: sum(len(r.events) for r in found()) >= events, PATIENCE_S)
            assert arrived, f"{name}: {sum(len(r.events) for r in found())} events instead of {events}"
            return found()

    def _keep(self, kept: dict[str, list[ArrivedRequest]], request: ArrivedRequest) -> None:
        with self._changed:
            kept[request.path].append(request)
            self._changed.notify_all()

    def close(self) -> None:
        self._server.close()


def is_deletion(request: ArrivedRequest) -> bool:
    """Whether this tells of a deleted subscription."""
    return request.headers.get("aeg-event-type") == "SubscriptionDeletion"


@contextmanager
def webhook() -> Iterator[Webhook]:
    """A webhook for a while."""
    with closing(Webhook()) as endpoint:
        yield endpoint
