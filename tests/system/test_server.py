"""A real server, as a user runs it: started by the command, spoken to over HTTP and by Microsoft's SDK."""

import http.client
import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from azure.core.credentials import AzureKeyCredential
from azure.core.exceptions import ClientAuthenticationError, HttpResponseError
from azure.eventgrid import EventGridEvent, EventGridPublisherClient

from tests.system.machine import GROUP, VERSION, Server, receiver, server, until


def run(*arguments: str, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run the command line to its end."""
    return subprocess.run(
        [sys.executable, "-m", "recapito", *arguments],
        capture_output=True,
        text=True,
        timeout=30,
        env={**os.environ, **(environment or {})},
    )


def test_sdk_publishes_and_the_event_arrives(tmp_path: Path) -> None:
    """An event that Microsoft's SDK publishes arrives with Event Grid's headers and stamps."""
    with receiver() as hook, server(tmp_path / "data") as recapito:
        recapito.subscribe("orders", hook.url)
        client = EventGridPublisherClient(f"{recapito.url}/topics/demo/api/events", AzureKeyCredential(recapito.key))
        client.send(EventGridEvent(subject="s", event_type="T", data={"n": 1}, data_version="7", id="one"))
        hook.wait_for({"one"})
        client.close()
        headers, [event] = hook.requests[0]
    assert headers["content-type"] == "application/json; charset=utf-8"
    assert headers["aeg-event-type"] == "Notification"
    assert headers["aeg-subscription-name"] == "ORDERS"
    assert headers["aeg-delivery-count"] == "0"
    assert headers["aeg-data-version"] == "7"
    assert headers["aeg-metadata-version"] == "1"
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", headers["aeg-output-event-id"])
    assert "accept" not in headers
    assert event["topic"] == f"{GROUP}/topics/demo"
    assert event["metadataVersion"] == "1"
    assert event["data"] == {"n": 1}


def test_sdk_sees_a_wrong_key_and_a_bad_event(tmp_path: Path) -> None:
    """Microsoft's SDK raises its own errors for a wrong key and for an event that is refused."""
    with server(tmp_path / "data") as recapito:
        endpoint = f"{recapito.url}/topics/demo/api/events"
        with (
            EventGridPublisherClient(endpoint, AzureKeyCredential("wrong")) as client,
            pytest.raises(ClientAuthenticationError),
        ):
            client.send(EventGridEvent(subject="s", event_type="T", data={}, data_version="1"))
        with (
            EventGridPublisherClient(endpoint, AzureKeyCredential(recapito.key)) as client,
            pytest.raises(HttpResponseError, match="unexpected property 'surprise'"),
        ):
            client.send({"id": "1", "surprise": True})


def test_data_is_forwarded_byte_for_byte(tmp_path: Path) -> None:
    """The subscriber reads the data as the publisher wrote it: spaces, escapes, odd numbers, repeated members."""
    data = '{ "big":123456789012345678901234567890, "e":1.0E+2 ,"k":1,"k":2, "u":"\\u00e9\\/" }'
    with receiver() as hook, server(tmp_path / "data") as recapito:
        recapito.subscribe("orders", hook.url)
        assert recapito.publish("one", data=data) == 200
        hook.wait_for({"one"})
        assert data.encode() in hook.bodies[0]


def test_what_was_accepted_survives_a_stop(tmp_path: Path) -> None:
    """Events that were accepted while the endpoint was away are delivered after a restart."""
    with receiver() as hook:
        hook.answer = lambda events: 500
        with server(tmp_path / "data") as recapito:
            recapito.subscribe("orders", hook.url, destination={"maxEventsPerBatch": 100})
            assert recapito.publish(*[str(n) for n in range(50)]) == 200
            hook.wait_for_requests(1)
        hook.answer = lambda events: 200
        before = len(hook.requests)
        with server(tmp_path / "data", "--clock", "scaled:60") as recapito:
            hook.wait_for_requests(before + 1)
            hook.wait_for({str(n) for n in range(50)})


def test_batches_keep_their_limits(tmp_path: Path) -> None:
    """A batch holds at most the events it may; an event larger than the preferred size goes alone."""
    with receiver() as hook, server(tmp_path / "data") as recapito:
        settings = {"maxEventsPerBatch": 10, "preferredBatchSizeInKilobytes": 4}
        recapito.subscribe("orders", hook.url, destination=settings)
        small = [f"small-{n}" for n in range(100)]
        assert recapito.publish(*small, data='"' + "x" * 300 + '"') == 200
        assert recapito.publish("large", data='"' + "x" * 10_000 + '"') == 200
        hook.wait_for({*small, "large"})
        for (_, events), body in zip(hook.requests, hook.bodies, strict=True):
            assert len(events) <= 10
            assert len(body) <= 4 * 1024 or len(events) == 1


@pytest.mark.parametrize("victim", ["intake", "dispatch"])
def test_role_killed_under_load_loses_nothing(tmp_path: Path, victim: str) -> None:
    """A role is killed again and again while events are published: everything answered 200 arrives."""
    with receiver() as hook, server(tmp_path / "data") as recapito:
        recapito.subscribe("orders", hook.url, destination={"maxEventsPerBatch": 20})
        acknowledged = set().union(*(publish_and_kill(recapito, victim, life) for life in range(5)))
        assert len(acknowledged) >= 5 * 20 * 5
        hook.wait_for(acknowledged)
        assert until(lambda: recapito.request("GET", "/readyz")[0] == 200)


def test_server_killed_under_load_loses_nothing(tmp_path: Path) -> None:
    """The parent is killed: its children end with it, and what was answered 200 arrives after the next start."""
    acknowledged: set[str] = set()
    with receiver() as hook:
        for life in range(3):
            with server(tmp_path / "data") as recapito:
                if life == 0:
                    recapito.subscribe("orders", hook.url, destination={"maxEventsPerBatch": 20})
                acknowledged |= publish_and_kill(recapito, "parent", life)
        with server(tmp_path / "data"):
            hook.wait_for(acknowledged)


def publish_and_kill(recapito: Server, victim: str, life: int) -> set[str]:
    """Publish, kill in the middle of it, publish on; the ids that were acknowledged."""
    acknowledged: set[str] = set()
    for n in range(40):
        if n == 20:
            recapito.kill(victim)
        ids = [f"{life}-{n}-{i}" for i in range(5)]
        try:
            if recapito.publish(*ids) == 200:
                acknowledged.update(ids)
        except (OSError, http.client.HTTPException):
            continue  # no answer: unknown, and a publisher would try again
    return acknowledged


@pytest.mark.parametrize("role", ["intake", "dispatch", "portal"])
@pytest.mark.parametrize("order", ["", '{"settings":'])
def test_a_role_whose_parent_is_gone_ends_without_a_word(role: str, order: str) -> None:
    """The parent was killed before it had given its order: there is nothing to do, and nothing to say."""
    ended = subprocess.run(
        [sys.executable, "-m", "recapito", "role", role], input=order, capture_output=True, text=True, timeout=30
    )
    assert ended.returncode == 0
    assert ended.stdout == ""
    assert ended.stderr == ""


def test_second_server_is_refused(tmp_path: Path) -> None:
    """One data directory has one server; the second says who has it."""
    with server(tmp_path / "data"):
        second = run("serve", "--data", str(tmp_path / "data"), "--port", "0")
    assert second.returncode == os.EX_CONFIG
    assert "in use" in second.stderr and "Traceback" not in second.stderr


def test_busy_port_is_named(tmp_path: Path) -> None:
    """A busy port is a clear error."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        refused = run("serve", "--memory", "--data", str(tmp_path), "--port", str(port))
    assert refused.returncode == os.EX_CONFIG
    assert str(port) in refused.stderr and "--port" in refused.stderr and "Traceback" not in refused.stderr


def test_foreign_data_directory_is_refused(tmp_path: Path) -> None:
    """A directory with a log.db that is not ours is left alone."""
    (tmp_path / "log.db").write_bytes(b"this is a diary, not a database" * 100)
    refused = run("serve", "--data", str(tmp_path), "--port", "0")
    assert refused.returncode == os.EX_CONFIG
    assert "log.db" in refused.stderr and "Traceback" not in refused.stderr
    assert (tmp_path / "log.db").read_bytes().startswith(b"this is a diary")


def test_data_directory_that_is_a_file_is_refused(tmp_path: Path) -> None:
    """A data directory that cannot be made is a clear error."""
    (tmp_path / "file").write_text("")
    refused = run("serve", "--data", str(tmp_path / "file" / "data"), "--port", "0")
    assert refused.returncode == os.EX_CONFIG
    assert "file" in refused.stderr and "Traceback" not in refused.stderr


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--profile", "1999-01"], "delivery.profile"),
        (["--clock", "fast"], "clock.mode"),
        (["--port", "70000"], "server.port"),
        (["--egress", "everywhere"], "delivery.egress"),
        (["--host", "no.such.host.invalid"], "server.host"),
    ],
)
def test_wrong_settings_are_named(tmp_path: Path, flags: list[str], said: str) -> None:
    """A setting that is wrong is named, without a traceback."""
    refused = run("serve", "--memory", "--data", str(tmp_path), *flags)
    assert refused.returncode == os.EX_CONFIG
    assert said in refused.stderr and "Traceback" not in refused.stderr


def test_disk_nearly_full_stops_intake_but_not_delivery(tmp_path: Path) -> None:
    """Below the limit publishing answers 503 with Retry-After, and what is stored is delivered all the same."""
    with receiver() as hook:
        hook.answer = lambda events: 500
        with server(tmp_path / "data") as recapito:
            recapito.subscribe("orders", hook.url)
            assert recapito.publish("one") == 200
            hook.wait_for_requests(1)
        hook.answer = lambda events: 200
        full = {"RECAPITO_DISK_STOP_PERCENT": "100", "RECAPITO_DISK_STOP_MB": "1000000000"}
        with server(tmp_path / "data", "--clock", "scaled:60", environment=full) as recapito:
            status, body = recapito.publish_raw(b"[]")
            assert status == 503 and b"disk" in body
            hook.wait_for_requests(2)
            assert recapito.request("GET", "/readyz")[0] == 503


def test_backup_of_a_running_server_restores(tmp_path: Path) -> None:
    """A backup taken under load holds everything that was acknowledged before it began."""
    with receiver() as hook:
        hook.answer = lambda events: 503
        with server(tmp_path / "data") as recapito:
            recapito.subscribe("orders", hook.url, destination={"maxEventsPerBatch": 50})
            before = {f"before-{n}" for n in range(100)}
            assert recapito.publish(*before) == 200
            made = run("backup", str(tmp_path / "copy"), "--data", str(tmp_path / "data"))
            assert made.returncode == 0, made.stderr
            assert recapito.publish("after") == 200
        restored = run("restore", str(tmp_path / "copy"), "--data", str(tmp_path / "again"))
        assert restored.returncode == 0, restored.stderr
        refused = run("restore", str(tmp_path / "copy"), "--data", str(tmp_path / "again"))
        assert refused.returncode != 0 and "Traceback" not in refused.stderr
        hook.answer = lambda events: 200
        hook.requests.clear()
        with server(tmp_path / "again", "--clock", "scaled:600"):
            hook.wait_for(before)
        assert "after" not in hook.ids


def test_a_day_of_retries_takes_a_moment(tmp_path: Path) -> None:
    """With a manual clock an endpoint that keeps failing is tried for 24 hours and then dead-lettered."""
    with receiver() as hook, server(tmp_path / "data", "--clock", "manual") as recapito:
        hook.answer = lambda events: 500
        dead_letter = {"endpointType": "Directory", "properties": {"name": "orders"}}
        recapito.subscribe("first", hook.url, deadLetterDestination=dead_letter)
        assert recapito.publish("one") == 200
        moved = recapito.call("POST", "/clock/advance", {"until": "idle"})
        assert moved["idle"] and moved["deadLettered"] == 1 and moved["pending"] == 0
        assert len(hook.requests) in (10, 11)  # the last one falls before or after 24 hours, by jitter
        assert [int(headers["aeg-delivery-count"]) for headers, _ in hook.requests] == list(range(len(hook.requests)))
        [file] = (tmp_path / "data" / "deadletters" / "orders" / "FIRST").rglob("*.json")
        [record] = json.loads(file.read_text())
    assert record["deadLetterReason"] == "TimeToLiveExceeded"
    assert record["deliveryAttempts"] == len(hook.requests)


def test_a_hanging_endpoint_times_out_by_the_clock(tmp_path: Path) -> None:
    """An endpoint that never answers fails when the clock passes 30 seconds, not when the wall does."""
    quick = {"RECAPITO_CLOCK_PATIENCE_S": "0.2"}
    with receiver() as hook, server(tmp_path, "--memory", "--clock", "manual", environment=quick) as recapito:
        hook.answer = lambda events: None
        recapito.subscribe("first", hook.url)
        assert recapito.publish("one") == 200
        recapito.call("POST", "/clock/advance", {"seconds": 0})
        hook.wait_for_requests(1)
        for seconds, parked in ((29, 0), (1, 1)):
            assert recapito.call("POST", "/clock/advance", {"seconds": seconds})["pending"] == 1
            assert recapito.call("GET", "/lanes")["value"][0]["parked"] == parked
        recapito.call("POST", "/clock/advance", {"seconds": 11})
        hook.wait_for_requests(2)


def test_deleting_a_subscription_counts_what_it_drops(tmp_path: Path) -> None:
    """A subscription that is deleted gets nothing more, and its name can be used again at once."""
    with receiver() as hook, server(tmp_path / "data") as recapito:
        hook.answer = lambda events: 503
        recapito.subscribe("orders", hook.url)
        assert recapito.publish("old") == 200
        hook.wait_for_requests(1)
        path = f"{GROUP}/topics/demo/eventSubscriptions/orders?{VERSION}"
        assert recapito.request("DELETE", path)[0] == 200
        assert recapito.request("GET", path)[0] == 404
        hook.answer = lambda events: 200
        recapito.subscribe("orders", hook.url)
        assert recapito.publish("new") == 200
        hook.wait_for({"new"})
        assert hook.ids.count("old") == 1


def test_conservation_is_visible(tmp_path: Path) -> None:
    """For each subscription the metrics say: matched = delivered + dead-lettered + dropped + pending."""
    with receiver() as hook, server(tmp_path / "data") as recapito:
        hook.answer = lambda events: 200 if events[0]["id"] < "5" else 404
        recapito.subscribe("orders", hook.url)
        recapito.subscribe("none", hook.url, filter={"includedEventTypes": ["other"]})
        assert recapito.publish(*[str(n) for n in range(10)]) == 200
        hook.wait_for_requests(10)
        assert until(lambda: recapito.counts("orders").get("matched") == 10)
        counts = recapito.counts("orders")
        assert counts["delivered"] == 5 and counts["dropped"] == 5 and counts["pending"] == 0
