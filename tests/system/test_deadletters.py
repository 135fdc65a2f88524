"""Dead letters of a real server, by its command line: seen, redriven to the webhook that lost them, and purged."""

import json
import subprocess
import sys
from pathlib import Path

from tests.system.machine import Receiver, Server, receiver, server, until

BOX = {"endpointType": "Directory", "properties": {"name": "box"}}


def recapito(*arguments: str, at: str) -> "subprocess.CompletedProcess[str]":
    """A command of the command line."""
    command = [sys.executable, "-m", "recapito", "deadletter", *arguments, "--server", at]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def lose(service: Server, hook: Receiver, *ids: str) -> None:
    """Have these events die and be buried, which on this clock takes a moment."""
    hook.answer = lambda events: 400
    assert service.publish(*ids) == 200
    assert until(lambda: service.counts("mine").get("dead_lettered", 0) >= len(ids))
    hook.answer = lambda events: 200


def test_by_the_command_line(tmp_path: Path) -> None:
    """Letters of a refusing webhook are listed, shown, redriven to it alone, marked, and purged."""
    with receiver() as hook, receiver() as other, server(tmp_path / "data", "--clock", "scaled:600") as service:
        service.subscribe("mine", hook.url, deadLetterDestination=BOX)
        lose(service, hook, "e1", "e2", "e3")
        service.subscribe("other", other.url)
        listed = json.loads(recapito("list", "-o", "json", at=service.url).stdout)
        assert sorted(one["eventId"] for one in listed) == ["e1", "e2", "e3"]
        assert {one["reason"] for one in listed} == {"UndeliverableDueToHttpBadRequest"}
        table = recapito("list", "--event-subscription", "MINE", "--subject", "s", at=service.url)
        assert table.returncode == 0 and "e1" in table.stdout
        shown = json.loads(recapito("show", listed[0]["name"], at=service.url).stdout)
        assert shown["record"]["id"] == listed[0]["eventId"] and shown["record"]["deadLetterReason"]
        tried = recapito("redrive", "--dry-run", at=service.url)
        assert (tried.returncode, json.loads(tried.stdout)["selected"]) == (0, 3), tried.stderr
        before = len(hook.requests)
        done = recapito("redrive", "--event-subscription", "mine", "--rate", "100", at=service.url)
        assert (done.returncode, json.loads(done.stdout)["done"]) == (0, 3), done.stderr
        hook.wait_for_requests(before + 3)
        assert sorted(hook.ids[before:]) == ["e1", "e2", "e3"]
        assert until(lambda: service.counts("mine").get("delivered", 0) == 3)
        assert json.loads(recapito("redrive", at=service.url).stdout)["done"] == 0
        assert json.loads(recapito("purge", "--redriven", "--yes", at=service.url).stdout)["done"] == 3
        assert list((tmp_path / "data" / "deadletters").rglob("*.json")) == []
        assert other.requests == [] and len(hook.requests) == before + 3


def test_what_the_command_line_says_when_it_can_not(tmp_path: Path) -> None:
    """A server that is not there, a wrong time and a name of nothing are one line each, with az's exit codes."""
    with server(tmp_path / "data") as service:
        for arguments, code, part in (
            (("list", "--since", "yesterday"), 1, "'since'"),
            (("show", "1/nothing"), 3, "no dead letter"),
        ):
            done = recapito(*arguments, at=service.url)
            assert done.returncode == code and part in done.stderr and len(done.stderr.splitlines()) == 1
    gone = recapito("list", at=service.url)
    assert gone.returncode == 1 and "No server listens" in gone.stderr and len(gone.stderr.splitlines()) == 1


def shown(service: Server, metric: str) -> dict[str, float]:
    """The series of a metric of the subscription `mine`, by their labels."""
    _, text = service.request("GET", "/metrics")
    lines = [line for line in text.decode().splitlines() if line.startswith(metric + "{") and '="mine"' in line]
    return {line.rpartition(" ")[0].removeprefix(metric): float(line.rpartition(" ")[2]) for line in lines}


def test_reasons_and_evaluations_outlive_a_restart(tmp_path: Path) -> None:
    """Evaluated events and the reasons of dead letters are in /metrics, and still there after a restart."""
    small = {"operatorType": "NumberLessThan", "key": "data.n", "value": 5}
    labels = 'topic="demo",event_subscription_name="mine"'
    dead = {f'{{{labels},dead_letter_reason="UndeliverableDueToHttpBadRequest"}}': 3.0}
    with receiver() as hook:
        hook.answer = lambda events: 400
        with server(tmp_path / "data", "--clock", "scaled:600") as service:
            service.subscribe("mine", hook.url, deadLetterDestination=BOX, filter={"advancedFilters": [small]})
            assert service.publish("large1", "large2", data='{"n": 9}') == 200
            assert service.publish("e1", "e2", "e3", data='{"n": 1}') == 200
            assert until(lambda: shown(service, "eventgrid_dead_lettered_count_total") == dead)
            assert shown(service, "eventgrid_advanced_filter_evaluation_count_total") == {f"{{{labels}}}": 5.0}
        with server(tmp_path / "data", "--clock", "scaled:600") as service:
            assert shown(service, "eventgrid_dead_lettered_count_total") == dead
            assert shown(service, "eventgrid_advanced_filter_evaluation_count_total") == {f"{{{labels}}}": 5.0}
