"""A real server and a real receiver, started on free loopback ports and ended by the test that started them."""

import http.client
import json
import os
import signal
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from tests.kit.http_server import PATIENCE_S, ArrivedRequest, CannedReply, LoopbackServer

GROUP = "/subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/local/providers/Microsoft.EventGrid"
VERSION = "api-version=2022-06-15"


class Receiver:
    """A webhook that records what arrives. `answer` maps a request's events to a status; None leaves it unanswered."""

    def __init__(self) -> None:
        self.requests: list[tuple[dict[str, str], list[dict[str, Any]]]] = []
        self.bodies: list[bytes] = []
        self.answer = lambda events: 200
        self.arrived = threading.Condition()
        self._server = LoopbackServer(self._take)
        self.url = f"{self._server.url}/hook"

    def _take(self, request: ArrivedRequest) -> CannedReply | None:
        events = json.loads(request.body)
        with self.arrived:
            self.requests.append((request.headers, events))
            self.bodies.append(request.body)
            status = self.answer(events)
            self.arrived.notify_all()
        return None if status is None else CannedReply(status)

    @property
    def ids(self) -> list[str]:
        """The ids of all events that arrived, in order, with repetitions."""
        with self.arrived:
            return [event["id"] for _, events in self.requests for event in events]

    def wait_for(self, ids: set[str], patience_s: float = PATIENCE_S) -> None:
        """Wait until all of these have arrived."""
        with self.arrived:
            complete = self.arrived.wait_for(lambda: ids <= self._seen(), patience_s)
        assert complete, f"{len(ids - set(self.ids))} of {len(ids)} events did not arrive"

    def wait_for_requests(self, count: int, patience_s: float = PATIENCE_S) -> None:
        """Wait until `count` requests have arrived."""
        with self.arrived:
            assert self.arrived.wait_for(lambda: len(self.requests) >= count, patience_s)

    def _seen(self) -> set[str]:
        return {event["id"] for _, events in self.requests for event in events}

    def close(self) -> None:
        self._server.close()


@contextmanager
def receiver() -> Iterator[Receiver]:
    """A receiver for the length of a test."""
    with closing(Receiver()) as endpoint:
        yield endpoint


class Server:
    """A `recapito serve` process with its children; without handshakes, unless a flag says otherwise."""

    def __init__(
        self,
        data: Path,
        *flags: str,
        port: int = 0,
        environment: dict[str, str] | None = None,
        python: str = sys.executable,
    ) -> None:
        self.data = data
        fixed = ["--data", str(data), "--port", str(port), "--quiet", "--handshake", "off"]
        self._process = subprocess.Popen(
            [python, "-m", "recapito", "serve", *fixed, *flags],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **(environment or {})},
        )
        self.journal: list[str] = []
        self._drain = threading.Thread(target=self._read_journal)
        self._drain.start()
        line = self.line()
        assert line.startswith("Recapito is ready at "), line + "".join(self.journal)
        self.url = line.split()[-1]
        self.port = port or int(self.url.rsplit(":", 1)[1])

    def line(self) -> str:
        """The next line that it prints."""
        assert self._process.stdout is not None
        return self._process.stdout.readline().rstrip("\n")

    @cached_property
    def key(self) -> str:
        """A key of the first topic."""
        found: str = self.call("POST", f"{GROUP}/topics/demo/listKeys?{VERSION}")["key1"]
        return found

    @property
    def authority(self) -> Path:
        """The file with the certificate authority of a server with TLS."""
        return self.data / "tls" / "ca.pem"

    def _read_journal(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self.journal.append(line)

    def request(self, method: str, path: str, body: bytes | None = None, **headers: str) -> tuple[int, bytes]:
        """One request on a connection of its own; the status and the body of the answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        if self.url.startswith("https"):
            context = ssl.create_default_context(cafile=self.authority)
            connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=PATIENCE_S, context=context)
        try:
            connection.request(method, path, body, {k.replace("_", "-"): v for k, v in headers.items()})
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def hang_up(self) -> None:
        """Send SIGHUP to the parent, as an operator does after a change of files."""
        self._process.send_signal(signal.SIGHUP)

    def call(self, method: str, path: str, body: object = None) -> Any:
        """A management request that must succeed; its JSON answer."""
        status, answer = self.request(method, path, None if body is None else json.dumps(body).encode())
        assert status < 300, answer
        return json.loads(answer) if answer else None

    def subscribe(self, name: str, url: str, topic: str = "demo", **properties: Any) -> None:
        """Create a webhook subscription; `destination` goes into the destination's properties."""
        destination = {"endpointUrl": url, **properties.pop("destination", {})}
        body = {"properties": {"destination": {"endpointType": "WebHook", "properties": destination}, **properties}}
        self.call("PUT", f"{GROUP}/topics/{topic}/eventSubscriptions/{name}?{VERSION}", body)

    def publish(self, *ids: str, data: str = "{}", topic: str = "demo") -> int:
        """Publish events with these ids; the status of the answer."""
        return self.publish_raw(events(*ids, data=data), topic)[0]

    def publish_raw(self, body: bytes, topic: str = "demo") -> tuple[int, bytes]:
        """Publish a body as it is."""
        return self.request("POST", f"/topics/{topic}/api/events", body, aeg_sas_key=self.key)

    def counts(self, subscription: str) -> dict[str, float]:
        """The metrics of one subscription; dropped ones summed over their reasons."""
        _, text = self.request("GET", "/metrics")
        found: dict[str, float] = {}
        for line in text.decode().splitlines():
            if f'event_subscription="{subscription}"' in line:
                name = line.partition("{")[0].removeprefix("recapito_").removesuffix("_total")
                found[name] = found.get(name, 0.0) + float(line.rsplit(" ", 1)[1])
        return found

    def roles(self) -> dict[str, int]:
        """The process ids of the running roles."""
        found = {}
        for pid in Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split():
            try:
                command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            except OSError:
                continue  # it has just ended
            if b"role" in command:
                found[command[command.index(b"role") + 1].decode()] = int(pid)
        return found

    def kill(self, role: str) -> None:
        """End one role, or the parent, at once; a role that is just being restarted is waited for."""
        if role == "parent":
            self._process.kill()
            return
        assert until(lambda: role in self.roles())
        os.kill(self.roles()[role], signal.SIGKILL)

    def stop(self, sig: int = signal.SIGTERM) -> int:
        """End the server; its exit code."""
        if self._process.poll() is None:
            self._process.send_signal(sig)
        code = self._process.wait(PATIENCE_S)
        self._drain.join()
        for pipe in (self._process.stdout, self._process.stderr):
            assert pipe is not None
            pipe.close()
        return code


@contextmanager
def server(data: Path, *flags: str, port: int = 0, environment: dict[str, str] | None = None) -> Iterator[Server]:
    """A server for the length of a test."""
    it = Server(data, *flags, port=port, environment=environment)
    try:
        yield it
    finally:
        it.stop()


def until(condition: Callable[[], bool], patience_s: float = PATIENCE_S) -> bool:
    """Ask again and again, for a while, whether something of another process has come true."""
    pause = threading.Event()
    for _ in range(int(patience_s / 0.02)):
        if condition():
            return True
        pause.wait(0.02)
    return False


def events(*ids: str, data: str = "{}") -> bytes:
    """A publish body of the Event Grid schema."""
    one = '{{"id":"{}","subject":"s","eventType":"t","eventTime":"2026-01-01T00:00:00Z","data":{},"dataVersion":"1"}}'
    return ("[" + ",".join(one.format(id, data) for id in ids) + "]").encode()
