"""Two real nodes on three real NATS servers: started, killed, paused and brought back; and a publisher that counts."""

import asyncio
import itertools
import json
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from recapito.composition import cluster_setup
from recapito.domain import limits
from recapito.settings import settings as settings_module
from recapito.settings.settings import Settings
from tests.kit.nats_cluster import NatsCluster
from tests.kit.ports import free_ports
from tests.system.machine import Server, events, until

NAMES = ("one", "two")
SIZES = cluster_setup.StreamSizes(256 * limits.MB, 256 * limits.MB, 3)
TAKEOVER_S = 60.0


class Nodes:
    """The nodes of one cluster, by name; each has a directory and a port that outlive its process."""

    def __init__(
        self, directory: Path, nats: NatsCluster, name: str = "recapito", *flags: str, public: str = ""
    ) -> None:
        """`flags` are those of each node's `recapito serve`; `public` is the node whose URL all have, over TLS."""
        self.nats = nats
        self._flags = flags
        self.directory = directory
        self.store = "nats://" + ",".join(f"127.0.0.1:{port}" for port in nats.ports.values())
        self._environment = {
            "RECAPITO_CLUSTER_NAME": name,
            "RECAPITO_CLUSTER_MONITORS": ",".join(nats.monitors.values()),
        }
        self._ports = dict.fromkeys(NAMES, 0)
        self._is_public = bool(public)
        if public:
            self._ports = dict(zip((*NAMES, "three"), free_ports(3), strict=True))
            url = f"https://localhost:{self._ports[public]}"
            self._environment |= {"RECAPITO_TLS_ENABLED": "true", "RECAPITO_SERVER_PUBLIC_URL": url}
        self._key = ""
        self.servers: dict[str, Server] = {}

    def settings(self, node: str) -> Settings:
        """The settings of a node, as its process has them."""
        flags = {"server.store": self.store, "server.data": str(self.directory / node), "cluster.node": node}
        return settings_module.load(environment=self._environment_of(node), flags=flags)

    def _environment_of(self, node: str) -> dict[str, str]:
        own = {"RECAPITO_CLUSTER_URL": f"https://localhost:{self._ports[node]}"} if self._is_public else {}
        return self._environment | own

    def make(self, partitions: int = 1, names: tuple[str, ...] = NAMES) -> None:
        """Make the cluster, and have each further node join."""
        first, *others = (self.settings(name) for name in names)
        asyncio.run(cluster_setup.init(first, SIZES._replace(partitions=partitions)))
        for other in others:
            secret = cluster_setup.read_secret(first)
            asyncio.run(cluster_setup.join(other, secret))

    def start(self, *names: str) -> None:
        """Start nodes that do not run, all at once."""
        threads = [threading.Thread(target=self._start, args=(name,)) for name in names or NAMES]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _start(self, name: str) -> None:
        if name not in self.servers:
            flags = ("--store", self.store, "--node", name, *self._flags)
            port = self._ports.get(name, 0)
            started = Server(self.directory / name, *flags, port=port, environment=self._environment_of(name))
            self._ports[name] = started.port
            self.servers[name] = started

    def kill(self, name: str) -> None:
        """End a node with all its processes at once."""
        server = self.servers.pop(name)
        self.signal_all(server, signal.SIGKILL)
        server.stop()

    def stop(self, name: str) -> None:
        """End a node as an operator does."""
        self.servers.pop(name).stop()

    def pause(self, name: str) -> None:
        self.signal_all(self.servers[name], signal.SIGSTOP)

    def go_on(self, name: str) -> None:
        self.signal_all(self.servers[name], signal.SIGCONT)

    @staticmethod
    def signal_all(server: Server, number: int) -> None:
        for pid in (server._process.pid, *server.roles().values()):
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def ready(self, name: str) -> dict[str, object]:
        """A node's own words about its readiness."""
        try:
            return dict(json.loads(self.servers[name].request("GET", "/readyz")[1]))
        except (OSError, ValueError):
            return {}

    def owns(self, name: str) -> bool:
        """Whether a node runs the roles of an owner, and they are ready, with its estate file applied."""
        checks = self.ready(name).get("checks")
        return isinstance(checks, dict) and checks.get("dispatch") == checks.get("estate", "ok") == "ok"

    def await_owner(self, *among: str) -> str:
        """The node that owns, once one of these does."""
        found: list[str] = []

        def look() -> bool:
            found[:] = [name for name in among or tuple(self.servers) if self.owns(name)]
            return bool(found)

        assert until(look, TAKEOVER_S), {name: self.ready(name) for name in self.servers}
        return found[0]

    def heal(self) -> tuple[str, str]:
        """Both nodes run, one owns and the other knows it: the owner and the standby."""
        self.start()
        owner = self.await_owner()
        (standby,) = (name for name in NAMES if name != owner)
        assert until(lambda: self.ready(standby).get("status") == "ready" and not self.owns(standby), TAKEOVER_S)
        return owner, standby

    def close(self) -> None:
        for name in tuple(self.servers):
            self.go_on(name)
            self.servers.pop(name).stop()


class Publisher:
    """Publishes one event after the other, at all nodes in turn, until it is stopped; counts what was acknowledged."""

    def __init__(self, nodes: Nodes, prefix: str, *names: str) -> None:
        self.acknowledged: set[str] = set()
        self._nodes = nodes
        self._prefix = prefix
        self._names = names or NAMES
        self._key = next(iter(nodes.servers.values())).key
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        for number in itertools.count():
            id = f"{self._prefix}-{number}"
            server = self._nodes.servers.get(self._names[number % len(self._names)])
            if server is not None:
                with suppress(OSError):
                    path = "/topics/demo/api/events"
                    if server.request("POST", path, events(id), aeg_sas_key=self._key)[0] == 200:
                        self.acknowledged.add(id)
            if self._ending.wait(0.01):
                return

    def after(self, count: int) -> None:
        """Wait until this many more are acknowledged."""
        wanted = len(self.acknowledged) + count
        assert until(lambda: len(self.acknowledged) >= wanted, TAKEOVER_S), "publishing stands still"

    def stop(self) -> set[str]:
        """End, and return all that was acknowledged."""
        self._ending.set()
        self._thread.join()
        return self.acknowledged


@contextmanager
def publishing(nodes: Nodes, prefix: str, *names: str) -> Iterator[Publisher]:
    """A publisher for the length of a block."""
    publisher = Publisher(nodes, prefix, *names)
    try:
        yield publisher
    finally:
        publisher.stop()
