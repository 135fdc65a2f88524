"""The server under test: `recapito serve` on a free port with a data directory of its own, and what is asked of it."""

import http.client
import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from bench.process import Child, command_of, descendants, module, resident_mb

READY = "Recapito is ready at http://127.0.0.1:"
GROUP = "/subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/bench/providers/Microsoft.EventGrid"
VERSION = "?api-version=2022-06-15"


class Target(NamedTuple):
    """Where events are published, and with which key."""

    port: int
    path: str
    key: str


class Recapito:
    """A running server, both roles, and a portal if it is given a port. A context: it is stopped at the end."""

    def __init__(
        self,
        directory: Path,
        environment: Mapping[str, str] | None = None,
        flags: Sequence[str] = (),
        portal_port: int | None = None,
    ) -> None:
        self.data = directory / "data"
        self._portal = ["--no-portal"] if portal_port is None else ["--portal-port", str(portal_port)]
        self._errors = directory / "server.log"
        self._environment = environment
        self._flags = flags
        directory.mkdir(parents=True, exist_ok=True)
        self._child = self._start()

    def __enter__(self) -> "Recapito":
        return self

    def __exit__(self, *error: object) -> None:
        self._child.end()

    def _start(self) -> Child:
        serve = module("recapito", "serve", "--data", str(self.data), "--port", "0", "--quiet", *self._portal)
        child = Child([*serve, "--handshake", "off", *self._flags], self._errors, self._environment)
        line = child.line()
        if not line.startswith(READY):
            child.end()
            raise RuntimeError(f"the server said {line!r}")
        self.port = int(line.removeprefix(READY))
        return child

    def role(self, name: str) -> int:
        """The process id of a role."""
        for pid in descendants(self._child.pid):
            if f"role {name} " in f"{command_of(pid)} ":
                return pid
        raise LookupError(f"there is no {name} process")

    def kill_all(self) -> None:
        """SIGKILL to the parent and both roles."""
        self._child.kill()

    def stop(self) -> None:
        """End it, so that another process may write its data."""
        self._child.end()

    def start_again(self) -> None:
        """Start on the same data after `kill_all` or `stop`."""
        self._child = self._start()

    def resident_mb(self) -> float:
        """The memory of all its processes."""
        return resident_mb(self._child.pid)

    @contextmanager
    def memory(self) -> Iterator[list[float]]:
        """Look at the memory of all its processes twice a second."""
        looks: list[float] = [resident_mb(self._child.pid)]
        over = threading.Event()

        def look() -> None:
            while not over.wait(0.5):
                looks.append(resident_mb(self._child.pid))

        thread = threading.Thread(target=look)
        thread.start()
        try:
            yield looks
        finally:
            over.set()
            thread.join()

    def pids(self) -> dict[str, int]:
        """Its processes by what they are."""
        return {"parent": self._child.pid, "intake": self.role("intake"), "dispatch": self.role("dispatch")}

    def journal(self, event: str) -> list[dict[str, Any]]:
        """The journal's lines of one kind of event."""
        lines = self._errors.read_text("utf-8", "replace").splitlines()
        return [json.loads(line) for line in lines if f'"event": "{event}"' in line]

    def topic(self, name: str, tags: Mapping[str, str] | None = None) -> Target:
        """Make a topic."""
        return make_topic(self.port, name, tags)

    def connect(self, resource_id: str, connection: str) -> None:
        """Say how a resource is reached."""
        call(self.port, "PUT", f"/connections{resource_id}", {"connectionString": connection})

    def subscribe(
        self,
        topic: str,
        name: str,
        url: str,
        batch: tuple[int, int] | None = (1, 64),
        **properties: Mapping[str, Any],
    ) -> None:
        """Subscribe a webhook; `batch` is the most events and the preferred kilobytes, `properties` as ARM has them."""
        destination: dict[str, Any] = {"endpointUrl": url}
        if batch is not None:
            destination |= {"maxEventsPerBatch": batch[0], "preferredBatchSizeInKilobytes": batch[1]}
        webhook = {"endpointType": "WebHook", "properties": destination}
        body = {"properties": {"destination": webhook, **properties}}
        call(self.port, "PUT", f"{GROUP}/topics/{topic}/eventSubscriptions/{name}{VERSION}", body)


def make_topic(port: int, name: str, tags: Mapping[str, str] | None = None) -> Target:
    """Make a topic on the server at this port."""
    call(port, "PUT", f"{GROUP}/topics/{name}{VERSION}", {"location": "local", "tags": tags or {}})
    keys = call(port, "POST", f"{GROUP}/topics/{name}/listKeys{VERSION}")
    return Target(port, f"/topics/{name}/api/events", keys["key1"])


def call(port: int, method: str, path: str, body: object = None) -> Any:
    """One request of management; the answer's JSON, or its text if it is none."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        content = None if body is None else json.dumps(body)
        connection.request(method, path, content, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        text = answer.read().decode()
    finally:
        connection.close()
    if answer.status >= 300:
        raise RuntimeError(f"{method} {path} was answered {answer.status}: {text[:500]}")
    return json.loads(text) if answer.headers.get_content_type() == "application/json" and text else text
