"""A real terminal: bash in tmux. Its screen is read as a person reads it, and keys are pressed as one does."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.system.machine import until

PROMPT = "ready> "


class Tmux:
    """One window with a shell in it."""

    def __init__(self, place: Path, columns: int, rows: int) -> None:
        self._socket = place / "tmux"
        bin = Path(sys.executable).parent
        shell = f"env PS1='{PROMPT}' PATH={bin}:{os.environ['PATH']} TERM=screen-256color bash --norc --noprofile"
        size = ["-x", str(columns), "-y", str(rows)]
        self._run("-f", "/dev/null", "new-session", "-d", "-s", "it", *size, shell)
        self._run("set-option", "-g", "status", "off")
        self.resize(columns, rows)
        self.wait_for(lambda screen: screen.startswith(PROMPT.strip()))

    def _run(self, *words: str) -> str:
        command = ["tmux", "-S", str(self._socket), *words]
        environment = {name: value for name, value in os.environ.items() if name not in ("TMUX", "COLUMNS", "LINES")}
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=20).stdout

    @property
    def screen(self) -> str:
        """The screen now, without blanks at line ends."""
        return self._run("capture-pane", "-p", "-t", "it").rstrip()

    @property
    def coloured(self) -> str:
        """The screen with the terminal's own words for colours."""
        return self._run("capture-pane", "-p", "-e", "-t", "it")

    def type(self, text: str) -> None:
        """Type text."""
        self._run("send-keys", "-t", "it", "-l", "--", text)

    def press(self, *keys: str) -> None:
        """Press keys by their names: Enter, Tab, C-c."""
        self._run("send-keys", "-t", "it", *keys)

    def enter(self, line: str) -> None:
        """Type a line on an empty screen and run it."""
        self.type(line)
        self.press("Enter")

    def resize(self, columns: int, rows: int) -> None:
        """Give the window another size."""
        self._run("resize-window", "-t", "it", "-x", str(columns), "-y", str(rows))

    def wait_for(self, condition: str | Callable[[str], bool]) -> str:
        """The screen, once it shows a text or is as it should be."""
        shown = ""

        def holds() -> bool:
            nonlocal shown
            shown = self.screen
            return condition in shown if isinstance(condition, str) else condition(shown)

        assert until(holds), f"waited for {condition!r}, and saw:\n{shown}"
        return shown

    def close(self) -> None:
        """End the shell and what runs in it."""
        self._run("kill-server")


@contextmanager
def tmux(columns: int = 100, rows: int = 24) -> Iterator[Tmux]:
    """A terminal for the length of a test; without tmux the test is skipped, except where nothing may be."""
    if shutil.which("tmux") is None:
        assert not os.environ.get("CI"), "tmux is missing, and nothing may be skipped here"
        pytest.skip("tmux is not installed")
    with TemporaryDirectory() as place:  # a test's own directory has too long a name for a socket
        it = Tmux(Path(place), columns, rows)
        try:
            yield it
        finally:
            it.close()
