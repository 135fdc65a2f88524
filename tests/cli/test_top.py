"""`recapito top` shows what event subscriptions do: rates from two looks, who fails, and when it goes on."""

import io
from itertools import count
from typing import Any

import pytest
from rich.console import Console

from recapito.cli.text.lane_rates import Look, Row, Sort, measure
from recapito.cli.text.lane_table import picture
from recapito.cli.text.time import show_briefly
from tests.cli.observed import NOW, Query, lane, observed
from tests.cli.terminal import recapito

HELD = {"failures": 10, "until": "2026-01-31T12:46:40.0000000Z", "periodSeconds": 3600, "on": True, "reason": "why"}
LIMITED = {"signingSecrets": 0, "maxRequests": 4, "eventsPerSecond": 1500}
SOON = "2026-01-31T12:00:40.0000000Z"
BEFORE = {
    1: lane(1, "audit"),
    2: lane(2, "billing", answers=3, tookMs=30.0),
    3: lane(3, "crm", failedAttempts={"Busy": 1}),
}
AFTER = {
    1: lane(1, "audit", delivered=30, answers=30, tookMs=250.0),
    2: lane(2, "billing", pending=1234, unread=5, parked=7, failuresInARow=10, hold=HELD, nextDueAt=SOON),
    3: lane(3, "crm", pending=2, failuresInARow=2, failedAttempts={"Busy": 3, "TimedOut": 2}),
    4: lane(4, "new\x1b[31m", topic="returns", options=LIMITED),
}


def rows(sort: Sort = Sort.PENDING) -> list[Row]:
    return measure(Look(100.0, NOW, BEFORE), Look(102.0, NOW, AFTER), sort)


def drawn(width: int, height: int | None = None, of: list[Row] | None = None, **words: str) -> list[str]:
    out = io.StringIO()
    console = Console(file=out, width=width, highlight=False)
    console.print(picture(rows() if of is None else of, NOW, width, height, **words))
    return [line.rstrip() for line in out.getvalue().splitlines()]


def test_a_wide_terminal() -> None:
    """Where there is room all columns are shown, and names of others are text."""
    assert drawn(120) == [
        "2026-01-31 12:00:00 UTC  4 subscriptions: 2 failing, 1 on probation  10.0 sent/s, 1,241 waiting",
        "",
        " topic           subscription           sent/s  failed/s      ms  pending  unread  parked  failing  probation"
        "  next due",
        " " + "─" * 118,
        " orders          billing                   0.0       0.0    10.0    1,234       5       7      10x     46m40s"
        "       40s",
        " orders          crm                       0.0       2.0       -        2       0       0       2x",
        " orders          audit                    10.0       0.0     7.5        0       0       0",
        " returns         new\\x1b[31m                 -         -       -        0       0       0",
        "",
        "orders/billing: why",
    ]


def test_limits() -> None:
    """A terminal that is wider still shows the limits that an operator set."""
    [line] = [line for line in drawn(150) if "returns" in line]
    assert line.endswith("1,500/s 4 req")


@pytest.mark.parametrize("width", [20, 40, 60, 80, 100, 200])
@pytest.mark.parametrize("height", [5, 10, 24])
def test_it_fits(width: int, height: int) -> None:
    """Whatever the size of the terminal, the table is not wider and not higher."""
    many = rows() * 20
    text = drawn(width, height, many, hint="sorted by pending; q ends")
    assert max(map(len, text)) <= width
    assert len(text) <= max(height, 8)
    assert "and" in text[-1] and "more" in text[-1]
    assert len(drawn(width, height)) <= max(height, 11)


def test_what_is_left_out() -> None:
    """On a usual terminal what waits, who is held and when it goes on is still there."""
    [heads] = [line for line in drawn(80) if "subscription " in line]
    assert heads.split() == ["topic", "subscription", "sent/s", "pending", "failing", "probation", "next", "due"]


def test_no_subscription() -> None:
    """Without a subscription it says how to make one; trouble goes before the hint."""
    text = drawn(100, 24, [], hint="q ends", trouble="The connection is lost")
    assert text[1:] == [
        "The connection is lost",
        "",
        "No event subscription matches; `recapito event-subscription create` creates one.",
    ]


@pytest.mark.parametrize(
    ("sort", "names"),
    [
        (Sort.PENDING, ["billing", "crm", "audit", "new\x1b[31m"]),
        (Sort.RATE, ["audit", "billing", "crm", "new\x1b[31m"]),
        (Sort.FAILING, ["crm", "billing", "audit", "new\x1b[31m"]),
        (Sort.PROBATION, ["billing", "audit", "crm", "new\x1b[31m"]),
        (Sort.DUE, ["billing", "audit", "crm", "new\x1b[31m"]),
        (Sort.NAME, ["audit", "billing", "crm", "new\x1b[31m"]),
    ],
)
def test_what_comes_first(sort: Sort, names: list[str]) -> None:
    """Rows are sorted as asked for, and by name where that is the same."""
    assert [row["subscription"] for row in rows(sort)] == names


def test_rates() -> None:
    """A rate is what a counter grew by, a second; the latency is that of the requests between the looks."""
    by_name = {row["subscription"]: row for row in rows()}
    assert (by_name["audit"]["deliveredPerSecond"], by_name["audit"]["averageMs"]) == (10.0, 7.5)
    assert (by_name["crm"]["failedPerSecond"], by_name["crm"]["averageMs"]) == (2.0, None)
    assert by_name["new\x1b[31m"]["deliveredPerSecond"] is None


def test_a_server_that_counts_anew() -> None:
    """Counters that went back, after a restart in memory, give no rate below zero."""
    [row] = measure(Look(1.0, NOW, {1: lane(1, "a", delivered=99)}), Look(2.0, NOW, {1: lane(1, "a")}), Sort.NAME)
    assert row["deliveredPerSecond"] == 0.0


def test_a_snapshot() -> None:
    """Not on a terminal it looks twice, at all pages, and prints that; -o json has every number."""
    looks = count()

    def answers(path: str, query: Query, body: Any) -> tuple[int, Any]:
        next(looks)
        lanes = [AFTER[1], AFTER[2]] if "after" not in query else [AFTER[3], AFTER[4]]
        return 200, {"value": lanes, "next": None if "after" in query else "2", "now": NOW}

    with observed(answers) as it:
        flags = ["--interval", "0.1", "--server", it.url, "--topic", "orders", "--failing"]
        said = recapito("top", *flags, "--subscription", "billing", "-o", "json")
        text = recapito("top", *flags)
        once = recapito("top", "--interval", "0", "--server", it.url, "--query", "value[].subscription", "-o", "json")
    assert [row["subscription"] for row in said.json["value"]] == ["billing", "crm", "audit", "new\x1b[31m"]
    assert said.json["value"][2]["deliveredPerSecond"] == 0.0
    assert said.json["value"][0]["probationUntil"] == HELD["until"]
    assert it.asked[0][1] == {"topic": "orders", "subscription": "billing", "failing": "true", "limit": "1000"}
    assert text.code == 0 and "billing" in text.out and max(map(len, text.out.splitlines())) <= 100
    assert once.json == ["billing", "crm", "audit", "new\x1b[31m"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-3, "0s"), (0.4, "0s"), (59.6, "1m"), (61, "1m1s"), (6400, "1h46m"), (86400, "1d"), (90061, "1d1h")],
)
def test_brief_durations(seconds: float, text: str) -> None:
    """A duration in a table has its two largest units."""
    assert show_briefly(seconds) == text
