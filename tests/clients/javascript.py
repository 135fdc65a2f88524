"""Node with Microsoft's clients: runs the stories of node/*.mjs, which print one JSON value."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.clients.service import SUBSCRIPTION, Service, requirement

STORIES = Path(__file__).parent / "node"
PATIENCE_S = 120.0


class Node:
    """A call runs a story with a JSON value, and gives the one it printed."""

    def __init__(self, recapito: Service) -> None:
        program = shutil.which("node")
        if reason := requirement(
            Path(program or "/nowhere/node"), "there is no node here; install version 18 or newer"
        ):
            pytest.skip(reason)
        if reason := requirement(
            STORIES / "node_modules" / ".clients", "node has no clients; `make test` installs them by npm"
        ):
            pytest.skip(reason)
        assert program is not None
        version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
        # Microsoft's clients use the global `crypto`, which node has by itself from version 19 on.
        flags = ["--experimental-global-webcrypto"] if int(version[1:].split(".")[0]) < 19 else []
        self._command = [program, *flags]
        self._environment = {**os.environ, **recapito.trust}
        self._given = {"url": recapito.url, "subscription": SUBSCRIPTION, **recapito.principal._asdict()}

    def __call__(self, story: str, **given: Any) -> Any:
        """Run a story; besides what is given it knows the service's URL and the principal."""
        done = subprocess.run(
            [*self._command, str(STORIES / f"{story}.mjs")],
            input=json.dumps({**self._given, **given}),
            capture_output=True,
            text=True,
            env=self._environment,
            timeout=PATIENCE_S,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)
