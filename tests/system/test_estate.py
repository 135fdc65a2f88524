"""`recapito serve --config` as a process: the file is followed while events flow, and a wrong one is shown."""

import json
import subprocess
import sys
from pathlib import Path

from tests.system.machine import GROUP, VERSION, receiver, server, until

KEYS = ("MDEyMzQ1Njc4OWFiY2RlZg==", "QUJDREVGR0hJSktMTU5PUA==")
FILE = """
topics:
  - name: orders
    keys: {{key1: {{file: key}}}}
    subscriptions:
      - name: all
        endpoint: {url}
{more}
"""


def test_followed_while_events_flow(tmp_path: Path) -> None:
    """Changes of the file and of a secret are taken while events flow, and none is lost; a wrong file is shown."""
    file, key = tmp_path / "estate.yaml", tmp_path / "key"
    key.write_text(KEYS[0], "utf-8")
    path = "/topics/orders/api/events?api-version=2018-01-01"

    with receiver() as hook:
        file.write_text(FILE.format(url=hook.url, more=""), "utf-8")
        with server(tmp_path / "data", "--config", str(file), "--no-portal") as it:
            sent: set[str] = set()

            def publish(aeg_key: str = KEYS[0]) -> int:
                id = f"e{len(sent)}"
                event = {"id": id, "eventType": "t", "subject": "s", "eventTime": "2026-01-01T00:00:00Z"}
                body = json.dumps([{**event, "data": {}, "dataVersion": "1"}]).encode()
                status, _ = it.request("POST", path, body, aeg_sas_key=aeg_key)
                if status == 200:
                    sent.add(id)
                return status

            assert publish() == 200
            file.write_text(FILE.format(url=hook.url, more="        labels: [changed]\n  - second"), "utf-8")
            second = f"{GROUP}/topics/second?{VERSION}"
            assert until(lambda: publish() == 200 and it.request("GET", second)[0] == 200)
            key.write_text(KEYS[1], "utf-8")
            it.hang_up()
            keys = f"{GROUP}/topics/orders/listKeys?{VERSION}"  # publishing with a wrong key is slowed down
            assert until(lambda: it.call("POST", keys)["key1"] == KEYS[1])
            assert (publish(KEYS[1]), publish(KEYS[0])) == (200, 401)
            file.write_text("topics:\n  - name: orders\n    inputSchem: x\n", "utf-8")

            def estate() -> str:
                checks = json.loads(it.request("GET", "/readyz")[1])["checks"]
                return str(checks["estate"])

            assert until(lambda: f"{file}:3: topics[0].inputSchem" in estate())
            assert it.request("GET", "/readyz")[0] == 200
            said = subprocess.run(
                [sys.executable, "-m", "recapito", "doctor", "--server", it.url, "--data", str(tmp_path / "data")],
                capture_output=True,
                text=True,
            )
            assert said.returncode == 1 and "correct the file" in said.stdout
            assert publish(KEYS[1]) == 200
            hook.wait_for(sent)
            assert not any(one in line for one in KEYS for line in it.journal)


def test_a_wrong_file_at_start(tmp_path: Path) -> None:
    """A server with a wrong file does not start; its last line names the file, the line and the key."""
    file = tmp_path / "estate.yaml"
    file.write_text("topics:\n  - name: orders\n    subscriptions:\n      - {name: mine, endpoint: ftp://x}\n", "utf-8")
    said = subprocess.run(
        [sys.executable, "-m", "recapito", "serve", "--memory", "--port", "0", "--no-portal", "--config", str(file)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert said.returncode == 78
    assert f"{file}:4: topics[0].subscriptions[0]" in said.stderr.splitlines()[-1]
