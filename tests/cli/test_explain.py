"""`recapito explain` tells a person what became of an event, in words that have no power over the terminal."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.observed import NOW, attempt, observed
from tests.cli.terminal import lines, recapito

EVENT = {
    "id": "e-1",
    "type": "Order.Created",
    "subject": "/orders/7",
    "topic": "orders",
    "publishedAt": "2026-01-31T11:50:00.0000000Z",
    "position": 17,
    "offset": 3,
}


def subscription(name: str = "billing", **changed: Any) -> dict[str, Any]:
    return {
        "subscription": name,
        "subscriptionId": 7,
        "topic": "orders",
        "matched": True,
        "decidedBy": {"clause": "includedEventTypes", "text": "eventType 'Order.Created' is one of 'Order.Created'"},
        "attempts": [],
        "state": "unread",
        "stateText": None,
        "next": None,
        "expiresAt": None,
        "ttlLeftSeconds": None,
        "attemptsLeft": None,
        "end": None,
        **changed,
    }


def answer(*subscriptions: dict[str, Any], **changed: Any) -> dict[str, Any]:
    return {"event": EVENT, "note": None, "subscriptions": list(subscriptions), "now": NOW, **changed}


def told(body: Any, *words: str, status: int = 200) -> list[str]:
    with observed(lambda path, query, asked: (status, body)) as it:
        said = recapito("explain", *words, "--server", it.url)
    assert said.code == 0, said
    return said.out.splitlines()


def test_what_waits() -> None:
    """Filter, attempts, when next and by which rule, and what is left are told for a delivery that waits."""
    waiting = subscription(
        attempts=[
            attempt(1, detail="try later"),
            attempt(2, "TimedOut", None, tookMs=30000.0, eventCount=3, event={"rule": "minimum"}),
            attempt(3, "Busy", 429, probe=True, event={"rule": "retryAfter"}),
        ],
        state="parked",
        stateText="3 attempts failed; the next is due",
        next={"at": "2026-01-31T12:04:03.0000000Z", "rule": "schedule", "text": "the 3rd step of the schedule, 1 min"},
        expiresAt="2026-02-01T11:50:00.0000000Z",
        ttlLeftSeconds=85800,
        attemptsLeft=27,
    )
    assert told(answer(waiting), "e-1") == [
        "Event e-1 of topic orders",
        "  type        Order.Created",
        "  subject     /orders/7",
        "  published   2026-01-31 11:50:00.000 UTC (10 min ago), position 17",
        "",
        "billing: waits for its next attempt",
        "  filter      matched: eventType 'Order.Created' is one of 'Order.Created' (includedEventTypes)",
        "  attempt 1   2026-01-31 11:50:00.123 UTC (+0 s)  Busy 503 in 12 ms",
        '              "try later"',
        "              to be tried again at 2026-01-31 11:51:00.000 UTC, by the schedule",
        "  attempt 2   2026-01-31 11:51:00.123 UTC (+1 min)  TimedOut in 30000 ms, with 2 more in one request",
        "              to be tried again at 2026-01-31 11:52:00.000 UTC, by the least delay for this answer",
        "  attempt 3   2026-01-31 11:52:00.123 UTC (+2 min)  Busy 429 (a probe) in 12 ms",
        "              to be tried again at 2026-01-31 11:53:00.000 UTC, as the endpoint asked by Retry-After",
        "  now         3 attempts failed; the next is due",
        "  next        2026-01-31 12:04:03.000 UTC (in 4 min 3 s): the 3rd step of the schedule, 1 min",
        "  left        23 h 50 min of its time to live (until 2026-02-01 11:50:00.000 UTC), 27 attempts",
    ]


def test_what_was_attempted_before_a_redrive() -> None:
    """An attempt before the newest publish has no distance from it: it was made for an older one."""
    body = answer(subscription(attempts=[attempt(1), attempt(3)], state="parked"))
    lines = told(body | {"event": EVENT | {"publishedAt": "2026-01-31T11:51:00.0000000Z"}}, "e-1")
    assert [line.split("UTC")[1] for line in lines if line.startswith("  attempt")] == [
        "  Busy 503 in 12 ms",
        " (+1 min)  Busy 503 in 12 ms",
    ]


def test_how_it_ended() -> None:
    """Where an event ended is told for each subscription, and which clause kept it from one."""
    other = {"clause": "subjectBeginsWith", "text": "subject '/orders/7' does not begin with '/bills/'"}
    body = answer(
        subscription(
            "audit",
            attempts=[attempt(1, "Success", 200, event={"then": "delivered", "dueAt": None, "rule": None})],
            state="delivered",
        ),
        subscription(
            "lost",
            attempts=[
                attempt(1, "BadRequest", 400, event={"then": "deadLetter", "dueAt": None, "reason": "BadRequest"})
            ],
            state="deadLettered",
            end={"at": "2026-01-31T11:55:00.0000000Z", "reason": "BadRequest", "where": "container letters, a/b.json"},
        ),
        subscription("bills", matched=False, decidedBy=other, state="notMatched"),
        subscription("gone", matched=None, decidedBy=None, state="unknown"),
        note="attempts before 11:00 are not kept",
    )
    assert told(body, "e-1")[4:] == [
        "  note        attempts before 11:00 are not kept",
        "",
        "audit: delivered",
        "  filter      matched: eventType 'Order.Created' is one of 'Order.Created' (includedEventTypes)",
        "  attempt 1   2026-01-31 11:50:00.123 UTC (+0 s)  Success 200 in 12 ms",
        "",
        "lost: dead-lettered",
        "  filter      matched: eventType 'Order.Created' is one of 'Order.Created' (includedEventTypes)",
        "  attempt 1   2026-01-31 11:50:00.123 UTC (+0 s)  BadRequest 400 in 12 ms",
        "              given up (BadRequest), to its dead letters",
        "  ended       2026-01-31 11:55:00.000 UTC: BadRequest, container letters, a/b.json",
        "",
        "bills: not matched",
        "  filter      not matched: subject '/orders/7' does not begin with '/bills/' (subjectBeginsWith)",
        "",
        "gone: unknown",
        "  filter      not known",
    ]


def test_nothing_to_tell() -> None:
    """An event of which only deliveries are known, and a topic without subscriptions, are told as such."""
    assert told(answer(note="the event is not kept any more", event=None), "e-1") == [
        "  note        the event is not kept any more",
        "              no event subscription of the topic takes part",
    ]


HOSTILE = "\x1b]0;owned\x07\x1b[31mred\x9b31m\r\n\u202eback\u2066 \ud800"


def test_words_of_others_are_text() -> None:
    """Control characters in an event, a name or an answer are shown as escapes, in every form."""
    hostile = subscription(
        HOSTILE,
        attempts=[attempt(1, detail=HOSTILE, outcome=HOSTILE, event={"then": "drop", "reason": HOSTILE})],
        decidedBy={"clause": HOSTILE, "text": HOSTILE},
        state=HOSTILE,
        stateText=HOSTILE,
        next={"at": NOW, "rule": HOSTILE, "text": HOSTILE},
        end={"at": NOW, "reason": HOSTILE, "where": HOSTILE},
    )
    event = EVENT | {"id": HOSTILE, "type": HOSTILE, "subject": HOSTILE, "topic": HOSTILE}
    body = answer(hostile, event=event, note=HOSTILE)
    text = told(body, "e-1")
    assert all(line.isprintable() for line in text)
    assert text[0] == (
        "Event \\x1b]0;owned\\x07\\x1b[31mred\\x9b31m\\r\\n\\u202eback\\u2066 \\ud800 of topic "
        "\\x1b]0;owned\\x07\\x1b[31mred\\x9b31m\\r\\n\\u202eback\\u2066 \\ud800"
    )
    for form in ("json", "yaml", "tsv", "jsonc"):
        assert not {"\x1b", "\x9b", "\x07"} & set("".join(told(body, "e-1", "-o", form)))


def test_what_is_asked() -> None:
    """The id and the topic go to the server as they are; -o and --query select from its answer."""
    with observed(lambda path, query, asked: (200, answer(subscription()))) as it:
        said = recapito("explain", "a b&c", "--topic", "orders", "--server", it.url, "-o", "json")
        name = recapito("explain", "x", "--server", it.url, "--query", "subscriptions[0].subscription", "-o", "tsv")
    assert said.json == answer(subscription())
    assert name.out == "billing\n"
    assert it.asked[0] == ("/deliveries/explain", {"event": "a b&c", "topic": "orders"}, None)


def test_an_unknown_event() -> None:
    """An unknown event ends with 3, and the server's own words."""
    refusal = {"error": {"code": "EventNotFound", "message": "No event 'x' is known. Was it published?"}}
    with observed(lambda path, query, asked: (404, refusal)) as it:
        said = recapito("explain", "x", "--server", it.url)
    assert (said.code, said.out) == (3, "")
    assert said.err == "recapito: (EventNotFound) No event 'x' is known. Was it published?\n"


