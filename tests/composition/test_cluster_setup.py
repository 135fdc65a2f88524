"""Making and joining a cluster on real NATS servers: once, whole or not at all, and only with its secret."""

import asyncio
from collections.abc import Iterator
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from recapito.clock import SystemClock
from recapito.composition import cluster_backup, cluster_setup
from recapito.composition.cluster import backend_on, jetstream_options, open_peers
from recapito.composition.cluster_setup import StreamSizes
from recapito.composition.data_directory import DataDirectory
from recapito.composition.replicas import make_inspection
from recapito.domain import limits
from recapito.errors import ClusterUnreachable, SettingsError
from recapito.identity.cluster_secret import ClusterSecret
from recapito.settings import settings as settings_module
from recapito.settings.settings import Settings
from recapito.stores.jetstream.streams import create
from recapito.stores.replicated.database import ReplicatedDatabase
from recapito.stores.sqlite.files.connection import DISPATCH, LOG
from tests.cli.terminal import recapito
from tests.kit.nats_cluster import single
from tests.kit.replicated import COPY
from tests.stores.values import new_subscription, new_topic, segment

if TYPE_CHECKING:
    from azure.storage.blob import ContainerClient

    from tests.azurite.server import Azurite
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


@pytest.fixture
def elsewhere(nats: "NatsCluster", tmp_path: Path) -> Place:
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


def test_a_node_of_another_cluster_with_this_name_is_refused(place: Place) -> None:
    """Its keys do not fit those of the others: the file of its secret is named, with the remedy."""
    first, other = place.node("one"), ClusterSecret.new()
    asyncio.run(cluster_setup.init(first, SMALL))

    async def check(secret: ClusterSecret) -> None:
        async with open_peers(first) as peers:
            await cluster_setup.check_secret(first, secret, peers)

    asyncio.run(check(cluster_setup.read_secret(first)))
    with pytest.raises(SettingsError, match=f"cluster.secret is not the secret of the cluster '{place.name}'"):
        asyncio.run(check(other))


def test_a_server_of_its_own_is_no_cluster(place: Place, tmp_path: Path) -> None:
    """One that does not sync, and has no other servers, is named with all its faults, and nothing is made there."""
    with single(tmp_path, f'jetstream {{ store_dir: "{tmp_path}/js" }}') as (port, monitor):
        store = f"nats://127.0.0.1:{port}"
        first = place.node("one", RECAPITO_SERVER_STORE=store, RECAPITO_CLUSTER_MONITORS=monitor)
        with pytest.raises(SettingsError) as refusal:
            asyncio.run(cluster_setup.init(first, SMALL))
    said = str(refusal.value)
    assert "Single does not sync each message" in said and "Single is not part of a cluster" in said
    assert f"3 servers are to keep the streams, and cluster.monitors has {monitor}" in said


def test_a_directory_that_has_not_joined_stays_empty(place: Place) -> None:
    """A node that is started too early is told to join, and its directory may still join."""
    early = place.node("early")
    told = recapito("serve", "--store", early.server.store, "--data", str(early.data), "--port", "0", "--no-portal")
    assert told.code == 78 and "this node has not joined a cluster" in told.err
    assert not early.data.exists()


def test_an_init_that_fails_leaves_nothing(place: Place) -> None:
    """The second stream does not fit: the first one is taken back, and with the right size the same command works."""
    first = place.node("one")
    with pytest.raises(SettingsError, match=r"LANES.* more room on each server, by max_file_store"):
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
    whole = ",".join(first.cluster.monitors)
    silent = place.node("one", RECAPITO_CLUSTER_MONITORS=whole.replace(first.cluster.monitors[0], "http://127.0.0.1:1"))
    assert "http://127.0.0.1:1" in asyncio.run(twice(silent))["monitors"]
    one = place.node("one", RECAPITO_CLUSTER_MONITORS=first.cluster.monitors[0])
    said = asyncio.run(twice(one))["monitors"]
    assert "Nothing shows whether b, c sync each commit" in said


