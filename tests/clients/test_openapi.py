"""schemathesis reads our OpenAPI description and sends what it can think of: no answer is a server error."""

import json
import subprocess
import sys
import urllib.request
from pathlib import Path

from tests.system.machine import GROUP, server

SEED = "20261116"
EXAMPLES = "4"
# What the generated requests name, so that they reach more than "not found".
KNOWN = {
    "subscription": "00000000-0000-0000-0000-000000000000",
    "group": "local",
    "topic": "demo",
    "domain_topic": "north",
    "name": "fuzzed",
    "location": "local",
    "scope": f"{GROUP}/topics/demo".lstrip("/"),
}


def test_no_server_errors(tmp_path: Path) -> None:
    """Requests made from the description, valid and not, are never answered with 5xx, and the server goes on."""
    with server(tmp_path / "data", "--handshake", "off") as recapito:
        with urllib.request.urlopen(f"{recapito.url}/openapi.json") as answer:
            description = json.load(answer)
        for item in description["paths"].values():
            for parameter in item.get("parameters", []):
                if parameter.get("name") in KNOWN:
                    parameter["schema"] = {"enum": [KNOWN[parameter["name"]]]}
        file = tmp_path / "openapi.json"
        file.write_text(json.dumps(description))
        done = subprocess.run(
            [
                *(Path(sys.executable).parent / "schemathesis", "run", file, "--url", recapito.url),
                *("--checks", "not_a_server_error", "--phases", "coverage,fuzzing"),
                *("--max-examples", EXAMPLES, "--seed", SEED, "--request-timeout", "20"),
                *("--header", f"aeg-sas-key: {recapito.key}"),
                *("--exclude-method", "HEAD", "--continue-on-failure", "--no-color", "--warnings", "off"),
            ],
            capture_output=True,
            text=True,
            cwd=tmp_path,
        )
        assert done.returncode == 0, done.stdout[-8000:] + done.stderr
        assert recapito.request("GET", "/healthz")[0] == 200
        assert not [line for line in recapito.journal if "Traceback" in line]
