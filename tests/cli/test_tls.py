"""`recapito tls`, and what a server says about its principal and its certificate when it starts."""

import json
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from typer.testing import CliRunner

from recapito.cli import app
from recapito.errors import SettingsError
from tests.system.machine import GROUP, VERSION, server


def test_it_prints_what_to_export(tmp_path: Path) -> None:
    """The authority is made if need be, and every client is told how to trust it, with commands that are complete."""
    data = tmp_path / "data of mine"
    data.mkdir()
    shown = CliRunner().invoke(app, ["tls", "--data", str(data), "--port", "9999"])
    assert shown.exit_code == 0, shown.output
    for variable, file in (
        ("REQUESTS_CA_BUNDLE", "bundle.pem"),
        ("SSL_CERT_FILE", "bundle.pem"),
        ("NODE_EXTRA_CA_CERTS", "ca.pem"),
    ):
        assert f"export {variable}='{data / 'tls' / file}'" in shown.output
        assert (data / "tls" / file).is_file()
    assert "az cloud register -n Recapito --endpoint-resource-manager https://localhost:9999\n" in shown.output
    assert "AZURE_CORE_INSTANCE_DISCOVERY=false" in shown.output
    assert 'az login --service-principal -u "$AZURE_CLIENT_ID" -p "$AZURE_CLIENT_SECRET"' in shown.output
    again = CliRunner().invoke(app, ["tls", "--data", str(data), "--port", "9999"])
    assert again.output == shown.output
    checked = subprocess.run(["sh", "-n", "-c", shown.output], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stderr


def test_wrong_places_are_named(tmp_path: Path) -> None:
    """Without a data directory, or with a certificate of one's own, there is nothing to print."""
    missing = CliRunner().invoke(app, ["tls", "--data", str(tmp_path / "none")])
    assert isinstance(missing.exception, SettingsError)
    assert "there is no directory" in str(missing.exception)
    assert not (tmp_path / "none").exists()
    file = tmp_path / "recapito.toml"
    file.write_text('[tls]\ncert = "a.pem"\nkey = "a.key"\n')
    own = CliRunner().invoke(app, ["tls", "--data", str(tmp_path), "--settings", str(file)])
    assert "tls.cert" in str(own.exception)


def serve(data: Path, *flags: str, expect: str) -> str:
    """Start a server, read what it says until `expect` or for a while, and stop it."""
    process = subprocess.Popen(
        [sys.executable, "-m", "recapito", "serve", "--data", str(data), "--port", "0", *flags],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "COLUMNS": "400"},
    )
    assert process.stderr is not None
    overdue = threading.Timer(30, process.kill)
    overdue.start()
    said = ""
    try:
        for line in process.stderr:
            said += line
            if expect in line:
                break
    finally:
        overdue.cancel()
        process.terminate()
        process.communicate()
    return said


def test_it_prints_the_port_that_is_served(tmp_path: Path) -> None:
    """A server on any port leaves word of it, which a port that is given, or none yet, overrides."""
    usual = CliRunner().invoke(app, ["tls", "--data", str(tmp_path)])
    assert "--endpoint-resource-manager https://localhost:8585\n" in usual.output
    said = serve(tmp_path, "--tls", expect="recapito tls --data")
    served = re.search(r"recapito tls --data \S+ --port (\d+)\n", said)
    assert served is not None and served[1] != "8585"
    for flags, port in (([], served[1]), (["--port", "9999"], "9999")):
        shown = CliRunner().invoke(app, ["tls", "--data", str(tmp_path), *flags])
        assert f"--endpoint-resource-manager https://localhost:{port}\n" in shown.output
        assert f'authority="https://localhost:{port}"' in shown.output


def test_on_loopback_the_principal_is_shown(tmp_path: Path) -> None:
    """A server with TLS asks itself over TLS for its first topic, and shows commands that trust it."""
    said = serve(tmp_path, "--memory", "--tls", expect="recapito explain")
    assert re.search(r"endpoint  https://localhost:\d+/topics/demo/api/events", said)
    assert re.search(r"export AZURE_TENANT_ID=[0-9a-f-]{36} AZURE_CLIENT_ID=[0-9a-f-]{36}\n", said)
    assert re.search(r"export AZURE_CLIENT_SECRET=[0-9a-f]{48} AZURE_AUTHORITY_HOST=https://localhost:\d+\n", said)
    authority = tmp_path / "tls" / "ca.pem"
    assert f"curl --cacert {authority} " in said
    assert re.search(rf"recapito tls --data {tmp_path} --port \d+\n", said)
    assert re.search(rf"recapito explain 1 --server https://localhost:\d+ --ca-file {authority}\n", said)


def test_the_commands_fit_the_topic_and_the_place(tmp_path: Path) -> None:
    """The topic that is shown takes the event that is shown; directory and server are named as they are."""
    data = tmp_path / "of [bold] letters"
    with server(data) as it:
        body = {"location": "local", "properties": {"inputSchema": "CloudEventSchemaV1_0"}}
        it.call("PUT", f"{GROUP}/topics/aaa?{VERSION}", body)
    said = serve(data, expect="recapito explain")
    assert "  topic     demo\n" in said and "/topics/demo/api/events" in said
    assert f"keeps its data in {data};" in said
    assert re.search(r"recapito explain 1 --server http://127.0.0.1:\d+\n", said)


@pytest.mark.parametrize("flags", [[], ["--tls"]])
def test_off_loopback_there_is_none(tmp_path: Path, flags: list[str]) -> None:
    """A server that others can reach says that management needs a token, and shows no principal and no key."""
    said = serve(tmp_path, "--memory", "--host", "0.0.0.0", *flags, expect="oauth2" if flags else "--tls")
    assert "management needs a token" in said and "[identity]" in said
    assert ("in clear" in said) is not bool(flags)
    assert "AZURE_CLIENT_SECRET" not in said and "aeg-sas-key" not in said
    assert not [line for line in said.splitlines() if line.startswith("{") and "error" in json.loads(line)]
