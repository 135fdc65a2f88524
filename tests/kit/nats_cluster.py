"""Three real NATS servers on loopback, clustered, which sync each message."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from recapito.stores.jetstream.link import JetStreamOptions

SERVER = Path(sys.executable).with_name("nats-server")
READY_S = 20.0
NAMES = ("a", "b", "c")


class NatsCluster:
    """The servers a, b and c with their directories; each can be killed, paused, wiped and started again."""

    def __init__(self, directory: Path, sync: str = "always") -> None:
        self._directory = directory
        self._sync = sync
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        ports = _free_ports(3 * len(NAMES))
        self.ports = dict(zip(NAMES, ports[:3], strict=True))
        self._routes = dict(zip(NAMES, ports[3:6], strict=True))
        self.monitors = {name: f"http://127.0.0.1:{port}" for name, port in zip(NAMES, ports[6:], strict=True)}

    def options(self, name: str = "recapito", **more: object) -> JetStreamOptions:
        """The options of a client of all servers."""
        urls = tuple(f"nats://127.0.0.1:{port}" for port in self.ports.values())
        return JetStreamOptions(urls, name, monitors=tuple(self.monitors.values()))._replace(**more)

    def start(self, *names: str) -> None:
        """Start these servers, or all."""
        for name in names or NAMES:
            config = self._directory / f"{name}.conf"
            config.write_text(self._config(name))
            self._processes[name] = subprocess.Popen(
                [SERVER, "-c", config, "-l", self._directory / f"{name}.log"], start_new_session=True
            )

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
        for process in self._processes.values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGCONT)
            process.kill()
            process.wait()

    def wait_ready(self) -> None:
        """Wait until a leader of the cluster is elected."""
        import msgspec

        from recapito.stores.jetstream.link import Link

        deadline = time.monotonic() + READY_S
        link = Link(self.options())
        try:
            while time.monotonic() < deadline:
                with contextlib.suppress(Exception):
                    answer = msgspec.json.decode(link.request("$JS.API.INFO", b""))
                    if "error" not in answer:
                        return
                time.sleep(0.05)
        finally:
            link.close()
        raise TimeoutError("the NATS servers are not ready")

    def _config(self, name: str) -> str:
        routes = ", ".join(f'"nats://127.0.0.1:{port}"' for port in self._routes.values())
        return f"""
            server_name: {name}
            listen: "127.0.0.1:{self.ports[name]}"
            http: "{self.monitors[name].removeprefix("http://")}"
            max_payload: 8MB
            jetstream {{ store_dir: "{self.store(name)}", sync_interval: {self._sync}, max_file_store: 4GB }}
            cluster {{ name: test, listen: "127.0.0.1:{self._routes[name]}", routes: [{routes}] }}
        """


@contextlib.contextmanager
def running(directory: Path) -> Iterator[NatsCluster]:
    """A cluster that is ready, and ends with the context."""
    cluster = NatsCluster(directory)
    try:
        cluster.start()
        cluster.wait_ready()
        yield cluster
    finally:
        cluster.stop()


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()
