"""The guides, as their readers use them: blocks of code by language, and the commands in them."""

import re
import shlex
from pathlib import Path

from typer.core import TyperGroup
from typer.main import get_command

from recapito.cli import app
from recapito.cli.toolkit.lazy import LazyCommand

ROOT = Path(__file__).parents[2]
PAGES = {page.stem: page for page in (ROOT / "README.md", *sorted((ROOT / "docs" / "guides").glob("*.md")))}
NAMES = tuple(PAGES)
_COMMAND = re.compile(r"(?:^|\$\(|[ /])recapito ((?!\(|recapito )[a-z][^|<>&)#]*)")


def blocks(name: str, language: str) -> list[str]:
    """The blocks of one language on a page."""
    text = PAGES[name].read_text("utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def indented(name: str) -> str:
    """The lines of a page that are code by their indentation."""
    found: list[str] = re.findall(r"^    (.+)$", PAGES[name].read_text("utf-8"), re.MULTILINE)
    return "\n".join(found)


def block(name: str, language: str, mark: str) -> str:
    """The one block that has a mark in it."""
    [found] = [text for text in blocks(name, language) if mark in text]
    return found


def commands(name: str) -> list[list[str]]:
    """The commands of `recapito` in the shell blocks of a page, as words."""
    shown = [*blocks(name, "sh"), indented(name)]
    lines = [line for text in shown for line in text.replace("\\\n", "").splitlines()]
    programs = [line for line in lines if not line.startswith(("#", "install ", "useradd ", "systemctl ", "docker "))]
    return [shlex.split(found) for line in programs for found in _COMMAND.findall(line)]


def check_command(words: list[str]) -> None:
    """Read a command without running it; click raises an error for an unknown word or flag."""
    command = get_command(app)
    while isinstance(command, TyperGroup):
        found = command.commands[words[0]]
        command, words = (found.load() if isinstance(found, LazyCommand) else found), words[1:]
    command.make_context("recapito", list(words)).close()
