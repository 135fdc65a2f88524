"""The container file and its composition: what can be known of them without building one."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import yaml

from recapito.settings import settings
from tests.system.machine import server

ROOT = Path(__file__).parents[2]
CONTAINER = ROOT / "deploy" / "container"
PATIENCE_S = 60


def instructions() -> list[tuple[str, str]]:
    """The instructions of the container file, each on one line."""
    text = re.sub(r"^#.*\n", "", (CONTAINER / "Containerfile").read_text("utf-8"), flags=re.MULTILINE)
    lines = re.sub(r"\\\n\s*", "", text).splitlines()
    return [(line.split(" ", 1)[0], line.split(" ", 1)[1]) for line in lines if line]


def compose() -> dict[str, Any]:
    read: dict[str, Any] = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text("utf-8"))
    return read


def container_environment() -> dict[str, str]:
    return dict(pair.split("=", 1) for name, text in instructions() if name == "ENV" for pair in text.split())


def test_what_is_copied_is_there() -> None:
    """Each source of COPY is in the repository, and everything that the build needs is copied."""
    copied = [text.split() for name, text in instructions() if name == "COPY" and "--from" not in text]
    sources = [word for words in copied for word in words[:-1]]
    assert sources and all((ROOT / source).exists() for source in sources)
    assert {"src", "pyproject.toml", "README.md", "LICENSE", "requirements/run.txt"} <= set(sources)


def test_it_does_not_run_as_root() -> None:
    """The last user is a number that is not root's, and the data is a volume that it owns."""
    assert [text for name, text in instructions() if name == "USER"] == ["8585"]
    assert [text for name, text in instructions() if name == "VOLUME"] == ["/var/lib/recapito"]


def test_its_environment_is_made_of_settings() -> None:
    """Every variable of Recapito's, here and in the composition, is a setting with a value that it takes."""
    service = compose()["services"]["recapito"]
    shown = {**container_environment(), **service["environment"]}
    given = {name: re.sub(r"\$\{[^}]*\}", "a" * 64, value) for name, value in shown.items()}
    ours = {name: value for name, value in given.items() if name.startswith(settings.ENVIRONMENT_PREFIX)}
    known = {f"RECAPITO_{section}_{key}".upper() for section, key in _settings()}
    assert set(ours) <= known
    chosen = settings.load(environment=ours)
    assert chosen.server.host == "0.0.0.0"
    assert chosen.server.data == "/var/lib/recapito"
    assert chosen.tls.on and chosen.azure.azurite
    assert [one.client_id for one in chosen.identity.principals] == ["admin"]
    assert service["volumes"] == [f"recapito:{chosen.server.data}"]


def _settings() -> list[tuple[str, str]]:
    return [(section, key) for section, keys in tomllib.loads(settings.defaults_text()).items() for key in keys]


def test_the_composition_builds_this_container() -> None:
    """Its build names the container file, from the root of the repository."""
    build = compose()["services"]["recapito"]["build"]
    root = (ROOT / "deploy" / build["context"]).resolve()
    assert root == ROOT and (root / build["dockerfile"]).samefile(CONTAINER / "Containerfile")


def test_its_health_is_that_of_the_server(tmp_path: Path) -> None:
    """The health check passes while a server answers, with TLS too, and fails without one."""
    for flags in ([], ["--tls"]):
        with server(tmp_path / f"data{len(flags)}", *flags) as it:
            port = str(it.port)
            assert health(port) == 0
        assert health(port) == 1


def health(port: str) -> int:
    environment = {**os.environ, "RECAPITO_SERVER_PORT": port}
    return subprocess.run([sys.executable, CONTAINER / "health.py"], env=environment, timeout=PATIENCE_S).returncode
