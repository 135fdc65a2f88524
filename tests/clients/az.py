"""Microsoft's az, run as a user runs it, with a configuration of its own."""

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import pytest

from tests.clients.service import requirement

PYTHON = Path(__file__).parents[2] / ".venv-az" / "bin" / "python"
PATIENCE_S = 120.0


class Trusted(Protocol):
    """A service that az trusts by these variables of its environment."""

    @property
    def trust(self) -> Mapping[str, str]: ...


class Az:
    """One az, signed in to one service. A call gives what az printed, parsed."""

    def __init__(self, recapito: Trusted, directory: Path) -> None:
        if reason := requirement(PYTHON.parent.parent / ".az", "az is not in .venv-az; `make test` installs it"):
            pytest.skip(reason)
        # Without its own bytecode, each call takes two seconds longer.
        inherited = {k: v for k, v in os.environ.items() if k not in ("PYTHONDONTWRITEBYTECODE", "PYTHONPATH")}
        self._environment = {
            **inherited,
            **recapito.trust,
            "AZURE_CONFIG_DIR": str(directory),
            "AZURE_CORE_COLLECT_TELEMETRY": "no",
            "AZURE_CORE_INSTANCE_DISCOVERY": "false",
        }

    def __call__(self, line: str, *values: str) -> Any:
        """Run a command that must succeed: the words of the line, `{}` standing for the next value."""
        done = self._run(line, *values)
        assert done.returncode == 0, f"az {line}\n{done.stderr}"
        return json.loads(done.stdout) if done.stdout.strip() else None

    def fails(self, line: str, *values: str) -> str:
        """Run a command that must fail; what az says about it."""
        done = self._run(line, *values)
        assert done.returncode != 0, f"az {line}\n{done.stdout}"
        return done.stderr

    def _run(self, line: str, *values: str) -> subprocess.CompletedProcess[str]:
        remaining = iter(values)
        words = [next(remaining) if word == "{}" else word for word in line.split()]
        assert not list(remaining), "more values than places for them"
        return subprocess.run(
            [PYTHON, "-m", "azure.cli", *words],
            capture_output=True,
            text=True,
            env=self._environment,
            timeout=PATIENCE_S,
            stdin=subprocess.DEVNULL,
        )
