"""The portal is a process of its own, beside the server and never in its way."""

import os
import socket
import ssl
import subprocess
import sys
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.portal.browser import WITH_PORTAL, portal_of, server_with_portal
from tests.system.machine import PATIENCE_S, Server, server, until


def fetch(url: str, authority: Path | None = None) -> tuple[int, str]:
    """The status and the text of a page."""
    context = ssl.create_default_context(cafile=authority) if authority else None
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), *([urllib.request.HTTPSHandler(context=context)] if context else [])
    )
    with opener.open(url, timeout=PATIENCE_S) as answer:
        return answer.status, answer.read().decode()


def test_portal_lives_and_dies_beside_its_server(tmp_path: Path) -> None:
    """It is a process of its own, is started again when it dies, takes nothing with it, and ends with its server."""
    running = Server(tmp_path, "--portal-port", "0", environment=WITH_PORTAL)
    try:
        portal = portal_of(running)
        status, page = fetch(portal)
        assert status == 200 and "Recapito" in page
        first = running.roles()["portal"]
        running.kill("portal")
        assert running.publish("1") == 200
        assert until(lambda: running.roles().get("portal", first) != first)
        assert fetch(portal)[0] == 200
        assert {"intake", "dispatch"} <= set(running.roles())
        second = running.roles()["portal"]
    finally:
        running.kill("parent")
        running.stop()
    assert until(lambda: not Path(f"/proc/{second}").exists())


def test_a_head_that_does_not_end_is_refused(tmp_path: Path) -> None:
    """No request without an end fills the portal's memory."""
    with server_with_portal(tmp_path, "--memory") as (_, portal):
        at = urlsplit(portal)
        with socket.create_connection((at.hostname or "", at.port or 0), PATIENCE_S) as line:
            line.sendall(b"GET / HTTP/1.1\r\nHost: ")
            with pytest.raises(ConnectionError):
                for _ in range(1000):
                    line.sendall(b"a" * 64_000)
        assert fetch(portal)[0] == 200


def test_no_portal_if_it_is_not_wanted(tmp_path: Path) -> None:
    """With --no-portal there is none."""
    with server(tmp_path, "--memory", "--no-portal", environment=WITH_PORTAL) as running:
        assert "portal" not in running.roles()


def test_busy_default_port_leaves_the_server_running(tmp_path: Path) -> None:
    """A busy default port is reported, and the server serves without a portal."""
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            taken.bind(("127.0.0.1", 8586))
            taken.listen()
        except OSError:
            pass  # somebody else has it: as good
        with server(tmp_path, "--memory", environment=WITH_PORTAL) as running:
            assert running.publish("1") == 200
            assert until(lambda: any("there is no portal" in line for line in running.journal))
            assert "portal" not in running.roles()


def test_busy_chosen_port_is_an_error(tmp_path: Path) -> None:
    """A busy port that was chosen is an error that names the flag."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        refused = subprocess.run(
            [sys.executable, "-m", "recapito", "serve", "--memory", "--port", "0", "--portal-port", port],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            env={**os.environ, **WITH_PORTAL},
            cwd=tmp_path,
        )
    assert refused.returncode == os.EX_CONFIG
    assert "portal.port" in refused.stderr and "--portal-port" in refused.stderr and port in refused.stderr


def test_tls_is_the_servers_own(tmp_path: Path) -> None:
    """With --tls the portal has the server's certificate, and reaches the server by it; in one process as in two."""
    with server_with_portal(tmp_path, "--memory", "--tls") as (running, portal):
        assert portal.startswith("https://localhost:")
        status, page = fetch(portal, running.authority)
        assert status == 200 and "demo" in page  # the name of the first topic: the server was asked
