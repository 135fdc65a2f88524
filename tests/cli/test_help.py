"""The help: every command has one, it comes quickly, and a typo is answered with what was meant."""

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import typer.main
from typer.core import TyperGroup

from recapito.cli import app
from recapito.cli.toolkit.lazy import LazyCommand
from tests.cli.terminal import lines, recapito
from tests.system.machine import Server

HEAVY = {
    *("starlette", "uvicorn", "uvloop", "aiohttp", "nicegui", "opentelemetry", "prometheus_client", "azure"),
    *("cryptography", "jwt", "apsw", "pycurl", "rich", "yaml", "jmespath", "pydantic", "asyncio"),
}


def commands(group: TyperGroup, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command and every group, by the words that name it."""
    for name, listed in group.commands.items():
        command = listed.load() if isinstance(listed, LazyCommand) else listed
        yield (*path, name), command
        if isinstance(command, TyperGroup):
            yield from commands(command, (*path, name))


ROOT = typer.main.get_command(app)
assert isinstance(ROOT, TyperGroup)
TREE = dict(commands(ROOT))
COMMANDS = sorted(TREE)
LONGEST = 12


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_has_help(words: tuple[str, ...]) -> None:
    """--help says how a command is used and what it is for, and every flag says what it means."""
    said = recapito(*words, "--help")
    assert recapito(*words, "-h") == said
    assert said.code == 0
    assert said.out.startswith(f"Usage: recapito {' '.join(words)} ")
    assert len(lines(said.out)) > 3
    assert not said.err


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_help_is_short(words: tuple[str, ...]) -> None:
    """A command and each of its flags are described in at most a dozen words."""
    command = TREE[words]
    texts = [command.help.split("\n\n")[0], *(parameter.help or "" for parameter in command.params)]
    assert [text for text in texts if len(text.split()) > LONGEST] == []


@pytest.mark.parametrize(
    ("words", "form"), [(["schedule"], "table"), (["doctor"], "table"), (["topic", "list"], "json")]
)
def test_the_form_of_an_answer_is_told(words: list[str], form: str) -> None:
    """--help says in which form this very command answers."""
    assert f"Format of the answer. [default: ({form})]" in " ".join(recapito(*words, "--help").out.split())


def test_the_help_itself() -> None:
    """The help names every command, in the order in which one needs them."""
    said = recapito("--help")
    listed = said.out.partition("Commands:\n")[2]
    assert lines(listed)[:9] == [
        "  serve               Run the server.",
        "  topic               Manage topics and their keys.",
        "  event-subscription  Manage event subscriptions.",
        "  domain              Manage domains, their topics and their keys.",
        "  system-topic        Manage system topics.",
        "  topic-type          List topic types and their event types.",
        "  publish             Publish events.",
        "  listen              Run a webhook receiver that can simulate failures.",
        "  explain             Explain the deliveries of an event.",
    ]


@pytest.mark.parametrize(
    ("words", "heavy"),
    [
        (["--help"], HEAVY | {"msgspec", "ssl"}),
        (["topic", "list"], HEAVY | {"msgspec"}),
        (["topic", "list", "-o", "tsv"], HEAVY | {"msgspec"}),
        (["topic", "show", "demo", "-g", "local", "--only-show-errors"], HEAVY | {"msgspec"}),
        (["event-subscription", "list", "--topic-name", "demo"], HEAVY),
        (["event-subscription", "create", "--help"], HEAVY),
        (["tail", "--no-follow", "--help"], HEAVY),
    ],
    ids=lambda given: " ".join(given) if isinstance(given, list) else "",
)
def test_what_is_heavy_is_not_imported(words: list[str], heavy: set[str], live: Server) -> None:
    """The help and a small command load nothing of the server, so they start at once."""
    program = (
        "import sys, json; from recapito.cli import run\n"
        "try:\n    run(sys.argv[1:])\nexcept SystemExit:\n    pass\n"
        "print(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True, check=True)
    assert not heavy & set(json.loads(done.stderr))
    assert done.stdout


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["topc", "list"], "'topic'"),
        (["event-subscriptions"], "'event-subscription'"),
        (["topic", "lst"], "'list'"),
        (["topic", "create", "orders", "--input-shema", "x"], "--input-schema"),
        (["event-subscription", "create", "mine", "--max-event-per-batch", "3"], "--max-events-per-batch"),
    ],
)
def test_a_typo_is_answered_with_what_was_meant(words: list[str], meant: str) -> None:
    """A command or a flag that is not there names the one that is, and ends with 2."""
    said = recapito(*words)
    assert said.code == 2
    assert meant in said.err
    assert not said.out


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(shell: str) -> None:
    """The script that completes our commands is printed for each known shell."""
    command = [sys.executable, "-m", "recapito", "completion", shell]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "_RECAPITO_COMPLETE=complete_" + shell in done.stdout
    assert recapito("completion", "tcsh").code == 2


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("recapito topi", ["topic", "topic-type"]),
        ("recapito topic k", ["key"]),
        ("recapito topic list --q", ["--query"]),
    ],
)
def test_what_is_completed(typed: str, offered: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Nouns, verbs and flags are completed, also those that are not loaded yet."""
    monkeypatch.setenv("COMP_WORDS", typed)
    monkeypatch.setenv("COMP_CWORD", str(len(typed.split()) - 1))
    monkeypatch.setenv("_RECAPITO_COMPLETE", "complete_bash")
    assert lines(recapito().out) == offered
