"""Traces and diagnostic logs of a real server on two processes."""

import json
from pathlib import Path
from typing import Any

from tests.system.collector import collecting, values
from tests.system.machine import Server, events, receiver, server, until

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
SAMPLED = f"00-{TRACE}-{SPAN}-01"


def publish(recapito: Server, body: bytes, **headers: str) -> None:
    """Publish a body with more headers."""
    status, answer = recapito.request("POST", "/topics/demo/api/events", body, aeg_sas_key=recapito.key, **headers)
    assert status == 200, answer


def test_a_trace_leads_from_the_publisher_to_the_subscriber(tmp_path: Path) -> None:
    """Publish, append and each attempt are spans of the publisher's trace; the subscriber gets each attempt's place."""
    with receiver() as hook, collecting() as collector:
        answers = iter([503, 200])
        hook.answer = lambda events: next(answers)
        environment = {"RECAPITO_TELEMETRY_OTLP_ENDPOINT": collector.url, "RECAPITO_TELEMETRY_SAMPLE_RATIO": "0"}
        with server(tmp_path / "data", "--clock", "scaled:100", environment=environment) as recapito:
            recapito.subscribe("orders", f"{hook.url}?code=secret")
            publish(recapito, events("one"), traceparent=SAMPLED)
            hook.wait_for_requests(2)
            names = ["append", "deliver orders", "deliver orders", "publish demo"]
            spans = collector.wait_for(lambda spans: sorted(span.name for span in spans) == names)
    by_name: dict[str, list[Any]] = {name: [span for span in spans if span.name == name] for name in names}
    assert {span.trace_id.hex() for span in spans} == {TRACE}
    (published,), (append,) = by_name["publish demo"], by_name["append"]
    assert published.parent_span_id.hex() == SPAN
    first, second = sorted(by_name["deliver orders"], key=lambda span: span.start_time_unix_nano)
    assert {span.parent_span_id for span in (append, first, second)} == {published.span_id}
    assert [values(span.attributes)["recapito.outcome"] for span in (first, second)] == ["Busy", "Success"]
    assert [values(span.attributes)["recapito.attempt"] for span in (first, second)] == [1, 2]
    arrived = [headers["traceparent"] for headers, _ in hook.requests]
    assert arrived == [f"00-{TRACE}-{span.span_id.hex()}-01" for span in (first, second)]
    assert {resource["recapito.role"] for resource, _ in collector.spans} == {"intake", "dispatch"}
    assert "secret" not in str(collector.spans) and recapito.key not in str(collector.spans)


def test_a_collector_that_is_away_disturbs_nobody(tmp_path: Path) -> None:
    """Everything is traced and nothing can be sent: events arrive all the same, and the journal says what is wrong."""
    environment = {"RECAPITO_TELEMETRY_OTLP_ENDPOINT": "http://127.0.0.1:9/v1/traces"}
    environment["RECAPITO_TELEMETRY_SAMPLE_RATIO"] = "1"
    with receiver() as hook, server(tmp_path / "data", environment=environment) as recapito:
        recapito.subscribe("orders", hook.url)
        wanted = {str(n) for n in range(50)}
        for n in wanted:
            assert recapito.publish(n) == 200
        hook.wait_for(wanted)
        assert until(lambda: any("traces.failed" in line for line in recapito.journal))
        assert recapito.stop() == 0


def test_without_settings_nothing_is_added(tmp_path: Path) -> None:
    """Traces are off by default: a traceparent is not passed on, and no file is written."""
    with receiver() as hook, server(tmp_path / "data") as recapito:
        recapito.subscribe("orders", hook.url)
        publish(recapito, events("one"), traceparent=SAMPLED)
        hook.wait_for({"one"})
        assert "traceparent" not in hook.requests[0][0]
        assert not list((tmp_path / "data").glob("**/*.jsonl"))


def test_failures_are_logged_as_azure_does(tmp_path: Path) -> None:
    """A failed delivery and a refused publish are lines of the two files, in Azure's shape and without a secret."""
    logs = tmp_path / "logs"
    environment = {"RECAPITO_TELEMETRY_DIAGNOSTICS": str(logs)}
    with receiver() as hook, server(tmp_path / "data", environment=environment) as recapito:
        hook.answer = lambda events: 404
        recapito.subscribe("orders", f"{hook.url}?code=secret")
        publish(recapito, events("one"))
        assert recapito.publish_raw(b'[{"id":""}]')[0] == 400
        hook.wait_for_requests(1)
        assert until(lambda: (logs / "dispatch.jsonl").exists() and (logs / "intake.jsonl").exists())
        key = recapito.key
    (failed,) = map(json.loads, (logs / "dispatch.jsonl").read_text().splitlines())
    assert failed["resourceId"].endswith("/PROVIDERS/MICROSOFT.EVENTGRID/TOPICS/DEMO")
    assert failed["category"] == "DeliveryFailures"
    assert failed["operationName"] == "Deliver"
    assert failed["eventSubscriptionName"] == "ORDERS"
    assert failed["message"].startswith("Message:outcome=NotFound, latencyInMs=")
    assert ", id=one, systemId=" in failed["message"]
    assert ", deliveryCount=0, probationCount=0, deliverySchema=EventGridSchema" in failed["message"]
    assert f", url={hook.url}, deliveryResponse=404: " in failed["message"]
    (refused,) = map(json.loads, (logs / "intake.jsonl").read_text().splitlines())
    assert refused["category"] == "PublishFailures"
    assert refused["operationName"] == "Publish"
    assert refused["message"].startswith("Message:outcome=BadRequest, id=")
    both = str([failed, refused])
    assert "secret" not in both and key not in both
    assert all(file.stat().st_mode & 0o077 == 0 for file in logs.iterdir())
