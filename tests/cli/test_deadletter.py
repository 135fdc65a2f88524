"""`recapito deadletter`: what it tells people, and what it says when it is stopped or cannot go on."""

import signal
import subprocess
import sys
import threading
from typing import Any

import pytest

from tests.cli.observed import Query, observed
from tests.cli.terminal import lines, recapito

LETTER = {
    "name": "7/ORDERS-HOOK/2026/1/31/12/5f1c.json/0",
    "topic": "orders",
    "subscription": "orders-hook",
    "container": "box",
    "path": "ORDERS-HOOK/2026/1/31/12/5f1c.json",
    "reason": "MaxDeliveryAttemptsExceeded",
    "eventId": "order-7",
    "eventType": "Order.Created",
    "subject": "/orders/7",
    "deliveryAttempts": 3,
    "lastDeliveryOutcome": "Busy",
    "publishTime": "2026-01-31T12:00:00.0265758Z",
    "redriven": None,
}
MARK = {"at": "2026-01-31T13:00:00.0000000Z", "redrive": "r"}


def listing(*letters: dict[str, Any], problems: tuple[str, ...] = ()) -> Any:
    """A server with these letters."""
    return lambda path, query, body: (200, {"value": letters, "problems": problems, "next": None})


def test_letters_are_told_in_lines() -> None:
    """A letter's name stands alone, to be copied; nothing is folded, and words of others are only text."""
    strange = LETTER | {"eventId": "\x1b[31m", "publishTime": "someday", "deliveryAttempts": 1, "redriven": MARK}
    bare = LETTER | {"reason": "", "deliveryAttempts": 0, "lastDeliveryOutcome": "", "publishTime": ""}
    with observed(listing(LETTER, strange, bare)) as it:
        said = recapito("deadletter", "list", "--server", it.url)
    assert lines(said.out) == [
        "7/ORDERS-HOOK/2026/1/31/12/5f1c.json/0",
        "  orders/orders-hook  Order.Created  /orders/7  order-7",
        "  MaxDeliveryAttemptsExceeded: Busy after 3 attempts, published 2026-01-31 12:00:00.026 UTC",
        "7/ORDERS-HOOK/2026/1/31/12/5f1c.json/0",
        "  orders/orders-hook  Order.Created  /orders/7  \\x1b[31m",
        "  MaxDeliveryAttemptsExceeded: Busy after 1 attempt, published someday, redriven 2026-01-31 13:00:00.000 UTC",
        "7/ORDERS-HOOK/2026/1/31/12/5f1c.json/0",
        "  orders/orders-hook  Order.Created  /orders/7  order-7",
        "  no reason is given",
    ]


def test_no_letters_and_files_that_hold_none() -> None:
    """That there are none is said; so is a file that cannot be read."""
    with observed(listing(problems=("A/1.json: The file does not contain dead letters.",))) as it:
        said = recapito("deadletter", "list", "--server", it.url)
        assert recapito("deadletter", "list", "-o", "json", "--server", it.url).json == []
    assert (said.out, said.code) == ("There are no such dead letters.\n", 0)
    assert said.err == "recapito: A/1.json: The file does not contain dead letters.\n"


class Pages:
    """A server that goes through three pages of two letters; `fails` is the number of the page that it refuses."""

    def __init__(self, fails: int = 0, **counts: int) -> None:
        self.fails = fails
        self.counts = {"selected": 2, "done": 2, "refused": 0, "kept": 0} | counts

    def __call__(self, path: str, query: Query, body: Any) -> tuple[int, Any]:
        number = int(body.get("after", "0")) + 1
        if number == self.fails:
            return 503, {"error": {"code": "ServerBusy", "message": "The vault is down."}}
        done = 0 if body["dryRun"] else self.counts["done"]
        return 200, self.counts | {"done": done, "problems": [], "next": None if number == 3 else str(number)}


@pytest.mark.parametrize(
    ("pages", "words", "code", "says"),
    [
        (Pages(), ["redrive"], 0, ["2 done, going on", "4 done, going on"]),
        (Pages(), ["redrive", "--dry-run"], 0, ["2 selected, going on", "4 selected, going on"]),
        (
            Pages(fails=2),
            ["redrive"],
            1,
            [
                "2 done, going on",
                "(ServerBusy) The vault is down. 2 were done before. Run it again, and it goes on with the rest.",
            ],
        ),
        (Pages(fails=1), ["redrive"], 1, ["(ServerBusy) The vault is down."]),
        (
            Pages(done=0, kept=2),
            ["purge", "--yes"],
            0,
            ["0 done, going on", "0 done, going on", "6 stay: their files also hold letters that are not selected."],
        ),
        (
            Pages(selected=0, done=0),
            ["redrive"],
            0,
            ["0 done, going on", "0 done, going on", "no dead letter was selected."],
        ),
    ],
)
def test_progress(pages: Pages, words: list[str], code: int, says: list[str]) -> None:
    """How far it is is said after each page, and at the end what is not plain from the numbers."""
    with observed(pages) as it:
        said = recapito("deadletter", *words, "--server", it.url)
    assert (said.code, said.err.splitlines()) == (code, [f"recapito: {line}" for line in says])


def test_a_partition_that_does_not_answer_is_named() -> None:
    """The others are redriven, page by page; one line names the partition, and the command does not succeed."""
    pages = {
        None: ({"selected": 3, "done": 3}, "~1"),
        "~1": ({"selected": 2, "done": 2, "missingPartitions": [1]}, None),
    }

    def answers(path: str, query: Query, body: Any) -> tuple[int, Any]:
        turn, following = pages[body.get("after")]
        return 200, {"refused": 0, "kept": 0, "problems": [], "next": following} | turn

    with observed(answers) as it:
        said = recapito("deadletter", "redrive", "--server", it.url)
    assert said.code == 1
    assert said.json == {"selected": 5, "done": 5, "refused": 0, "kept": 0, "missingPartitions": [1]}
    assert lines(said.err) == [
        "recapito: 3 done, going on",
        "recapito: Partition 1 of the cluster does not answer: nothing of it is in the answer",
        "recapito: the letters of those partitions stay as they are. Run it again, and it goes on with the rest.",
    ]


def test_who_does_not_agree_purges_nothing() -> None:
    """Purging asks first and says how not to be asked; without an answer nothing is asked of the server."""
    said = recapito("deadletter", "purge", "--server", "http://127.0.0.1:1")
    assert said.code == 1 and "Purge them (--yes skips this question)?" in said.err and "No server" not in said.err


def test_stopped_by_hand() -> None:
    """Ctrl-C says how far it was, and that another run goes on with the rest."""
    asked, ended = threading.Event(), threading.Event()

    def answers(path: str, query: Query, body: Any) -> tuple[int, Any]:
        if "after" in body:
            asked.set()
            ended.wait(60)
        return Pages()(path, query, body)

    with observed(answers) as it:
        command = [sys.executable, "-m", "recapito", "deadletter", "redrive", "--server", it.url]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
            assert asked.wait(60)
            running.send_signal(signal.SIGINT)
            out, err = running.communicate(timeout=60)
            ended.set()
    assert (running.returncode, out) == (130, "")
    assert err.splitlines()[-1] == (
        "recapito: 2 were done; a request that was under way may have been, too."
        " Run it again, and it goes on with the rest."
    )
