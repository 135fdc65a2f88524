"""explain, tail and top against a server with stores on disk: what it says of itself, what others say, a restart."""

import json
import signal
from pathlib import Path

import pytest

from tests.cli.following import following
from tests.cli.observed import observed
from tests.cli.terminal import ok, recapito
from tests.system.machine import receiver, server, until

HOSTILE = "\x1b]0;owned\x07\x1b[31mred\x9b31m\u202e"


def test_words_of_others_are_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An event's fields and an endpoint's answer are shown as text, whatever is in them, in every form."""
    event = {"id": HOSTILE, "eventType": HOSTILE, "subject": HOSTILE, "eventTime": "2026-01-01T00:00:00Z"}
    event |= {"data": {HOSTILE: HOSTILE}, "dataVersion": "1"}
    refusal = f"{HOSTILE}\r\nbusy".encode()
    with observed(lambda path, query, body: (503, refusal)) as hook, server(tmp_path / "data") as it:
        monkeypatch.setenv("RECAPITO_SERVER", it.url)
        it.subscribe("hostile", hook.url)
        assert it.publish_raw(json.dumps([event]).encode())[0] == 200
        assert until(lambda: "Busy 503" in recapito("explain", HOSTILE).out)
        told = recapito("explain", HOSTILE)
        assert "waits for its next attempt" in told.out and "busy" in told.out
        assert all(line.isprintable() for line in told.out.splitlines())
        followed = recapito("tail", "--no-follow")
        assert "hostile" in followed.out and followed.out.rstrip("\n").isprintable()
        for form in ("json", "jsonc", "yaml", "tsv"):
            for words in (["explain", HOSTILE], ["tail", "--no-follow"]):
                said = recapito(*words, "-o", form)
                assert said.code == 0 and not {"\x1b", "\x9b", "\x07"} & set(said.out)


def test_a_restart(tmp_path: Path) -> None:
    """`tail` goes on after a restart of the server, and `explain` and `top` know what was before it."""
    with receiver() as hook:
        hook.answer = lambda events: 503
        with server(tmp_path / "data") as first:
            first.subscribe("billing", hook.url)
            with following(first.url, "demo", "--failed") as tail:
                assert tail.stdout is not None and tail.stderr is not None
                first.publish("one")
                assert "attempt 1  one, again in" in tail.stdout.readline()
                first.stop()
                assert "the connection is lost" in tail.stderr.readline()
                with server(tmp_path / "data", port=first.port) as second:
                    assert tail.stderr.readline() == "recapito: connected again\n"
                    second.publish("two")
                    assert any(
                        "attempt 1  two, again in" in line for line in tail.stdout
                    )  # "one" may be retried before
                    tail.send_signal(signal.SIGINT)
                    assert tail.wait(20) == 0
                    told = recapito("explain", "one", "--topic", "demo", "--server", second.url)
                    assert "billing: " in told.out and "attempt 1" in told.out
                    look = ["top", "--interval", "0", "--server", second.url, "-o", "json", "--query", "value[0]"]
                    assert until(lambda: ok(*look)["pending"] == 2)
                    assert ok(*look)["subscription"] == "billing" and ok(*look)["failuresInARow"] >= 1


def test_a_dry_run_is_judged_as_a_publish_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An event that could not be published is refused in the words of a publish, and nothing was published."""
    with server(tmp_path, "--memory") as it:
        monkeypatch.setenv("RECAPITO_SERVER", it.url)
        refused = recapito("explain", "--dry-run", "-", "--topic", "demo", stdin=b'{"id": "dry"}')
        assert refused.code == 1 and "stdin: (InputJsonInvalid)" in refused.err and "eventTime" in refused.err
        unknown = recapito("explain", "--dry-run", "-", "--topic", "nosuch", stdin=b'{"id": "dry"}')
        assert unknown.code == 3
        assert recapito("explain", "dry").code == 3
