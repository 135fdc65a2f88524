"""`recapito tail` prints deliveries as they happen, one attempt a line, and goes on when the server does."""

import json
import signal
import subprocess
import sys
from itertools import count
from typing import Any

import pytest

from tests.cli.following import following
from tests.cli.observed import NOW, Query, attempt, observed
from tests.cli.terminal import lines, recapito


def page(*deliveries: Any, newest: str) -> tuple[int, Any]:
    kept = {"since": None, "attempts": 3, "notKept": 0}
    return 200, {"value": list(deliveries), "next": None, "newest": newest, "kept": kept, "now": NOW}


PAST = [
    attempt(3, "Success", 200, event={"then": "delivered", "dueAt": None}, eventCount=20),
    attempt(2, "TimedOut", None, event={"dueAt": "2026-01-31T11:56:00.1234567Z"}),
    attempt(1, detail="try\n\x1b[31mlater"),
]


def past(path: str, query: Query, body: Any) -> tuple[int, Any]:
    """Three attempts, newest first, and nothing new."""
    return page(newest="m3") if "after" in query else page(*PAST[: int(query["limit"])], newest="m3")


def test_a_line_for_each_attempt() -> None:
    """Each line says when, of what, how it went, which attempt of which event it was, and what follows."""
    with observed(past) as it:
        said = recapito("tail", "--no-follow", "--server", it.url)
    assert said.out.splitlines() == [
        "2026-01-31 11:50:00.123  orders/billing            Busy 503          12 ms  attempt 1  e-1, again in 1 min"
        '  "try\\n\\x1b[31mlater"',
        "2026-01-31 11:51:00.123  orders/billing            TimedOut          12 ms  attempt 2  e-1, again in 5 min",
        "2026-01-31 11:52:00.123  orders/billing            Success 200       12 ms  attempt 3  e-1 and 19 more",
    ]


def test_lines_of_json() -> None:
    """-o json prints one line of JSON for each attempt, oldest first; --query selects from each."""
    with observed(past) as it:
        said = recapito("tail", "--no-follow", "--last", "2", "-o", "json", "--server", it.url)
        chosen = recapito("tail", "--no-follow", "--query", "outcome", "-o", "tsv", "--server", it.url)
    assert [json.loads(line) for line in said.out.splitlines()] == [PAST[1], PAST[0]]
    assert chosen.out.split() == ["Busy", "TimedOut", "Success"]


@pytest.mark.parametrize(
    ("words", "query"),
    [
        (["orders"], {"topic": "orders"}),
        (["orders", "--subscription", "billing"], {"topic": "orders", "subscription": "billing"}),
        (["--event-subscription", "billing"], {"subscription": "billing"}),
        (["--outcome", "Busy"], {"outcome": "Busy"}),
        (["--failed"], {"outcome": "Failed"}),
    ],
)
def test_what_is_asked(words: list[str], query: Query) -> None:
    """Topic, subscription and outcome are the server's to select."""
    with observed(past) as it:
        assert recapito("tail", *words, "--no-follow", "--server", it.url).code == 0
    assert it.asked == [("/deliveries", {**query, "limit": "10"}, None)]


@pytest.mark.parametrize(
    ("words", "unknown", "said"),
    [
        (["ordesr"], "topic", "There is no topic 'ordesr'. `recapito topic list` lists them."),
        (
            ["orders", "--subscription", "biling"],
            "subscription",
            "There is no event subscription 'biling'. `recapito top` lists them.",
        ),
    ],
)
def test_a_name_that_nobody_has(words: list[str], unknown: str, said: str) -> None:
    """A misspelt topic or subscription is an error, not a silence without end."""
    nothing = page(newest="m3")[1] | {"unknown": unknown}
    with observed(lambda path, query, body: (200, nothing)) as it:
        ended = recapito("tail", *words, "--server", it.url)
    assert (ended.code, ended.out) == (3, "") and said in ended.err


def test_two_outcomes() -> None:
    """--failed and --outcome exclude each other."""
    said = recapito("tail", "--failed", "--outcome", "Busy")
    assert said.code == 2 and "give --failed or --outcome, not both" in said.err


def test_it_goes_on_when_the_server_does() -> None:
    """A server that ends is waited for, which is said once; the tail goes on where it was. Ctrl-C ends it with 0."""

    def first(path: str, query: Query, body: Any) -> tuple[int, Any]:
        return page(attempt(2), newest="m2") if query.get("after") == "m1" else page(attempt(1), newest="m1")

    def second(path: str, query: Query, body: Any) -> tuple[int, Any]:
        return page(attempt(3), newest="m3") if query.get("after") == "m2" else page(newest="m3")

    with observed(first) as it, following(it.url) as tail:
        assert tail.stdout is not None and tail.stderr is not None
        assert "attempt 1" in tail.stdout.readline()
        assert "attempt 2" in tail.stdout.readline()
        it.close()
        assert tail.stderr.readline().startswith("recapito: the connection is lost, trying again: ")
        with observed(second, it.port):
            assert tail.stderr.readline() == "recapito: connected again\n"
            assert "attempt 3" in tail.stdout.readline()
            tail.send_signal(signal.SIGINT)
            assert (tail.wait(30), tail.stdout.read(), tail.stderr.read()) == (0, "", "")


def test_a_partition_that_does_not_answer_is_named_once() -> None:
    """The line comes when the partition is lost, not with each look, and another one when it is back."""
    looks = count()

    def lacking(path: str, query: Query, body: Any) -> tuple[int, Any]:
        number = next(looks)
        status, answer = page(*[attempt(1)] * (number < 5), newest="m1")
        return status, answer | ({"missingPartitions": [1, 3]} if 1 <= number < 4 else {})

    with observed(lacking) as it, following(it.url) as tail:
        assert tail.stderr is not None
        told = "recapito: Partitions 1, 3 of the cluster do not answer: nothing of them is in the answer\n"
        assert tail.stderr.readline() == told
        assert tail.stderr.readline() == "recapito: all partitions of the cluster answer again\n"


def test_a_node_whose_attempts_are_missing_is_named() -> None:
    """Once, and the attempts of the others are shown."""

    def lacking(path: str, query: Query, body: Any) -> tuple[int, Any]:
        status, answer = page(attempt(1), newest="m1")
        return status, answer | {"missingNodes": ["two"]}

    with observed(lacking) as it:
        said = recapito("tail", "--server", it.url, "--no-follow")
    assert (said.code, len(lines(said.out))) == (0, 1)
    assert said.err.splitlines() == [
        "recapito: Node 'two' of the cluster does not answer: attempts that were made there are missing"
    ]


def test_who_reads_may_go() -> None:
    """`recapito tail | head -1` ends without a word when there is no reader any more."""

    def endless(path: str, query: Query, body: Any) -> tuple[int, Any]:
        return page(*(attempt(1) for _ in range(1000)), newest="m")

    with observed(endless) as it:
        command = f"{sys.executable} -m recapito tail --server {it.url} | head -1"
        done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=60)
    assert len(lines(done.stdout)) == 1
    assert done.stderr == ""


def test_no_server_at_first() -> None:
    """A server that was never there is not waited for."""
    said = recapito("tail", "--server", "http://127.0.0.1:1")
    assert said.code == 1 and "No server listens" in said.err
