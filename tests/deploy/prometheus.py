"""Debian's Prometheus, started on a free port and ended by the test that started it."""

import json
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import urlopen

from tests.kit import launch
from tests.system.machine import until

CONFIGURATION = """\
global: {{scrape_interval: 200ms, evaluation_interval: 200ms}}
rule_files: [{rules}]
scrape_configs:
  - job_name: recapito
    static_configs: [{{targets: ["127.0.0.1:{port}"]}}]
"""


def need(name: str) -> str:
    """The path of one of Prometheus' programs, or the test is skipped."""
    return launch.program(name, "apt-get install prometheus")


class Prometheus:
    """Scrapes one server five times a second."""

    def __init__(self, directory: Path, port: int, rules: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            own: int = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{own}"
        directory.mkdir()
        (directory / "prometheus.yml").write_text(CONFIGURATION.format(rules=rules, port=port))
        flags = {
            "config.file": "prometheus.yml",
            "storage.tsdb.path": "store",
            "web.listen-address": f"127.0.0.1:{own}",
        }
        self._process = subprocess.Popen(
            [need("prometheus"), *(f"--{name}={value}" for name, value in flags.items())],
            cwd=directory,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        assert until(self._ready), "prometheus does not get ready"

    def _ready(self) -> bool:
        try:
            with urlopen(f"{self.url}/-/ready", timeout=5) as answer:
                return bool(answer.status == 200)
        except (URLError, OSError):
            return False

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The current value of an expression."""
        with urlopen(f"{self.url}/api/v1/query?{urlencode({'query': expression})}", timeout=10) as answer:
            result: list[dict[str, Any]] = json.load(answer)["data"]["result"]
        return result

    def value(self, expression: str) -> float | None:
        """The one value of an expression; None if there is none."""
        found = self.query(expression)
        return float(found[0]["value"][1]) if found else None

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(30)


@contextmanager
def scraping(directory: Path, port: int, rules: Path) -> Iterator[Prometheus]:
    """A Prometheus for the length of a test."""
    it = Prometheus(directory, port, rules)
    try:
        yield it
    finally:
        it.close()
