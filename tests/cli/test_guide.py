"""The guide tells the truth: its commands are known, and its table of defaults is what holds."""

import re
import shlex
from pathlib import Path

import pytest

from recapito.cli.defaults import DEFAULTS
from tests.cli.terminal import recapito

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "command-line.md").read_text("utf-8")
BLOCKS = re.findall(r"```sh\n(.*?)```", GUIDE, re.DOTALL)
COMMANDS = [line for block in BLOCKS for line in block.replace("\\\n", "").splitlines() if line.startswith("recapito ")]


@pytest.mark.parametrize("line", COMMANDS)
def test_its_commands_are_known(line: str) -> None:
    """Each command of the guide is read without a complaint about a word or a flag."""
    words = shlex.split(line)[1:]
    if words[0] == "config":
        assert words[2] in DEFAULTS
        return
    said = recapito(*words, *([] if "listen" not in words else ["--port", "0"]), "--server", "http://127.0.0.1:1")
    assert said.code == 1, said
    assert "No server listens" in said.err


def test_its_defaults_hold() -> None:
    """The guide names every default with its variable."""
    rows = dict(re.findall(r"^\| `(\w+)` \| .* \| `(RECAPITO_\w+)` \|", GUIDE, re.MULTILINE))
    assert rows == {key: default.variable for key, default in DEFAULTS.items()}
