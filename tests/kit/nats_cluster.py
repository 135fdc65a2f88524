"""Three real NATS servers on loopback, clustered, which sync each message."""

import contextlib
import itertools
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from recapito.contracts.stream import StreamMessage, StreamState
from recapito.stores.jetstream.client import JetStreamOptions
from recapito.stores.jetstream.link import Link
from recapito.stores.jetstream.stream import JetStreamStream
from recapito.stores.jetstream.streams import JetStreamStreams, connect, create
from tests.kit.ports import free_ports

SERVER = Path(sys.executable).with_name("nats-server")
READY_S = 20.0
LOOK_S = 0.05
NAMES = ("a", "b", "c")


class NatsCluster:
    """The servers a, b and c with their directories; each can be killed, paused, wiped and started again."""

    def __init__(self, directory: Path, sync: str = "always", more: str = "", **access: object) -> None:
        """`more` is configuration of all servers; `access` has the options of a client that they let in."""
        self._directory = directory
        self._sync = sync
        self._more = more
        self._access = access
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._numbers = itertools.count(1)
        self._streams: list[JetStreamStreams] = []
        self._shared: JetStreamStreams | None = None
        ports = free_ports(3 * len(NAMES))
        self.ports = dict(zip(NAMES, ports[:3], strict=True))
        self._routes = dict(zip(NAMES, ports[3:6], strict=True))
        self.monitors = {name: f"http://127.0.0.1:{port}" for name, port in zip(NAMES, ports[6:], strict=True)}

    def options(self, name: str = "recapito", **more: object) -> JetStreamOptions:
        """The options of a client of all servers."""
        urls = tuple(f"nats://127.0.0.1:{port}" for port in self.ports.values())
        return JetStreamOptions(urls, name, monitors=tuple(self.monitors.values()))._replace(**{**self._access, **more})

    def new_streams(self, size: int = 64 << 20) -> JetStreamStreams:
        """Two new streams, under a name of their own, by a connection of their own."""
        options = self.options(f"t{next(self._numbers)}")
        create(options, "log", size, size)
        self._streams.append(connect(options))
        return self._streams[-1]

    def emptied_streams(self) -> "EmptiedStreams":
        """Two streams that are empty and begin at 1, as new ones do, without the time that it takes to make them."""
        if self._shared is None:
            self._shared = self.new_streams()
        return EmptiedStreams(self._shared)

    def start(self, *names: str) -> None:
        """Start these servers, or all."""
        for name in names or NAMES:
            config = self._write_config(name)
            self._processes[name] = subprocess.Popen(
                [SERVER, "-c", config, "-l", self._directory / f"{name}.log"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )

    def reload(self, more: str) -> None:
        """Change the configuration of all servers while they run."""
        self._more = more
        for name, process in self._processes.items():
            self._write_config(name)
            process.send_signal(signal.SIGHUP)

    def resize(self, stream: JetStreamStream, size: int) -> None:
        """Give a stream another bound."""
        self.change(stream, max_bytes=size)

    def change(self, stream: JetStreamStream, **configuration: object) -> None:
        """Edit a stream as an operator can."""
        config = stream.info()["config"] | configuration
        link = Link(self.options())
        try:
            answer = link.request(f"$JS.API.STREAM.UPDATE.{stream.name}", msgspec.json.encode(config))
        finally:
            link.close()
        assert "error" not in msgspec.json.decode(answer), answer

    def kill(self, name: str) -> None:
        self._processes[name].kill()
        self._processes[name].wait()

    def pause(self, name: str) -> None:
        self._processes[name].send_signal(signal.SIGSTOP)

    def go_on(self, name: str) -> None:
        self._processes[name].send_signal(signal.SIGCONT)

    def store(self, name: str) -> Path:
        """The directory of a server's messages."""
        return self._directory / name

    def stop(self) -> None:
        for streams in self._streams:
            streams.close()
        for process in self._processes.values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGCONT)
            process.kill()
            process.wait()

    def wait_ready(self) -> None:
        """Wait until a leader of the cluster is elected."""
        deadline, pause = time.monotonic() + READY_S, threading.Event()
        link = Link(self.options())
        try:
            while time.monotonic() < deadline:
                with contextlib.suppress(Exception):
                    answer = msgspec.json.decode(link.request("$JS.API.INFO", b""))
                    if "error" not in answer:
                        return
                pause.wait(LOOK_S)
        finally:
            link.close()
        raise TimeoutError("the NATS servers are not ready")

    def _write_config(self, name: str) -> Path:
        config = self._directory / f"{name}.conf"
        config.write_text(self._config(name))
        return config

    def _config(self, name: str) -> str:
        routes = ", ".join(f'"nats://127.0.0.1:{port}"' for port in self._routes.values())
        return f"""
            server_name: {name}
            listen: "127.0.0.1:{self.ports[name]}"
            http: "{self.monitors[name].removeprefix("http://")}"
            max_payload: 8MB
            jetstream {{ store_dir: "{self.store(name)}", sync_interval: {self._sync}, max_file_store: 16GB }}
            cluster {{ name: test, listen: "127.0.0.1:{self._routes[name]}", routes: [{routes}] }}
            {self._more}
        """


class EmptiedStream:
    """A stream that was used before: purged, and its sequences counted from there."""

    def __init__(self, stream: JetStreamStream) -> None:
        self._stream = stream
        self._base = stream.state().last
        stream.purge(self._base + 1)
        self.name, self.max_body = stream.name, stream.max_body

    def publish(self, body: bytes, expected: int) -> int:
        return self._stream.publish(body, expected + self._base) - self._base

    def read(self, after: int, limit_bytes: int, leader: bool = False) -> list[StreamMessage]:
        found = self._stream.read(after + self._base, limit_bytes, leader)
        return [message._replace(sequence=message.sequence - self._base) for message in found]

    def state(self) -> StreamState:
        state = self._stream.state()
        return state._replace(first=state.first - self._base, last=state.last - self._base)

    def purge(self, below: int) -> None:
        self._stream.purge(below + self._base)


class EmptiedStreams:
    """Both streams of a store."""

    def __init__(self, streams: JetStreamStreams) -> None:
        self.log = EmptiedStream(streams.log)
        self.lanes = EmptiedStream(streams.lanes)

    def close(self) -> None:
        """Other tests use the connection."""


@contextlib.contextmanager
def running(directory: Path, more: str = "", **access: object) -> Iterator[NatsCluster]:
    """A cluster that is ready, and ends with the context."""
    cluster = NatsCluster(directory, more=more, **access)
    try:
        cluster.start()
        cluster.wait_ready()
        yield cluster
    finally:
        cluster.stop()


@contextlib.contextmanager
def single(directory: Path, config: str) -> Iterator[tuple[int, str]]:
    """One server that is part of no cluster: its port and its monitor."""
    port, monitor = free_ports(2)
    file = directory / "single.conf"
    file.write_text(f'server_name: single\nlisten: "127.0.0.1:{port}"\nhttp: "127.0.0.1:{monitor}"\n{config}')
    process = subprocess.Popen([SERVER, "-c", file, "-l", directory / "single.log"], start_new_session=True)
    try:
        for _ in range(int(READY_S / LOOK_S)):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                break
            threading.Event().wait(LOOK_S)
        yield port, f"http://127.0.0.1:{monitor}"
    finally:
        process.kill()
        process.wait()
