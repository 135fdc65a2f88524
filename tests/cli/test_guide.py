"""The guide tells the truth: its commands are known, its outputs are real, its table of defaults is what holds."""

import json
import re
import shlex
from pathlib import Path

import pytest

from recapito.cli.receiver.receiver import WebhookReceiver
from recapito.cli.receiver.script import from_flags
from recapito.cli.toolkit.defaults import DEFAULTS
from tests.cli.terminal import ok, recapito
from tests.system.machine import server, until

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "command-line.md").read_text("utf-8")
BLOCKS = re.findall(r"```sh\n(.*?)```", GUIDE, re.DOTALL)
COMMANDS = [line for block in BLOCKS for line in block.replace("\\\n", "").splitlines() if line.startswith("recapito ")]

SHOWN = dict(re.findall(r"```sh\n([^\n]*)\n```\n\n```text\n(.*?)```", GUIDE, re.DOTALL))
EVENT = {"id": "order-7", "eventType": "Order.Created", "subject": "/orders/7", "data": {}, "dataVersion": "1"}
EVENT |= {"eventTime": "2026-01-31T12:00:00Z"}


@pytest.mark.parametrize("line", COMMANDS)
def test_its_commands_are_known(line: str, tmp_path: Path) -> None:
    """Each command of the guide is read without a complaint about a word or a flag."""
    (tmp_path / "event.json").write_text(json.dumps(EVENT))
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


def timeless(text: str) -> str:
    """The text without what is another each time: instants, positions, random delays."""
    text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d{3})?", "TIME", text)
    text = re.sub(r"position \d+", "position N", text)
    text = re.sub(r" +\d+s$", " SOON", text, flags=re.MULTILINE)
    return re.sub(r"again in \d+ (s|min( \d+ s)?)", "again SOON", text)


def test_its_outputs_are_real(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The outputs of explain, tail and top in the guide are those of a server."""
    (tmp_path / "event.json").write_text(json.dumps(EVENT))
    hook = WebhookReceiver("127.0.0.1", 0, from_flags(503, 3, 0.0), lambda arrival: None, lambda events: None)
    hook.start()

    def said(line: str, *more: str) -> str:
        return timeless(recapito(*shlex.split(line)[1:], *more).out)

    with server(tmp_path, "--memory", "--clock", "manual", "--handshake", "on") as it:
        monkeypatch.setenv("RECAPITO_SERVER", it.url)
        words = ["--topic-name", "orders", "--endpoint", f"http://127.0.0.1:{hook.port}/"]
        ok("topic", "create", "orders")
        ok("event-subscription", "create", "billing", *words)
        ok("event-subscription", "create", "audit", *words, "--subject-begins-with", "/bills/")
        rehearsed, explained, followed, watched = SHOWN_COMMANDS
        assert said(rehearsed) == timeless(SHOWN[rehearsed])
        ok("publish", "orders", "event.json")
        assert until(lambda: "attempt 1" in said(explained) and "waits" in said(explained))
        until(lambda: said(explained) == timeless(SHOWN[explained]), 5.0)
        assert said(explained) == timeless(SHOWN[explained])
        ok("clock", "advance", "40")
        until(lambda: said(watched, "--interval", "0.1") == timeless(SHOWN[watched]), 5.0)  # when all is settled
        assert said(watched, "--interval", "0.1") == timeless(SHOWN[watched])
        ok("clock", "advance", "10m")
        assert until(lambda: "Success" in said(followed, "--no-follow"))
        assert said(followed, "--no-follow") == timeless(SHOWN[followed])
    hook.stop()


SHOWN_COMMANDS = (
    "recapito explain --dry-run event.json --topic orders",
    "recapito explain order-7",
    "recapito tail orders",
    "recapito top --topic orders",
)


def test_all_its_outputs_are_tried() -> None:
    """No output of the guide is left out of the test."""
    assert set(SHOWN) == set(SHOWN_COMMANDS)
