"""The scrape token: made once, found by a command, good for metrics alone."""

import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

from tests.system.machine import PATIENCE_S, server


def ask(url: str, token: str | None) -> tuple[int, bytes]:
    """A request as Prometheus makes it."""
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=PATIENCE_S) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def recapito(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "recapito", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, env={**os.environ})


def test_the_token_of_a_server_that_others_reach(tmp_path: Path) -> None:
    """It is made at the first start, stays the same, is the owner's alone, and opens metrics but not management."""
    data, tokens = tmp_path / "data", []
    missing = recapito("scrape-token", "--data", str(data))
    assert missing.returncode == 78 and "`recapito serve` creates it" in missing.stderr
    for _ in range(2):
        with server(data, "--host", "0.0.0.0", "--no-portal") as it:
            tokens.append(recapito("scrape-token", "--data", str(data)).stdout.strip())
            url = f"http://127.0.0.1:{it.port}"
            assert ask(f"{url}/metrics", None)[0] == ask(f"{url}/metrics", "wrong")[0] == 401
            status, body = ask(f"{url}/metrics", tokens[-1])
            assert status == 200 and b"recapito_commits_total" in body
            assert list(json.loads(ask(f"{url}/readyz", None)[1])) == ["status"]
            assert "checks" in json.loads(ask(f"{url}/readyz", tokens[-1])[1])
            assert ask(f"{url}/lanes", tokens[-1])[0] == 401
    assert tokens[0] == tokens[1] and len(tokens[0]) > 40
    assert (data / "identity" / "scrape-token").stat().st_mode & 0o777 == 0o600
