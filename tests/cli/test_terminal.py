"""The command line in a real terminal: what moves there, what keys do, and what is left when it ends."""

import re
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from tests.cli.observed import NOW, Query, attempt, lane, observed
from tests.cli.terminal import ok
from tests.cli.tmux import PROMPT, Tmux, tmux
from tests.system.machine import Server


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Tmux]:
    """A terminal of 100 columns and 24 rows."""
    monkeypatch.delenv("COLUMNS")
    with tmux() as it:
        yield it


def lanes(path: str, query: Query, body: Any) -> tuple[int, Any]:
    """Forty subscriptions; the n-th has n events that wait, and delivers a hundred between two looks."""
    delivered = 100 * next(LOOKS)
    many = [lane(n, f"subscription-{n:02}", pending=n, delivered=delivered) for n in range(1, 41)]
    return 200, {"value": many, "next": None, "now": NOW}


LOOKS = count()


def test_top(terminal: Tmux) -> None:
    """`top` fills the terminal and not more, sorts by a key, follows its size, and leaves the screen as it was."""
    with observed(lanes) as it:
        terminal.enter(f"recapito top --interval 0.2 --server {it.url}")
        shown = terminal.wait_for(lambda screen: bool(re.search(r"subscription-40 +[1-9]", screen)))
        assert len(shown.splitlines()) <= 24 and shown.splitlines()[-1] == "and 23 more"
        assert "40 subscriptions: 0 failing" in shown and "sorted by pending" in shown
        assert shown.index("subscription-40") < shown.index("subscription-39")
        terminal.press("n")
        shown = terminal.wait_for("sorted by name")
        assert shown.index("subscription-01") < shown.index("subscription-02")
        terminal.resize(60, 12)
        terminal.wait_for(lambda screen: screen.endswith("and 35 more") and "probation" in screen)
        terminal.press("q")
        shown = terminal.wait_for(lambda screen: screen.endswith(PROMPT.strip()))
        assert "subscription-01" not in shown


def test_top_without_its_server(terminal: Tmux) -> None:
    """A lost connection is shown above the last table, and gone when the server is back; Ctrl-C ends with 0."""
    with observed(lanes) as it:
        terminal.enter(f"recapito top --interval 0.2 --server {it.url}; echo ended with $?")
        terminal.wait_for("subscription-40")
        it.close()
        assert "subscription-40" in terminal.wait_for("The connection is lost, trying again.")
        with observed(lanes, it.port):
            terminal.wait_for(lambda screen: "sorted by pending" in screen and "lost" not in screen)
            terminal.press("C-c")
            terminal.wait_for("ended with 0")


def test_tail(terminal: Tmux) -> None:
    """`tail` colours outcomes, cuts what is too long for the line, and Ctrl-C ends it with 0."""

    def answers(path: str, query: Query, body: Any) -> tuple[int, Any]:
        said = {"next": None, "newest": "m", "kept": {}, "now": NOW}
        past = [attempt(2, "Success", 200, event={"then": "delivered"}), attempt(1, detail="late " * 40)]
        return 200, {"value": [] if "after" in query else past, **said}

    with observed(answers) as it:
        terminal.enter(f"clear; recapito tail --server {it.url}; echo ended with $?")
        shown = terminal.wait_for("Success").splitlines()
        assert len(shown) == 2 and shown[0].startswith("2026-01-31 11:50:00.123  orders/billing")
        assert "\x1b[33mBusy 503" in terminal.coloured and "\x1b[32mSuccess 200" in terminal.coloured
        terminal.press("C-c")
        shown = terminal.wait_for("ended with").splitlines()
        assert shown[-2].endswith("ended with 0") and "Aborted" not in shown[-2]


def test_a_progress_bar(terminal: Tmux, live: Server) -> None:
    """`publish` shows how far it is, and takes the bar away when it is done or Ctrl-C ends it."""
    publish = f"recapito publish demo --type t --server {live.url}"
    terminal.enter(f"clear; {publish} --count 100000 --rate 200; echo ended with $?")
    terminal.wait_for(lambda screen: bool(re.search(r"Publishing .*\d+/100000", screen)))
    terminal.press("C-c")
    shown = terminal.wait_for("ended with 130")
    assert "of 100000 events were published;" in shown and "Traceback" not in shown
    terminal.enter(f"clear; {publish} --count 2000; echo ended with $?")
    shown = terminal.wait_for("ended with 0")
    assert '"published": 2000' in shown and "Publishing" not in shown


def test_completion(terminal: Tmux) -> None:
    """In bash a word is completed by Tab: nouns, verbs and flags."""
    terminal.enter('eval "$(recapito completion bash)"; clear')
    terminal.wait_for(lambda screen: screen == PROMPT.strip())
    terminal.type("recapito event-s")
    terminal.press("Tab")
    terminal.wait_for(f"{PROMPT}recapito event-subscription")
    terminal.type("cr")
    terminal.press("Tab")
    terminal.wait_for(f"{PROMPT}recapito event-subscription create")
    terminal.type("--max-ev")
    terminal.press("Tab")
    terminal.wait_for(f"{PROMPT}recapito event-subscription create --max-events-per-batch")


def test_listen(terminal: Tmux, live: Server) -> None:
    """`listen` prints what arrives, takes its subscription away when Ctrl-C ends it, and leaves no word of an error."""
    terminal.enter(f"clear; recapito listen --subscribe demo --port 0 --server {live.url}; echo ended with $?")
    terminal.wait_for("Subscribed to demo as listen-")
    live.publish("one", data='{"say": "\\u001b[31mhello"}')
    shown = terminal.wait_for("attempt 1: t s")
    assert "hello" in shown and "\x1b[31mhello" not in terminal.coloured
    terminal.press("C-c")
    shown = terminal.wait_for("ended with 0")
    assert "Traceback" not in shown


def test_a_question(terminal: Tmux, live: Server) -> None:
    """A question that Ctrl-C answers is not asked again, and nothing is done."""
    terminal.enter(f"clear; recapito deadletter purge --server {live.url}; echo ended with $?")
    terminal.wait_for("[y/N]:")
    terminal.press("C-c")
    shown = terminal.wait_for("ended with")
    assert "Traceback" not in shown and "ended with 0" not in shown


def test_a_secret_is_asked_for(terminal: Tmux, live: Server) -> None:
    """A dash on a terminal asks for the secret, and what is typed is not seen."""
    account = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Storage/storageAccounts/asked"
    command = f"recapito connection set {account} --connection-string - -o table --server {live.url}"
    terminal.enter(f"clear; {command}; echo ended with $?")
    terminal.wait_for("Connection string:")
    terminal.enter("AccountName=asked;AccountKey=c2VjcmV0")
    shown = terminal.wait_for("ended with 0")
    ok("connection", "remove", account)
    assert "c2VjcmV0" not in shown and "account key" in shown


def test_a_table_fits(terminal: Tmux, live: Server) -> None:
    """A table is no wider than the terminal; what is longer is folded, not cut."""
    terminal.enter(f"clear; recapito topic show demo -o table --server {live.url}; echo ended with $?")
    shown = terminal.wait_for("ended with 0").splitlines()
    assert max(map(len, shown)) <= 100
    assert any("Endpoint" in line for line in shown) and not any("…" in line for line in shown)
