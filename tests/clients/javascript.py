"""Node with Microsoft's clients: runs the stories of node/*.mjs, which print one JSON value."""

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.clients.service import requirement

STORIES = Path(__file__).parent / "node"
PATIENCE_S = 120.0


class Node:
    """A call runs a story with a JSON value, and gives the one it printed. Every story gets the values of `given`."""

    def __init__(self, given: Mapping[str, Any], environment: Mapping[str, str]) -> None:
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
        self._environment = {**os.environ, **environment}
        self._given = given

    def __call__(self, story: str, **given: Any) -> Any:
        """Run a story."""
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
