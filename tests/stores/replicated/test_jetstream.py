"""The checks before a store relies on NATS, and its connection, on real servers."""

from pathlib import Path
from typing import Any

import pytest

from recapito.contracts.stream import StreamUnknown
from recapito.errors import SettingsError
from recapito.stores.jetstream import checks
from recapito.stores.jetstream.client import JetStreamOptions
from recapito.stores.jetstream.link import start_loop
from recapito.stores.jetstream.streams import connect, create
from tests.kit.nats_cluster import NatsCluster

MB = 1 << 20
SOUND: dict[str, Any] = {
    "config": {
        "name": "LOG",
        "num_replicas": 3,
        "storage": "file",
        "retention": "limits",
        "discard": "new",
        "max_age": 0,
        "max_bytes": MB,
        "allow_direct": True,
    },
    "cluster": {"leader": "a", "replicas": [{"name": "b", "current": True}, {"name": "c", "current": True}]},
}


def test_a_sound_stream_has_no_fault() -> None:
    """As `create` makes it."""
    assert not list(checks.stream_faults(SOUND))
    assert not list(checks.replica_faults(SOUND))


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"num_replicas": 1}, "has 1 replica: edit it to have 3"),
        ({"storage": "memory"}, "has storage memory: edit it to have file"),
        ({"retention": "workqueue"}, "has retention workqueue"),
        ({"discard": "old"}, "has discard old: edit it to have new"),
        ({"max_age": 5}, "has max_age 5: edit it to have 0"),
        ({"max_msgs": 5}, "has max_msgs 5"),
        ({"max_bytes": -1}, "has no max_bytes"),
        ({"mirror": {"name": "X"}}, "has mirror"),
        ({"allow_direct": False}, "has allow_direct False"),
        ({"deny_purge": True}, "has deny_purge True"),
        ({"sealed": True}, "is sealed, which cannot be undone: restore a backup"),
    ],
)
def test_a_wrong_stream_is_refused_by_name(change: dict[str, Any], fault: str) -> None:
    """Each fault names the stream and the remedy."""
    (found,) = checks.stream_faults(SOUND | {"config": SOUND["config"] | change})
    assert found.startswith("stream LOG ") and fault in found


@pytest.mark.parametrize(
    ("varz", "jsz", "fault"),
    [
        ({"version": "2.11.9"}, {}, "a is nats-server 2.11.9: install 2.12 or newer"),
        ({}, {"config": {"sync_always": False}}, "a does not sync each message"),
        ({}, {"disabled": True, "config": None}, "a has no JetStream"),
        ({"cluster": {}}, {}, "a is not part of a cluster"),
    ],
)
def test_a_wrong_server_is_refused_by_name(varz: dict[str, Any], jsz: dict[str, Any], fault: str) -> None:
    """Each fault names the server and the remedy."""
    sound = {"server_name": "a", "version": "2.12.0", "cluster": {"name": "test"}}, {"config": {"sync_always": True}}
    assert not list(checks.server_faults("http://m", *sound))
    (found,) = checks.server_faults("http://m", sound[0] | varz, sound[1] | jsz)
    assert found.startswith(fault)


def test_a_replica_that_is_behind() -> None:
    """It is named; the stream is served by the others."""
    behind = {"leader": "a", "replicas": [{"name": "b", "current": False}]}
    assert list(checks.replica_faults(SOUND | {"cluster": behind})) == ["b is behind on stream LOG"]


def test_a_small_payload() -> None:
    """A server whose messages are too small for our commits is refused by name."""
    assert not list(checks.payload_faults("a", MB))
    assert "a has max_payload 1000" in next(checks.payload_faults("a", 1000))


@pytest.mark.xdist_group("nats")
def test_streams_are_created_once(nats: NatsCluster) -> None:
    """A second creation is refused, and so is a connection before the first; the log's id is kept with them."""
    options = nats.options("once")
    with pytest.raises(SettingsError, match=r"no stream once_LOG_0 .* `recapito cluster init`"):
        connect(options)
    create(options, "id", MB, MB)
    with pytest.raises(SettingsError, match="Stream once_LOG_0 exists already"):
        create(options, "id", MB, MB)
    streams = connect(options)
    assert streams.log.state().log_id == streams.lanes.state().log_id == "id"
    streams.close()
    streams.close()
    with pytest.raises(StreamUnknown):
        streams.log.state()


@pytest.mark.xdist_group("nats")
def test_servers_that_nothing_vouches_for(nats: NatsCluster) -> None:
    """Without monitors, those at NATS's usual port are asked; one that does not answer is named, with the remedy."""
    nats.emptied_streams()
    usual = r"http://127\.0\.0\.1:8222 does not answer .*: start that server, .* or correct cluster\.monitors"
    with pytest.raises(SettingsError, match=usual):
        connect(nats.options("t1", monitors=()))
    connect(nats.options("t1", monitors=(), unchecked=True)).close()
    with pytest.raises(SettingsError, match=r"The monitor http://127\.0\.0\.1:1 does not answer"):
        connect(nats.options("t1", monitors=("http://127.0.0.1:1",)))


def test_monitors_that_are_not_named() -> None:
    """Each server has its own at NATS's usual port; an operator who wants no check gets none."""
    options = JetStreamOptions(("tls://a:4222", "nats://[::1]", "nats://b", "nats://b:4333"))
    assert options.monitored == ("http://a:8222", "http://[::1]:8222", "http://b:8222")
    assert options._replace(monitors=("http://m",)).monitored == ("http://m",)
    assert options._replace(unchecked=True).monitored == ()
    (fault,) = checks.monitor_faults(["http://m"], 3)
    assert fault == "3 servers are to keep the streams, and cluster.monitors has http://m: name the monitor of each"
    assert not list(checks.monitor_faults(["http://a", "http://b", "http://c"], 3))


@pytest.mark.xdist_group("nats")
def test_a_file_that_is_missing_is_refused(nats: NatsCluster, tmp_path: Path) -> None:
    """The certificate authority of [cluster] must exist."""
    with pytest.raises(SettingsError, match=r"none\.pem cannot be used for TLS"):
        connect(nats.options("t1", ca=tmp_path / "none.pem"))


def test_the_loop_of_a_connection_runs_before_it_is_used() -> None:
    """A node on a busy machine ended with "the connection is closed" because its loop had not begun to run yet."""
    for _ in range(50):
        loop, thread = start_loop("test")
        assert loop.is_running()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
