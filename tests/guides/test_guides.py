"""The guides are right: their commands can be typed, and do what the guides describe."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from bench.sizing import Table, put_into
from recapito.domain.connections.connection import AzureService
from recapito.domain.connections.parse_storage import AZURITE_ACCOUNT, AZURITE_KEY
from recapito.settings import settings
from tests.azurite.server import Azurite
from tests.guides.page import NAMES, PAGES, block, blocks, check_command, commands
from tests.kit.ports import free_port
from tests.system.machine import receiver, server, until

BIN = Path(sys.executable).parent
PATIENCE_S = 300.0


def shell(script: str, folder: Path, **environment: str) -> str:
    """The output of a script that must succeed, with `recapito` on its path and without defaults of the environment."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("RECAPITO_", "AZURE_"))}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=folder,
        env={
            **inherited,
            "PATH": f"{BIN}:{os.environ['PATH']}",
            "RECAPITO_CONFIG": str(folder / "config.toml"),
            **environment,
        },
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def pytest_output(folder: Path, *tests: str) -> str:
    """The output of pytest for tests that a guide prints."""
    folder.joinpath("test_guide.py").write_text("\n\n".join(tests), "utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--rootdir", folder, folder],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    return done.stdout


@pytest.mark.parametrize("name", NAMES)
def test_shells_and_recapito_understand_its_commands(name: str, tmp_path: Path) -> None:
    """Each block of shell is well formed, and `recapito` knows each word and flag in it."""
    for text in blocks(name, "sh"):
        subprocess.run(["bash", "-n", "-c", text], check=True, timeout=PATIENCE_S)
    file = tmp_path / "recapito.toml"
    file.touch()
    for words in commands(name):
        check_command([str(file) if word == "/etc/recapito/recapito.toml" else word for word in words])


def test_all_commands_were_found() -> None:
    """The search for commands does not miss those behind sudo, in substitutions and with a path."""
    found = [" ".join(words[:2]) for name in NAMES for words in commands(name)]
    assert {"serve --memory", "topic key", "backup /var/backups/recapito/today", "serve --settings"} <= set(found)


@pytest.mark.parametrize("name", NAMES)
def test_its_settings_are_settings(name: str, tmp_path: Path) -> None:
    """The server accepts each block of settings, with the secrets that it leaves out filled in."""
    for text in blocks(name, "toml"):
        file = tmp_path / "recapito.toml"
        file.write_text(text.replace('"…"', f'"{"a" * 64}"'), "utf-8")
        shown = tomllib.loads(text).get("server", {}).get("host", "127.0.0.1")
        assert settings.load(file, environment={}).server.host == shown


def test_tests_that_it_prints_pass(tmp_path: Path) -> None:
    """The tests of the guide pass as they stand, also with the settings that it shows."""
    shown = [block("testing-in-ci", "python", mark) for mark in ("fails_for_a_while", "azure.eventgrid")]
    assert " 3 passed" in pytest_output(tmp_path, *shown)
    tmp_path.joinpath("conftest.py").write_text(block("testing-in-ci", "python", "def recapito_settings"), "utf-8")
    assert " 3 passed" in pytest_output(tmp_path, *shown)


def test_steps_that_it_prints_are_steps(tmp_path: Path) -> None:
    """Each line of the list of steps can stand in a script of a receiver."""
    lines = block("testing-in-ci", "python", "from recapito.testing").splitlines()
    steps = ",\n        ".join(line.partition("#")[0].rstrip() for line in lines[2:])
    test = f"""
{lines[0]}


def test_steps(recapito):
    topic = recapito.topic("orders")
    hook = recapito.receiver(
        {steps}
    )
    topic.subscribe(hook)
    event_id = topic.publish("Order.Created", {{"total": 1}})
    recapito.clock.until_idle()
    hook.assert_delivered(event_id)
"""
    assert " 1 passed" in pytest_output(tmp_path, test)


