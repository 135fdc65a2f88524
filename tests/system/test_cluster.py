"""A cluster of real nodes: any node answers, and whatever happens to nodes and servers, nothing is lost."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from azure.core.credentials import AzureKeyCredential
from azure.eventgrid import EventGridEvent, EventGridPublisherClient

from recapito.composition import cluster_backup, cluster_setup
from recapito.composition.data_directory import DataDirectory
from recapito.domain import limits
from recapito.errors import SettingsError
from recapito.identity.cluster_secret import ClusterSecret
from recapito.stores.sqlite.files.connection import LOG, open_reader
from tests.kit.nats_cluster import running
from tests.system.machine import GROUP, VERSION, Receiver, receiver, server, until
from tests.system.nodes import SIZES, Nodes, publishing

KEYS = ("MDEyMzQ1Njc4OWFiY2RlZg==", "QUJDREVGR0hJSktMTU5PUA==")
pytestmark = pytest.mark.xdist_group("nats")


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    """Two nodes; a test may kill and pause what it likes."""
    directory = tmp_path_factory.mktemp("cluster")
    (directory / "key").write_text(KEYS[0])
    estate = directory / "estate.yaml"
    estate.write_text("topics:\n  - demo\n  - name: orders\n    keys: {key1: {file: key}}\n")
    nats_directory, flags = tmp_path_factory.mktemp("nats"), ("--config", str(estate))
    with running(nats_directory) as nats, closing(Nodes(directory, nats, "recapito", *flags)) as it:
        it.make()
        yield it


@pytest.fixture
def hook(nodes: Nodes) -> Iterator[Receiver]:
    """A webhook that all events of the first topic go to; the cluster is whole before."""
    _, standby = nodes.heal()
    with receiver() as it:
        nodes.servers[standby].subscribe("hook", it.url, destination={"maxEventsPerBatch": 10})
        yield it


def test_any_node_answers(nodes: Nodes, hook: Receiver) -> None:
    """Azure's own client publishes at the standby, the owner delivers, and the standby explains it."""
    owner, standby = nodes.heal()
    url = nodes.servers[standby].url
    endpoint = f"{url}/topics/demo/api/events"
    with EventGridPublisherClient(
        endpoint, AzureKeyCredential(nodes.servers[owner].key), connection_verify=False
    ) as client:
        client.send([EventGridEvent(id="sdk-1", subject="s", event_type="t", data={}, data_version="1")])
    hook.wait_for({"sdk-1"})
    assert until(lambda: b"Delivered" in nodes.servers[standby].request("GET", "/deliveries/explain?event=sdk-1")[1])


def test_a_killed_owner_loses_nothing(nodes: Nodes, hook: Receiver) -> None:
    """Under load the owner is killed; the other node owns, and every acknowledged event arrives."""
    owner, standby = nodes.heal()
    with publishing(nodes, "killed") as publisher:
        publisher.after(50)
        nodes.kill(owner)
        nodes.await_owner(standby)
        publisher.after(50)
        hook.wait_for(set(publisher.stop()), 60)


def test_a_paused_owner_is_fenced(nodes: Nodes, hook: Receiver) -> None:
    """An owner that was paused finds another owner, stands by, and has sent at most a window again."""
    owner, standby = nodes.heal()
    with publishing(nodes, "paused", standby) as publisher:
        publisher.after(50)
        nodes.pause(owner)
        nodes.await_owner(standby)
        publisher.after(20)
        nodes.go_on(owner)
        assert until(lambda: nodes.ready(owner).get("state") == "standby", 60)
        publisher.after(20)
        acknowledged = set(publisher.stop())
        hook.wait_for(acknowledged, 60)
    repeated = sum(count - 1 for id, count in Counter(hook.ids).items() if id.startswith("paused"))
    assert repeated <= limits.WINDOW_REQUESTS * 10


def test_all_servers_go_and_come_back(nodes: Nodes, hook: Receiver) -> None:
    """Without NATS publishers get 503; when it is back, publishing goes on and nothing acknowledged is missing."""
    owner, _ = nodes.heal()
    with publishing(nodes, "servers") as publisher:
        publisher.after(30)
        for name in nodes.nats.ports:
            nodes.nats.kill(name)
        assert until(lambda: nodes.servers[owner].publish("refused") == 503, 20)
        nodes.nats.start()
        publisher.after(30)
        hook.wait_for(set(publisher.stop()), 60)