async def fill(settings: Settings) -> None:
    """Own each partition for a moment, and store a topic with a subscription, an event and a lane in it."""
    async with cluster_setup.open_partitions(settings) as every:
        for partition, streams in every.items():
            backend = backend_on(settings, streams, partition=partition)
            await backend.claim()
            async with backend.open_both(SystemClock()) as stores:
                topic = await stores.registry.put_topic(new_topic(f"orders-{partition.number}"))
                subscription = await stores.registry.put_subscription(new_subscription(topic.id))
                await stores.log.append([segment(topic.id)])
                await stores.ledger.open_lane(subscription.id, topic.id, stores.log.id, 1)


def test_partitions_are_backed_up_and_restored(place: Place, elsewhere: Place, tmp_path: Path) -> None:
    """Each partition has a directory of its own in the copy; the new cluster has as many, all of them or none."""
    first, new, target = place.node("one"), elsewhere.node("new"), tmp_path / "backup"
    asyncio.run(cluster_setup.init(first, SMALL._replace(partitions=2)))
    asyncio.run(fill(first))
    secret = cluster_setup.read_secret(first)
    copied = asyncio.run(cluster_backup.back_up(first, target, print))
    files = ["partition-0/log.db", "partition-0/dispatch.db", "partition-1/log.db", "partition-1/dispatch.db"]
    assert list(copied) == files
    assert {path.name for path in target.iterdir()} == {"partition-0", "partition-1", "keys.sealed", "backup.json"}

    def refused(why: str) -> None:
        with pytest.raises(SettingsError, match=why):
            asyncio.run(cluster_backup.restore(new, target, secret, SMALL, print))
        assert not new.data.exists()

    (target / "partition-1").rename(target / "aside")
    refused(r"no complete backup of the 2 partitions .* partition-1/log\.db is missing")
    (target / "partition-0").rename(target / "partition-1")
    (target / "aside").rename(target / "partition-0")
    refused("was changed after the backup")
    (target / "partition-0").rename(target / "aside")
    (target / "partition-1").rename(target / "partition-0")
    (target / "aside").rename(target / "partition-1")
    restored = asyncio.run(cluster_backup.restore(new, target, secret, SMALL, print))
    assert restored.equal and restored.before == copied
    asyncio.run(fill_again(new))
    with pytest.raises(SettingsError, match="2 partitions, and only a store of one partition moves out"):
        asyncio.run(cluster_setup.move_out(new, tmp_path / "out", print))
    DataDirectory(tmp_path / "embedded").restore(target / "partition-1")


class CutOff(Exception):
    """The end of a backup in the middle of it."""


@pytest.fixture
def container(azurite: "Azurite", place: Place) -> "Iterator[ContainerClient]":
    with azurite.blobs() as client:
        yield client.create_container(f"backups-of-{place.name}")


