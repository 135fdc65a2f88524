"""Handshakes of a real server with real receivers: in the answer, by the URL, and by OPTIONS."""

import json
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.system.machine import GROUP, VERSION, Server, receiver, server

EXAMPLE = Path(__file__).parents[2] / "examples" / "receiver.py"
MINE = f"{GROUP}/topics/demo/eventSubscriptions/mine?{VERSION}"


class Example:
    """The receiver that users start with, as a process, and the lines that it prints."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        self.url = self.line().split()[2]

    def line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()


@contextmanager
def example() -> Iterator[Example]:
    command = [sys.executable, str(EXAMPLE), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Example(process)
        finally:
            process.terminate()


def subscribe(recapito: Server, url: str, **properties: Any) -> tuple[int, Any]:
    """Try to subscribe a webhook; the status and the answer."""
    destination = {"endpointType": "WebHook", "properties": {"endpointUrl": url}}
    body = json.dumps({"properties": {"destination": destination, **properties}}).encode()
    status, answer = recapito.request("PUT", MINE, body)
    return status, json.loads(answer)


def state(recapito: Server) -> str:
    found: str = recapito.call("GET", MINE)["properties"]["provisioningState"]
    return found


def test_the_example_receiver_consents(tmp_path: Path) -> None:
    """A receiver that echoes the code is subscribed at once, gets events, and is told when the subscription ends."""
    with example() as hook, server(tmp_path / "data", "--handshake", "on") as recapito:
        assert subscribe(recapito, hook.url)[0] == 201
        assert state(recapito) == "Succeeded"
        assert hook.line() == "consent to subscription MINE"
        assert recapito.publish("e1") == 200
        assert hook.line() == "attempt 1: t s {} -> 200"
        assert recapito.request("DELETE", MINE)[0] == 200
        assert hook.line() == "subscription MINE was deleted"


def test_the_example_receiver_consents_to_cloud_events(tmp_path: Path) -> None:
    """A receiver that answers OPTIONS with WebHook-Allowed-Origin is subscribed at once."""
    with example() as hook, server(tmp_path / "data", "--handshake", "on") as recapito:
        assert subscribe(recapito, hook.url, eventDeliverySchema="CloudEventSchemaV1_0")[0] == 201
        assert state(recapito) == "Succeeded"
        assert hook.line() == "consent to CloudEvents from eventgrid.azure.net"


def test_a_plain_receiver_consents_by_the_url(tmp_path: Path) -> None:
    """A receiver that answers 200 to everything gets the events published after a person opened the validation URL."""
    with receiver() as hook, server(tmp_path / "data", "--handshake", "on") as recapito:
        assert subscribe(recapito, hook.url)[0] == 201
        assert state(recapito) == "AwaitingManualAction"
        [(headers, [event])] = hook.requests
        assert headers["aeg-event-type"] == "SubscriptionValidation"
        assert recapito.publish("too-early") == 200
        with urllib.request.urlopen(event["data"]["validationUrl"], timeout=10) as page:
            assert b"is validated" in page.read()
        assert state(recapito) == "Succeeded"
        assert recapito.publish("in-time") == 200
        hook.wait_for({"in-time"})
        assert hook.ids[1:] == ["in-time"]


def test_consent_survives_a_restart(tmp_path: Path) -> None:
    """The URL works after the server was stopped and started on the same data."""
    with receiver() as hook:
        with server(tmp_path / "data", "--handshake", "on") as recapito:
            subscribe(recapito, hook.url)
            url = hook.requests[0][1][0]["data"]["validationUrl"]
            port = recapito.port
        with server(tmp_path / "data", "--handshake", "on", port=port) as recapito:
            assert state(recapito) == "AwaitingManualAction"
            with urllib.request.urlopen(url, timeout=10):
                assert state(recapito) == "Succeeded"


def test_a_refusal_says_what_to_change(tmp_path: Path) -> None:
    """A receiver that answers 404 is not subscribed, and PUT tells what came back and what to change."""
    with receiver() as hook, server(tmp_path / "data", "--handshake", "on") as recapito:
        hook.answer = lambda events: 404
        status, answer = subscribe(recapito, hook.url)
        assert status == 400
        assert answer["error"]["code"] == "Url validation"
        assert "Came back: status 404" in answer["error"]["message"]
        assert "Correct the path of endpointUrl" in answer["error"]["message"]
        assert recapito.request("GET", MINE)[0] == 404


def test_ten_minutes_by_a_manual_clock(tmp_path: Path) -> None:
    """With a clock that stands still a handshake goes on by real time; its ten minutes end when the clock is moved."""
    with receiver() as hook, server(tmp_path, "--memory", "--clock", "manual", "--handshake", "on") as recapito:
        assert subscribe(recapito, hook.url)[0] == 201
        recapito.call("POST", "/clock/advance", {"seconds": 600})
        assert state(recapito) == "AwaitingManualAction"
        recapito.call("POST", "/clock/advance", {"seconds": 1})
        assert state(recapito) == "Failed"
        url = hook.requests[0][1][0]["data"]["validationUrl"].partition(recapito.url)[2]
        assert recapito.request("GET", url)[0] == 410
        assert recapito.request("DELETE", MINE)[0] == 200


def test_stopping_while_an_endpoint_thinks(tmp_path: Path) -> None:
    """A server that is stopped while it waits for an endpoint ends in good order."""
    with receiver() as hook:
        hook.answer = lambda events: None
        recapito = Server(tmp_path / "data", "--handshake", "on")
        answers: list[int] = []
        asking = threading.Thread(target=lambda: answers.append(subscribe(recapito, hook.url)[0]))
        asking.start()
        hook.wait_for_requests(1)
        assert recapito.stop() == 0
        asking.join()
        assert answers == [503]
