"""Nothing prints a traceback: not a full disk, a reader that left, a poor terminal, nor a mistake of ours."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from recapito.cli.toolkit.fatal import describe_defect
from tests.cli.terminal import ok, recapito
from tests.system.machine import Server, until

PROGRAM = f"{sys.executable} -m recapito"
COMMANDS = [
    "--help",
    "--version",
    "topic list",
    "topic list -o table",
    "topic list -o yaml",
    "profile list",
    "settings",
    "version",
]


def run(line: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A line of a shell."""
    return subprocess.run(
        ["bash", "-c", line], env={**os.environ, **environment}, capture_output=True, text=True, timeout=60
    )


@pytest.mark.parametrize("command", COMMANDS)
def test_a_full_disk(command: str, live: Server) -> None:
    """When the answer cannot be written, one line says why, and the exit code is 1."""
    done = run(f"{PROGRAM} {command} > /dev/full")
    assert (done.returncode, done.stderr) == (1, "recapito: No space left on device\n")


@pytest.mark.parametrize("command", COMMANDS)
def test_a_reader_that_left(command: str, live: Server) -> None:
    """Who reads only the first bytes hears no complaint; with no stdout at all neither."""
    assert run(f"{PROGRAM} {command} | head -c 1 > /dev/null").stderr == ""
    done = run(f"{PROGRAM} {command} >&-")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_listener_without_a_reader(live: Server) -> None:
    """`listen` ends, and takes its subscription away, when its output is no longer read."""
    ok("topic", "create", "unheard")
    listen = f"{PROGRAM} listen --port 0 --subscribe unheard --server {live.url}"
    with subprocess.Popen(["bash", "-c", f"{listen} | head -1"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as it:
        assert it.stdout is not None and b"handshake" in it.stdout.readline()
        assert until(lambda: bool(ok("event-subscription", "list", "--topic-name", "unheard")))
        ok("publish", "unheard", "--type", "t", "--count", "3", "--rate", "9")
        assert it.stderr is not None and b"Traceback" not in it.stderr.read()
        assert it.wait(30) == 0
    assert ok("event-subscription", "list", "--topic-name", "unheard") == []


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_a_poor_terminal(encoding: str, live: Server) -> None:
    """A character that a terminal does not have is written as its escape."""
    ok("topic", "create", "snowy", "--tags", "k=\u2603")
    ok("event-subscription", "list", "--topic-name", "snowy")
    for command in ("topic show snowy --query tags", "profile show 2021-03", "top --interval 0", "topic list -o table"):
        done = run(f"{PROGRAM} {command} | cat", PYTHONIOENCODING=encoding)
        assert done.stderr == "" and done.stdout
    shown = run(f"{PROGRAM} topic show snowy --query tags.k -o tsv", PYTHONIOENCODING=encoding).stdout.strip()
    assert shown in ("\u2603", "\\u2603")


def test_a_file_that_is_none(tmp_path: Path) -> None:
    """A directory where a file is meant is named, in one line."""
    said = recapito("listen", "--port", "0", "--script", str(tmp_path))
    assert said.code == 2 and "Traceback" not in said.err and str(tmp_path) in said.err.replace("\n", "")


@pytest.mark.parametrize(
    "words", [["explain", "\udcff"], ["topic", "show", "\udcff"], ["tail", "\udcff"]], ids="-".join
)
def test_words_that_are_not_text(words: list[str], live: Server) -> None:
    """Bytes that are no letters of the locale are refused as a wrong use."""
    said = recapito(*words)
    assert (said.code, said.out) == (2, "")
    assert said.err == "recapito: '\\udcff' cannot be sent as text; check the locale\n"


def test_a_mistake_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """A defect is one line with its place, and all of it for who asks."""
    try:
        {}["gone"]
    except KeyError as error:
        found = error
    line = describe_defect(found)
    assert line.startswith("this is a defect of Recapito: KeyError: 'gone' (test_ending.py, line ")
    assert line.endswith("RECAPITO_TRACEBACK=1 shows more.")
    monkeypatch.setenv("RECAPITO_TRACEBACK", "1")
    assert describe_defect(found).startswith("Traceback (most recent call last):")
