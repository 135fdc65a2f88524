"""`recapito apply`, `export` and `schema` against a running server."""

import json
from pathlib import Path

import pytest

from tests.cli.terminal import lines, recapito
from tests.system.machine import Server

ESTATE = """
resourceGroup: estate
topics:
  - name: estate-orders
    keys: {key1: {env: ESTATE_KEY}}
    subscriptions:
      - name: mine
        destination:
          endpointType: StorageQueue
          properties: {resourceId: %s, queueName: waiting}
connections:
  - {resourceId: %s, azurite: true}
""".replace("%s", "/subscriptions/s/resourceGroups/g/providers/Microsoft.Storage/storageAccounts/estate")


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An estate file, whose secret is in the environment."""
    monkeypatch.setenv("ESTATE_KEY", "MDEyMzQ1Njc4OWFiY2RlZg==")
    path = tmp_path / "estate.yaml"
    path.write_text(ESTATE, "utf-8")
    return path


def test_apply_and_export(live: Server, file: Path) -> None:
    """A dry run plans, apply does it and then finds nothing to do; the export is a file that can be applied."""
    planned = recapito("apply", str(file), "--dry-run")
    steps = ["+ connection", "+ topic estate-orders", "+ subscription estate-orders/mine"]
    assert planned.code == 0
    assert [line.partition(" /")[0] for line in lines(planned.out)] == [*steps, "plan: 3 created"]
    assert lines(recapito("apply", str(file)).out)[-1] == "3 created"
    assert lines(recapito("apply", str(file)).out) == ["3 unchanged"]
    text = recapito("export").out
    assert "name: estate-orders" in text and "MDEy" not in text
    file.write_text(recapito("export", "--secrets").out, "utf-8")
    assert "MDEyMzQ1Njc4OWFiY2RlZg==" in file.read_text("utf-8")
    assert lines(recapito("apply", str(file)).out)[-1].endswith(" unchanged")
    template = json.loads(recapito("export", "--format", "arm", "-g", "estate").out)
    assert [one["name"] for one in template["resources"]] == ["estate-orders", "estate-orders/mine"]


def test_a_template(live: Server, tmp_path: Path) -> None:
    """A template is applied to a group, with parameters from the command line."""
    file = tmp_path / "template.json"
    topic = {"type": "Microsoft.EventGrid/topics", "name": "[concat(parameters('a'), parameters('n'))]"}
    declared = {"a": {"type": "string"}, "n": {"type": "int"}}
    file.write_text(json.dumps({"parameters": declared, "resources": [topic]}), "utf-8")
    said = recapito("apply", str(file), "-g", "estate", "--parameters", "a=from-template-", "--parameters", "n=7")
    assert lines(said.out) == ["+ topic from-template-7", "1 created"]
    said = recapito("apply", str(file), "--parameters", "a")
    assert said.code == 2 and "NAME=VALUE" in said.err
    given = tmp_path / "template.parameters.json"
    given.write_text(json.dumps({"parameters": {"a": {"value": "from-file-"}, "n": {"value": 7}}}), "utf-8")
    said = recapito("apply", str(file), "-g", "estate", "--parameters", f"@{given}", "--parameters", "n=8")
    assert lines(said.out) == ["+ topic from-file-8", "1 created"]
    assert "apply its template, with --parameters @FILE" in recapito("apply", str(given)).err
    assert "bicep build" in recapito("apply", str(tmp_path / "main.bicep")).err


def test_prune_asks(live: Server, file: Path) -> None:
    """Deletions are asked for; without a yes nothing changes."""
    recapito("apply", str(file))
    file.write_text(ESTATE.partition("    subscriptions:")[0], "utf-8")
    said = recapito("apply", str(file), "--prune", stdin=b"n\n")
    assert said.code == 1 and "subscription estate-orders/mine" in said.err
    assert "- subscription estate-orders/mine" in recapito("apply", str(file), "--prune", "--dry-run").out


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("topics:\n  - name: fine-topic\n  - name: typo\n    inputSchem: x", ":4: topics[1].inputSchem: "),
        (
            "topics:\n  - {name: fine-topic, keys: {key1: {env: NOT_THERE}}}",
            ":2: topics[0].keys.key1: The variable NOT_",
        ),
        ("a: [", ":2: The line is not YAML"),
    ],
)
def test_refused(live: Server, file: Path, text: str, said: str) -> None:
    """A wrong file is one line with the file, the line and the key; nothing is made."""
    file.write_text(text, "utf-8")
    answer = recapito("apply", str(file))
    assert answer.code != 0
    assert f"recapito: {file}{said}" in answer.err
    assert "fine-topic" not in recapito("export").out


def test_schema() -> None:
    """The schema is printed as JSON."""
    assert recapito("schema").json["title"] == "Recapito estate file"