def test_the_story_that_it_prints(tmp_path: Path) -> None:
    """A failed assertion prints exactly that text, apart from the id and the port."""
    said = pytest_output(
        tmp_path,
        """
def test_story(recapito):
    topic = recapito.topic("orders")
    hook = recapito.receiver(503, 503, 200)
    topic.subscribe(hook)
    topic.publish("Order.Created", id="5f1c")
    recapito.clock.until_idle()
    hook.assert_delivered("5f1c", attempt=4)
""",
    )
    told = "\n".join(line.removeprefix("E").removeprefix("       ") for line in said.splitlines() if line[:2] == "E ")
    [shown] = blocks("testing-in-ci", "text")
    assert re.sub(r":\d+/\d+/", ":40321/1/", told) == shown.strip()


def test_the_workflow_is_one(tmp_path: Path) -> None:
    """GitHub's workflow is YAML with steps, and installs what the sample project's README installs."""
    [text] = blocks("testing-in-ci", "yaml")
    workflow = yaml.safe_load(text)
    runs = [step["run"] for step in workflow["jobs"]["test"]["steps"] if "run" in step]
    assert runs == ["pip install ./recapito -e '.[test]'", "python -m pytest"]


def test_any_other_language(tmp_path: Path) -> None:
    """The script for other languages, with free ports: three attempts arrive, and the receiver accepts the last."""
    if shutil.which("curl") is None:
        reason = "curl is missing"
        assert os.environ.get("CI") != "true", reason
        pytest.skip(reason)
    script = block("testing-in-ci", "sh", "--clock manual")
    ports = {"8585": str(free_port()), "9000": str(free_port())}
    for shown, free in ports.items():
        script = script.replace(shown, free)
    own = f"http://127.0.0.1:{ports['8585']}"
    shell(script, tmp_path, RECAPITO_SERVER=own, RECAPITO_SERVER_PORT=ports["8585"])
    arrived = [json.loads(line) for line in (tmp_path / "arrived.jsonl").read_text("utf-8").splitlines()]
    attempts = [(one["attempt"], one["status"]) for one in arrived if one["kind"] == "events"]
    assert attempts == [(1, 503), (2, 503), (3, 200)]


def test_backup_and_restore_as_printed(tmp_path: Path) -> None:
    """After the guide's commands a server continues from the backup; the test leaves out users and systemd."""
    data = tmp_path / "lib" / "recapito"
    data.parent.mkdir()
    (tmp_path / "backups").mkdir()

    def rehearse(mark: str) -> None:
        script = block("run-on-a-server", "sh", mark)
        script = script.replace("sudo -u recapito /opt/recapito/venv/bin/", "").replace("-o recapito -g recapito ", "")
        script = script.replace("/var/lib", str(data.parent)).replace("/var/backups", str(tmp_path / "backups"))
        shell(f"systemctl() {{ :; }}\n{script}", tmp_path)

    with receiver() as hook, server(data) as before:
        key = before.key
        before.subscribe("mine", hook.url)
        assert before.publish("first") == 200
        hook.wait_for({"first"})
        rehearse(" backup ")
        (data / "connection.key").touch()  # it has no TLS and no connections of its own
        (data / "tls").mkdir()
    rehearse(" restore ")
    with receiver(), server(data) as after:
        assert after.key == key
        assert after.publish("second") == 200
        assert after.counts("mine")["matched"] >= 1


def test_watching_as_printed(tmp_path: Path) -> None:
    """Health, readiness, metrics and the doctor answer."""
    script = block("run-on-a-server", "sh", "/readyz")
    with server(tmp_path / "data") as it:
        script = script.replace("https://events.example:8585", it.url).replace(
            "/var/lib/recapito", str(tmp_path / "data")
        )
        said = shell(script, tmp_path)
    assert '"ready"' in said and "recapito_" in said


