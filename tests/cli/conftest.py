"""A server for all tests of the command line, with a clock that stands still, and defaults that name it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.system.machine import Server, server


@pytest.fixture(scope="session")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server in memory."""
    with server(tmp_path_factory.mktemp("server"), "--memory", "--clock", "manual", "--handshake", "on") as it:
        yield it


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No defaults from the user who runs the tests, and a terminal of a known width."""
    for name in ("SERVER", "SUBSCRIPTION", "GROUP", "LOCATION", "KEY", "CA_FILE", "OUTPUT", "TOKEN"):
        monkeypatch.delenv(f"RECAPITO_{name}", raising=False)
    for name in ("TENANT_ID", "CLIENT_ID", "CLIENT_SECRET"):
        monkeypatch.delenv(f"AZURE_{name}", raising=False)
    monkeypatch.setenv("RECAPITO_CONFIG", str(tmp_path / "config.toml"))
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def live(running: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    """The server, which all commands ask."""
    monkeypatch.setenv("RECAPITO_SERVER", running.url)
    return running
