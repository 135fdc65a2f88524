"""Making and joining a cluster on real NATS servers: once, whole or not at all, and only with its secret."""

import asyncio
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from recapito.composition import cluster_setup
from recapito.composition.cluster import jetstream_options
from recapito.composition.cluster_setup import StreamSizes
from recapito.composition.replicas import make_inspection
from recapito.domain import limits
from recapito.errors import ClusterUnreachable, SettingsError
from recapito.identity.cluster_secret import ClusterSecret
from recapito.settings import settings as settings_module
from recapito.settings.settings import Settings
from recapito.stores.jetstream.streams import create

if TYPE_CHECKING:
    from tests.kit.nats_cluster import NatsCluster

pytestmark = pytest.mark.xdist_group("nats")
SMALL = StreamSizes(64 * limits.MB, 64 * limits.MB, 3)
_NAMES = count(1)


class Place:
    """A free name for a cluster, and the settings of its nodes."""

    def __init__(self, nats: "NatsCluster", root: Path) -> None:
        self._root = root
        self.name = f"setup{next(_NAMES)}"
        self._environment = {
            "RECAPITO_CLUSTER_NAME": self.name,
            "RECAPITO_CLUSTER_MONITORS": ",".join(nats.monitors.values()),
            "RECAPITO_SERVER_STORE": "nats://" + ",".join(f"127.0.0.1:{port}" for port in nats.ports.values()),
        }

    def node(self, name: str, **more: str) -> Settings:
        flags = {"server.data": str(self._root / name), "cluster.node": name}
        return settings_module.load(environment={**self._environment, **more}, flags=flags)


@pytest.fixture
def place(nats: "NatsCluster", tmp_path: Path) -> Place:
    return Place(nats, tmp_path)


def test_a_cluster_is_made_once_and_joined(place: Place) -> None:
    """The first node makes it, a further one joins with its secret and has the same keys; status shows it whole."""
    first, second = place.node("one"), place.node("two")
    asyncio.run(cluster_setup.init(first, SMALL))
    secret = cluster_setup.read_secret(first)
    asyncio.run(cluster_setup.join(second, secret))
    for name in ("connection.key", "identity/signing-key.pem", "identity/scrape-token", "cluster.secret"):
        assert (first.data / name).read_bytes() == (second.data / name).read_bytes()
        assert (second.data / name).stat().st_mode & 0o077 == 0
    with pytest.raises(SettingsError, match="belongs to a cluster already"):
        asyncio.run(cluster_setup.init(first, SMALL))
    with pytest.raises(SettingsError, match=f"There is a cluster named '{place.name}' already"):
        asyncio.run(cluster_setup.init(place.node("three"), SMALL))
    shown = asyncio.run(cluster_setup.status(first)).show()
    assert [stream["fillPercent"] for stream in shown["streams"]] == [0, 0]  # type: ignore[attr-defined]
    assert all(server["syncsEachCommit"] for server in shown["servers"])  # type: ignore[attr-defined]
    assert shown["owner"] == ""


def test_only_the_secret_opens_the_door(place: Place) -> None:
    """Another secret, a directory with other keys, and a cluster that does not exist are refused, with the reason."""
    first = place.node("one")
    with pytest.raises(SettingsError, match=f"no cluster named '{place.name}'|stream not found"):
        asyncio.run(cluster_setup.join(place.node("two"), ClusterSecret.new()))
    asyncio.run(cluster_setup.init(first, SMALL))
    with pytest.raises(SettingsError, match="not the secret of the cluster"):
        asyncio.run(cluster_setup.join(place.node("two"), ClusterSecret.new()))
    other = place.node("other")
    cluster_setup.make_papers(other)
    with pytest.raises(SettingsError, match="is the key of another server"):
        asyncio.run(cluster_setup.join(other, cluster_setup.read_secret(first)))
    assert not (other.data / "cluster.secret").exists()


def test_an_init_that_fails_leaves_nothing(place: Place) -> None:
    """The second stream does not fit: the first one is taken back, and with the right size the same command works."""
    first = place.node("one")
    with pytest.raises(SettingsError, match="LANES"):
        asyncio.run(cluster_setup.init(first, SMALL._replace(lanes_bytes=1 << 50)))
    assert [path.name for path in first.data.glob("cluster*")] == []
    assert [path.name for path in first.data.glob("*.stream.json")] == []
    asyncio.run(cluster_setup.init(first, SMALL))


def test_an_init_that_was_killed_is_taken_back(place: Place) -> None:
    """An attempt that left its streams and its note is taken back by the next one; streams of others are refused."""
    first = place.node("one")
    first.data.mkdir()
    create(jetstream_options(first), "attempt", SMALL.log_bytes, SMALL.lanes_bytes)
    with pytest.raises(SettingsError, match="exists already"):
        asyncio.run(cluster_setup.init(first, SMALL))
    (first.data / "cluster.attempt").write_text("attempt")
    asyncio.run(cluster_setup.init(first, SMALL))
    assert cluster_setup.read_secret(first)


def test_servers_that_are_not_there_are_named(place: Place) -> None:
    """Servers that cannot be reached are named, and starting again may help."""
    nowhere = place.node("one", RECAPITO_SERVER_STORE="nats://127.0.0.1:1")
    with pytest.raises(ClusterUnreachable, match=r"127\.0\.0\.1:1"):
        asyncio.run(cluster_setup.init(nowhere, SMALL))


def test_an_inspection_finds_silent_monitors(place: Place) -> None:
    """Whole copies have no problem; a monitor that does not answer is named."""
    first = place.node("one")
    asyncio.run(cluster_setup.init(first, SMALL))

    async def twice(settings: Settings) -> dict[str, str]:
        inspect = make_inspection(settings)
        await inspect()
        return dict((await inspect()).problems)

    assert asyncio.run(twice(first)) == {}
    silent = place.node("one", RECAPITO_CLUSTER_MONITORS="http://127.0.0.1:1")
    assert "http://127.0.0.1:1" in asyncio.run(twice(silent))["monitors"]
