"""Two real servers, one of which is the cloud: everything arrives through kills, a refused key holds, a loop ends."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.terminal import ok, recapito
from tests.kit.ports import free_port
from tests.system.machine import GROUP, VERSION, Server, receiver, server, until

CLOUD = "/subscriptions/cloud/resourceGroups/far/providers/Microsoft.EventGrid"


def forward(edge: Server, cloud: Server, topic: str = "demo", key: str | None = None, **properties: Any) -> None:
    """Forward the topic of one server to a topic of the other."""
    target = f"{CLOUD}/topics/{topic}"
    text = f"Endpoint={cloud.url}/topics/{topic}/api/events;SharedAccessKey={key or cloud.key}"
    edge.call("PUT", f"/connections{target}", {"connectionString": text})
    destination = {"endpointType": "eventGrid", "properties": {"resourceId": target}}
    body = {"properties": {"destination": destination, **properties}}
    edge.call("PUT", f"{GROUP}/topics/demo/eventSubscriptions/to-the-cloud?{VERSION}", body)


def test_everything_arrives_though_both_are_killed(tmp_path: Path) -> None:
    """Roles and the parent of either server are killed while events pass; each id arrives, with its time and data."""
    port = free_port()
    with receiver() as hook, server(tmp_path / "edge") as edge:
        with server(tmp_path / "cloud", port=port) as cloud:
            forward(edge, cloud)
            cloud.subscribe("sink", hook.url, destination={"maxEventsPerBatch": 100})
            sent = [f"e{n}" for n in range(60)]
            for n, role in enumerate(("dispatch", "intake", "dispatch")):
                edge.publish(*sent[n * 10 : n * 10 + 10], data='{"n": 1.50}')
                cloud.kill("intake")
                edge.kill(role)
                assert until(lambda: edge.request("GET", "/readyz")[0] == 200)
            cloud.kill("parent")
        edge.publish(*sent[30:60], data='{"n": 1.50}')
        assert until(lambda: edge.counts("to-the-cloud").get("held_until_seconds", 0) > 0)
        with server(tmp_path / "cloud", port=port):
            edge.call("POST", f"/lanes/{lane(edge)['id']}/retry-now", {})
            hook.wait_for(set(sent))
            assert until(lambda: edge.counts("to-the-cloud").get("delivered") == 60)
        arrived = [event for _, events in hook.requests for event in events]
        assert {event["eventTime"] for event in arrived} == {"2026-01-01T00:00:00Z"}
        assert {event["topic"] for event in arrived} == {f"{GROUP}/topics/demo"}
        assert all(b'{"n": 1.50}' in body for body in hook.bodies)


def lane(it: Server) -> dict[str, Any]:
    """The lane of the forwarding subscription."""
    found: list[dict[str, Any]] = it.call("GET", "/lanes?search=to-the-cloud")["value"]
    return found[0]


def test_a_refused_key_holds_and_alarms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The event is kept; readiness, the metric, `explain` and a check say why; with the right key it arrives."""
    with receiver() as hook, server(tmp_path / "edge") as edge, server(tmp_path / "cloud") as cloud:
        monkeypatch.setenv("RECAPITO_SERVER", edge.url)
        cloud.subscribe("sink", hook.url)
        forward(edge, cloud, key="canary-wrong-key")
        edge.publish("one")
        assert until(lambda: edge.counts("to-the-cloud").get("lane_refused") == 1)
        ready = json.loads(edge.request("GET", "/readyz")[1])
        assert ready["status"] == "degraded" and "to-the-cloud" in ready["checks"]["destinations"]
        told = recapito("explain", "one").out
        assert "Unauthorized" in told and "connection set" in told
        assert recapito("connection", "check", f"{CLOUD}/topics/demo").code != 0
        forward(edge, cloud)
        assert ok("connection", "check", f"{CLOUD}/topics/demo")[0]["state"] == "ok"
        ok("retry-now", "to-the-cloud")
        hook.wait_for({"one"})
        assert until(lambda: "lane_refused" not in edge.counts("to-the-cloud"))
        assert "canary-wrong" not in told + "".join(edge.journal)


def test_two_servers_that_forward_to_each_other(tmp_path: Path) -> None:
    """Each event is once at either server: the second refuses what came from it, and the others go on."""
    with receiver() as here, receiver() as there, server(tmp_path / "a") as a, server(tmp_path / "b") as b:
        a.subscribe("sink", here.url)
        b.subscribe("sink", there.url)
        forward(a, b)
        forward(b, a)
        a.publish("from-a")
        b.publish("from-b")
        for hook in (here, there):
            hook.wait_for({"from-a", "from-b"})
        for it in (a, b):
            assert until(lambda it=it: it.counts("to-the-cloud").get("dropped") == 1)
            assert until(lambda it=it: it.counts("to-the-cloud").get("delivered") == 1)
        assert sorted(here.ids) == sorted(there.ids) == ["from-a", "from-b"]
        assert any("UndeliverableDueToForwardingLoop" in line for line in a.journal)