def test_partitions_go_to_a_container_and_back(
    place: Place, elsewhere: Place, container: "ContainerClient", tmp_path: Path
) -> None:
    """The list goes last, so an upload that is cut off is no backup; a list with another digest is refused."""
    first, new, url = place.node("one"), elsewhere.node("new"), container.url
    said: list[str] = []
    asyncio.run(cluster_setup.init(first, SMALL._replace(partitions=2)))
    asyncio.run(fill(first))
    secret = cluster_setup.read_secret(first)

    def refused(folder: str, why: str, known: ClusterSecret = secret) -> None:
        with pytest.raises(SettingsError, match=why):
            asyncio.run(cluster_backup.restore_from_container(new, f"{url}/{folder}", known, SMALL, print))
        assert not new.data.exists()

    def cut(line: str) -> None:
        if line.startswith("sending partition-1/dispatch.db"):
            raise CutOff

    with pytest.raises(CutOff):
        asyncio.run(cluster_backup.back_up_to_container(first, f"{url}/cut", cut))
    assert [blob.name for blob in container.list_blobs()] == [
        "cut/partition-0/dispatch.db",
        "cut/partition-0/log.db",
        "cut/partition-1/log.db",
    ]
    refused("cut", r"/cut is no complete backup: backup\.json is missing")
    with pytest.raises(SettingsError, match="/cut is not empty"):
        asyncio.run(cluster_backup.back_up_to_container(first, f"{url}/cut", print))

    copied = asyncio.run(cluster_backup.back_up_to_container(first, f"{url}/whole", said.append))
    sent = [line.split()[1].rstrip(":") for line in said if line.startswith("sending")]
    assert sent == [*copied, "keys.sealed", "backup.json"]
    listed = container.download_blob("whole/backup.json").readall()
    wrong = listed.replace(str(copied["partition-1/log.db"].sum).encode(), b"1")
    container.upload_blob("whole/backup.json", wrong, overwrite=True)
    refused("whole", r"/whole/partition-1/log\.db was changed after the backup was taken: its digest differs")
    container.upload_blob("whole/backup.json", listed, overwrite=True)
    refused("whole", "not the secret of the cluster .* of which http.*/whole is a backup", ClusterSecret.new())
    (tmp_path / "new.toml").write_text(f'[cluster]\nname = "{elsewhere.name}"\nnode = "new"\nunchecked = true\n')
    node = ("--settings", str(tmp_path / "new.toml"), "--store", new.server.store, "--data", str(new.data))
    sizes = ("--log-mb", "64", "--lanes-mb", "64", "--secret", str(first.cluster.secret_in(first.data)))
    restored = recapito("cluster", "restore", "-", *node, *sizes, stdin=f"{url}/whole\n".encode())
    assert restored.code == 0, restored.err
    assert f"Restored {url}/whole as the cluster" in restored.out
    again = recapito("cluster", "backup", f"{url}/again", *node)
    assert again.code == 0 and f"to {url}/again." in again.out, again.err
    assert all(f"digest {digest.sum:016x}" in again.out for digest in copied.values())


async def fill_again(settings: Settings) -> None:
    """The restored partitions can be owned, and give out ids of their own."""
    async with cluster_setup.open_partitions(settings) as every:
        assert [partition.of for partition in every] == [2, 2]
        for partition, streams in every.items():
            backend = backend_on(settings, streams, partition=partition)
            await backend.claim()
            async with backend.open_both(SystemClock()) as stores:
                assert (await stores.registry.put_topic(new_topic("more"))).id == partition.first_id + 2


def test_partitions_are_upgraded_in_turn(place: Place, tmp_path: Path) -> None:
    """A partition that an upgrade before has reached is passed over, and said so; the next one is brought up."""
    first = place.node("one")

    async def story() -> list[dict[str, tuple[int, int]]]:
        create(jetstream_options(first), "log", SMALL.log_bytes, SMALL.lanes_bytes, partitions=2)
        async with open_peers(first) as peers:
            await peers.create(SMALL.replicas)
        async with cluster_setup.open_partitions(first) as every:
            done, behind = every.items()
            await backend_on(first, done[1], partition=done[0]).found()
            for kind, version, stream in ((LOG, 2, behind[1].log), (DISPATCH, 7, behind[1].lanes)):
                path, old = tmp_path / kind.file, kind._replace(version=version)
                with closing(ReplicatedDatabase(path, old, stream, "old", COPY, founding=True)) as database:
                    await asyncio.to_thread(database.found)
        return [await cluster_backup.upgrade(first, said.append) for _ in range(2)]

    said: list[str] = []
    passed = {"partition-0/log.db": (3, 3), "partition-0/dispatch.db": (8, 8)}
    upgraded, again = asyncio.run(story())
    assert upgraded == passed | {"partition-1/log.db": (2, 3), "partition-1/dispatch.db": (7, 8)}
    assert again == passed | {"partition-1/log.db": (3, 3), "partition-1/dispatch.db": (8, 8)}
    assert said[:2] == ["upgrading the streams of partition 0", "upgrading the streams of partition 1"]