def test_a_drained_node_hands_over(nodes: Nodes, hook: Receiver) -> None:
    """Drain moves the ownership under load, quickly, and the drained node forwards; undone, it may own again.

    The new owner explains what the drained node delivered.
    """
    owner, standby = nodes.heal()
    with publishing(nodes, "drained") as publisher:
        publisher.after(30)
        assert asyncio.run(cluster_setup.drain(nodes.settings(owner), owner, undo=False, wait_s=30))
        nodes.await_owner(standby)
        publisher.after(30)
        hook.wait_for(set(publisher.stop()), 60)
    assert nodes.ready(owner)["state"] == "drained"
    status, told = nodes.servers[standby].request("GET", "/deliveries/explain?event=drained-0")
    assert (status, b'"then":"deliver' in told, b"does not answer" in told) == (200, True, False), told.decode()
    assert asyncio.run(cluster_setup.drain(nodes.settings(owner), owner, undo=True, wait_s=30))


def test_a_node_that_hangs_up_reads_its_estate_file(nodes: Nodes) -> None:
    """SIGHUP makes the owner apply its estate file, with the secrets in it, again; a standby just goes on."""
    owner, standby = nodes.heal()
    (nodes.directory / "key").write_text(KEYS[1])
    nodes.servers[standby].hang_up()
    nodes.servers[owner].hang_up()
    keys = f"{GROUP}/topics/orders/listKeys?{VERSION}"
    assert until(lambda: nodes.servers[standby].call("POST", keys)["key1"] == KEYS[1])
    assert nodes.ready(standby)["state"] == "standby"


def test_a_running_cluster_is_backed_up_and_restored(nodes: Nodes, tmp_path: Path) -> None:
    """Under load a copy is taken, which becomes a new cluster with equal digests; its streams are no longer the old."""
    owner, standby = nodes.heal()
    with publishing(nodes, "backed-up") as publisher:
        publisher.after(30)
        acknowledged, target = set(publisher.acknowledged), tmp_path / "backup"
        copied = asyncio.run(cluster_backup.back_up(nodes.settings(standby), target, print))
        assert {path.name for path in target.iterdir()} == {"log.db", "dispatch.db", "keys.sealed", "backup.json"}
        assert all(path.stat().st_mode & 0o077 == 0 for path in target.iterdir())
        publisher.after(10)
    there = Nodes(tmp_path, nodes.nats, "restored")
    secret = cluster_setup.read_secret(nodes.settings(owner))
    restored = asyncio.run(cluster_backup.restore(there.settings("one"), target, secret, SIZES, print))
    assert restored.equal and restored.before == copied
    with pytest.raises(SettingsError, match=f"not the secret of the cluster 'recapito', of which {target} is a backup"):
        asyncio.run(cluster_backup.restore(there.settings("two"), target, ClusterSecret.new(), SIZES, print))
    with pytest.raises(SettingsError, match="not empty"):
        asyncio.run(cluster_backup.restore(there.settings("one"), target, secret, SIZES, print))
    DataDirectory(tmp_path / "embedded").restore(target)
    with closing(open_reader(tmp_path / "embedded" / LOG.file, LOG)) as connection:
        stored = b"".join(body for (body,) in connection.execute("SELECT body FROM entry WHERE body IS NOT NULL"))
    assert all(f'"{id}"'.encode() in stored for id in acknowledged)


def test_a_store_moves_in_and_out(nodes: Nodes, tmp_path: Path) -> None:
    """An embedded store moves into a cluster and out again: the digests are equal, and the event is delivered there."""
    source, target = tmp_path / "data", tmp_path / "back"
    with receiver() as refusing, server(source) as embedded:
        refusing.answer = lambda events: 503
        embedded.subscribe("hook", refusing.url)
        assert embedded.publish("moved-1", "moved-2") == 200
        assert until(lambda: embedded.counts("hook").get("parked") == 2)
    there = Nodes(tmp_path, nodes.nats, "moved")
    said: list[str] = []
    moved = asyncio.run(cluster_setup.move_in(there.settings("one"), source, SIZES, said.append))
    assert moved.equal
    assert moved.before["dispatch.db"].rows > 2
    back = asyncio.run(cluster_setup.move_out(there.settings("one"), target, said.append))
    assert back.equal
    with server(target) as again:
        assert again.counts("hook")["parked"] == 2
        assert again.publish("after") == 200