@pytest.mark.xdist_group("azurite")
def test_connections_as_printed(azurite: Azurite, tmp_path: Path) -> None:
    """A connection is set from a file, tried, listed and removed by the guide's own lines."""
    ends = f"BlobEndpoint={azurite.url(AzureService.BLOB)};QueueEndpoint={azurite.url(AzureService.QUEUE)}"
    text = f"AccountName={AZURITE_ACCOUNT};AccountKey={AZURITE_KEY};{ends}"
    (tmp_path / "connection-string.txt").write_text(text, "utf-8")
    with server(tmp_path / "data", "--memory") as it:
        said = shell(block("connections", "sh", "connection set"), tmp_path, RECAPITO_SERVER=it.url)
    assert "its blob service answers, and knows us" in said and AZURITE_KEY not in said


def test_dead_letters_as_printed(tmp_path: Path) -> None:
    """Dead letters are listed, shown, redriven and purged, and a subscription to their notices is made."""
    box = {"endpointType": "Directory", "properties": {"name": "box"}}
    with receiver() as hook, server(tmp_path / "data", "--clock", "scaled:600", "--handshake", "off") as it:
        it.subscribe("orders-hook", hook.url, deadLetterDestination=box)
        hook.answer = lambda events: 400
        assert it.publish("lost") == 200
        assert until(lambda: it.counts("orders-hook").get("dead_lettered") == 1)
        hook.answer = lambda events: 200
        found = shell("recapito deadletter list --query '[0].name' -o tsv", tmp_path, RECAPITO_SERVER=it.url)
        script = block("dead-letters", "sh", "deadletter show").replace(
            "7/ORDERS-HOOK/2026/1/31/12/5f1c….json/0", found.strip()
        )
        script = script.replace(" --reason MaxDeliveryAttemptsExceeded", "").replace(
            "purge --redriven", "purge --redriven --yes"
        )
        said = shell(script, tmp_path, RECAPITO_SERVER=it.url)
        assert found.strip() in said and said.count('"done": 1') == 2
        script = block("dead-letters", "sh", "BlobCreated").replace("https://ops.example/letters", hook.url)
        assert "StorageAccounts" in shell(script, tmp_path, RECAPITO_SERVER=it.url)


def test_estate_files_as_printed(tmp_path: Path) -> None:
    """The guide's estate is planned, applied, exported and found unchanged by the guide's own lines."""
    (tmp_path / "estate.yaml").write_text(block("estate-files", "yaml", "topics:"), "utf-8")
    key = "MDEyMzQ1Njc4OWFiY2RlZg=="
    with server(tmp_path / "data", "--memory") as it:
        environment = {"RECAPITO_SERVER": it.url, "ORDERS_KEY": key}
        said = shell(block("estate-files", "sh", "--dry-run"), tmp_path, **environment)
        assert said.count("+ subscription orders/billing") == 2 and said.endswith("\n10 created\n")
        shell(block("estate-files", "sh", "--secrets"), tmp_path, **environment)
        assert key in (tmp_path / "private.yaml").read_text("utf-8")
        assert key not in (tmp_path / "copy.yaml").read_text("utf-8")
        again = shell("recapito apply private.yaml", tmp_path, **environment)
        assert again.endswith(" unchanged\n") and "created" not in again


def test_sizing_takes_its_tables() -> None:
    """`python -m bench.sizing --write` finds both tables of the guide and its sentence about the machine."""
    guide = PAGES["sizing"].read_text("utf-8")
    tables = [Table("subscriptions | memory", ["7 | 8 MB"]), Table("event | rate", ["9 KB | 10/s"])]
    written = put_into(guide, "Measured today.", tables)
    assert [line for line in written.splitlines() if line not in guide.splitlines()] == [
        *("Measured today.", "| subscriptions | memory |", "| 7 | 8 MB |", "| event | rate |", "| 9 KB | 10/s |"),
    ]
