"""schemathesis reads our OpenAPI description and sends what it can think of: no answer is a server error."""

import subprocess
import sys
from pathlib import Path

from tests.clients.service import Service, service

SEED = "20261116"
BUDGET_S = "60"


def test_no_server_errors(tmp_path: Path) -> None:
    """Generated requests, valid and not, on every operation, are never answered with 5xx, and the server goes on."""
    with service(tmp_path / "data", "--handshake", "off") as recapito:
        done = subprocess.run(
            [
                *(Path(sys.executable).parent / "schemathesis", "run", f"{recapito.url}/openapi.json"),
                *("--checks", "not_a_server_error", "--phases", "examples,coverage,fuzzing"),
                *("--max-examples", "15", "--seed", SEED, "--max-time", BUDGET_S, "--request-timeout", "10"),
                *("--header", f"Authorization: Bearer {token(recapito)}", "--tls-verify", recapito.ca_file),
                *("--continue-on-failure", "--no-color", "--warnings", "off"),
            ],
            capture_output=True,
            text=True,
            cwd=tmp_path,
        )
        assert done.returncode == 0, done.stdout[-8000:] + done.stderr
        assert "Traceback" not in recapito.said
