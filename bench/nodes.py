"""The nodes of a cluster under test: three NATS servers, and nodes in directories of their own."""

import asyncio
import json
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bench.lab import Lab
from bench.server import Recapito
from recapito.composition import cluster_setup
from recapito.settings import settings as settings_module
from tests.kit.nats_cluster import NatsCluster, running

READY_S = 60.0
_GIB = 1 << 30


class Nodes:
    """The nodes of one cluster, each in a directory of its own."""

    def __init__(self, directory: Path, nats: NatsCluster, environment: Mapping[str, str], stream_bytes: int) -> None:
        self._directory = directory
        self._stream_bytes = stream_bytes
        self._store = "nats://" + ",".join(f"127.0.0.1:{port}" for port in nats.ports.values())
        self._environment = {"RECAPITO_CLUSTER_MONITORS": ",".join(nats.monitors.values()), **environment}

    def make(self, partitions: int, *names: str) -> None:
        """Make the cluster, and have each further node join."""
        first, *others = (self._settings(name) for name in names)
        sizes = cluster_setup.StreamSizes(self._stream_bytes, self._stream_bytes, 3, partitions)
        asyncio.run(cluster_setup.init(first, sizes))
        for other in others:
            asyncio.run(cluster_setup.join(other, cluster_setup.read_secret(first)))

    def start(self, name: str) -> Recapito:
        """Start a node, and wait until it is ready: it owns, or it knows the owners."""
        node = Recapito(self._directory / name, self._environment, ("--store", self._store, "--node", name))
        try:
            until(lambda: bool(checks(node.port)), f"node {name} is ready")
        except BaseException:
            node.stop()
            raise
        return node

    def _settings(self, name: str) -> settings_module.Settings:
        data = self._directory / name / "data"
        flags = {"server.store": self._store, "server.data": str(data), "cluster.node": name}
        return settings_module.load(environment=self._environment, flags=flags)


@contextmanager
def cluster(
    lab: Lab, partitions: int = 1, environment: Mapping[str, str] | None = None, stream_bytes: int = _GIB
) -> Iterator[Nodes]:
    """A cluster of nodes `one` and `two`, which are not started."""
    with ExitStack() as stack:
        servers, directory = stack.enter_context(lab.directory("nats")), stack.enter_context(lab.directory("nodes"))
        nodes = Nodes(directory, stack.enter_context(running(servers)), environment or {}, stream_bytes)
        nodes.make(partitions, "one", "two")
        yield nodes


def checks(port: int) -> dict[str, str]:
    """The checks of a node's readiness, none if it is not ready. Those of an owner have its dispatch."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=2) as answer:
            return dict(json.load(answer)["checks"])
    except (OSError, ValueError):
        return {}


def until(holds: Callable[[], bool], what: str, seconds: float = READY_S) -> None:
    """Wait for a condition."""
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            raise RuntimeError(f"after {seconds:.0f} s it is not so that {what}")
        time.sleep(0.05)
