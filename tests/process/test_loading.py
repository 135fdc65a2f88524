"""Roles load what they need and no more, because a takeover waits for them."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("module", "foreign"),
    [
        ("recapito.process.intake_role", {"aiohttp", "nats", "recapito.api.router", "recapito.dispatch.dispatcher"}),
        ("recapito.process.dispatch_role", {"aiohttp", "nats", "uvicorn", "starlette", "yaml", "recapito.api.app"}),
        ("recapito.process.standby", {"nats", "pycurl", "recapito.stores.sqlite", "recapito.dispatch.dispatcher"}),
        ("recapito.process.supervisor", {"aiohttp", "nats", "uvicorn", "apsw"}),
    ],
)
def test_a_role_does_not_load_what_it_does_not_use(module: str, foreign: set[str]) -> None:
    """Neither the router's client nor NATS is in a role that may not need it."""
    script = f"import sys, {module}; print(*(name for name in {sorted(foreign)!r} if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
