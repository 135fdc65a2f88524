"""A server whose parent is killed leaves no process behind that keeps the next one from starting."""

import random
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.system.machine import Server, receiver, until

ROUNDS = 24
LONGEST_RESTART_S = 0.7


@pytest.mark.slow
def test_a_parent_killed_while_a_role_restarts(tmp_path: Path) -> None:
    """At whatever moment of a role's restart the parent is killed, the next start succeeds, on the same port."""
    chance = random.Random(8)
    with receiver() as hook:
        recapito = Server(tmp_path / "data", "--no-portal")
        recapito.subscribe("sub", hook.url)
        for round in range(ROUNDS):
            assert recapito.publish(str(round)) == 200
            recapito.kill(chance.choice(["intake", "dispatch"]))
            threading.Event().wait(chance.uniform(0, LONGEST_RESTART_S))
            recapito.kill("parent")
            killed, recapito = recapito, Server(tmp_path / "data", "--no-portal", port=recapito.port)
            killed.stop()
        hook.wait_for({str(round) for round in range(ROUNDS)})
        assert recapito.stop() == 0


@pytest.mark.parametrize("role", ["intake", "dispatch", "portal"])
def test_a_role_goes_with_its_parent(tmp_path: Path, role: str) -> None:
    """None outlives a parent that is killed, not even one that cannot read its standard input."""
    recapito = Server(tmp_path / "data", "--portal-port", "0", environment={"RECAPITO_PORTAL_ENABLED": "true"})
    assert until(lambda: role in recapito.roles())
    pid = recapito.roles()[role]
    recapito.kill("parent")
    recapito.stop()
    assert until(lambda: not Path(f"/proc/{pid}").exists(), 5)


def test_an_orphan_does_not_begin() -> None:
    """A role that finds itself with another parent than the one that started it ends before it does anything."""
    ended = subprocess.run(
        [sys.executable, "-m", "recapito", "role", "intake", "1"], input="", capture_output=True, text=True, timeout=30
    )
    assert ended.returncode == 1
    assert ended.stdout == ""
    assert ended.stderr == ""