@pytest.mark.parametrize("way", ["file", "stdin"])
def test_a_dry_run(way: str, tmp_path: Path) -> None:
    """An event of a file or of stdin is sent with its topic; several are told one after the other."""
    events = [{"id": "1", "data": {"n": 1}}, {"id": "2"}]
    file = tmp_path / "event.json"
    with observed(lambda path, query, asked: (200, answer(subscription()))) as it:
        for content in (json.dumps(events[0]), "\n".join(map(json.dumps, events))):
            file.write_text(content)
            name = str(file) if way == "file" else "-"
            words = ("explain", "--dry-run", name, "--topic", "orders", "--server", it.url)
            said = recapito(*words, stdin=b"" if way == "file" else content.encode())
            assert said.code == 0, said
            assert said.out.startswith("Event e-1 of topic orders\n")
    assert said.out.count("Event e-1") == 2
    assert [asked[2] for asked in it.asked] == [{"topic": "orders", "event": event} for event in (events[0], *events)]


def test_a_dry_run_of_nonsense(tmp_path: Path) -> None:
    """A line that is not JSON is named, a file that is not there too, and a topic is needed."""
    file = tmp_path / "event.json"
    file.write_text('{"id": "1"}\n{"id": \n')
    refusals = {
        ("--topic", "t"): "line 2: this is not JSON",
        (): "name the topic that it would be published to",
    }
    with observed(lambda path, query, asked: (200, answer())) as it:
        for words, text in refusals.items():
            said = recapito("explain", "--dry-run", str(file), *words, "--server", it.url)
            assert said.code == 2 and text in " ".join(lines(said.err)), said
        said = recapito("explain", "--dry-run", str(tmp_path / "none"), "--topic", "t", "--server", it.url)
    assert said.code == 2 and "No such file" in said.err
