"""The unit for systemd: systemd itself finds nothing wrong with it, and its command is one of ours."""

import configparser
import re
import shlex
import subprocess
from pathlib import Path

from typer.main import get_command

from recapito.cli import app
from recapito.cli.toolkit.exit_codes import WRONG_SETTINGS
from recapito.cli.toolkit.lazy import LazyCommand
from tests.kit import launch

UNIT = Path(__file__).parents[2] / "deploy" / "systemd" / "recapito.service"
PATIENCE_S = 60


def unit() -> configparser.ConfigParser:
    read = configparser.ConfigParser(strict=False, interpolation=None)
    read.optionxform = str  # type: ignore[assignment, method-assign] # systemd's names have capitals
    read.read_string(UNIT.read_text("utf-8"))
    return read


def analyze(*arguments: str) -> str:
    """The output of systemd-analyze, without which the test is skipped."""
    program = launch.program("systemd-analyze", "apt-get install systemd")
    done = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=PATIENCE_S)
    return done.stdout + done.stderr


def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    """`systemd-analyze verify` has no complaint; the program stands where the unit says on the server only."""
    here = tmp_path / UNIT.name
    here.write_text(UNIT.read_text("utf-8").replace("/opt/recapito/venv/bin/recapito", "/bin/true"), "utf-8")
    said = [line for line in analyze("verify", "--man=no", str(here)).splitlines() if UNIT.name in line]
    assert said == []


def test_the_unit_is_hardened() -> None:
    """systemd rates what the service is exposed to as low."""
    said = analyze("security", "--offline=true", str(UNIT))
    assert re.search(r"exposure level for recapito.service: [0-2]\.\d", said), said


def test_its_command_is_known() -> None:
    """The server understands the flags of ExecStart, and a wrong setting is the exit code that is not tried again."""
    service = unit()["Service"]
    program, name, *flags = shlex.split(service["ExecStart"])
    assert Path(program).name == "recapito"
    assert name == "serve"
    found = get_command(app).commands[name]  # type: ignore[attr-defined]
    command = found.load() if isinstance(found, LazyCommand) else found
    flags[flags.index("--settings") + 1] = str(UNIT)
    assert command.make_context(name, flags).params["data"] == f"/var/lib/{service['StateDirectory']}"
    assert service["RestartPreventExitStatus"] == str(WRONG_SETTINGS)
