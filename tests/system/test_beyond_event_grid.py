"""The options that Event Grid does not have, of a server in two processes, by the command line."""

from pathlib import Path

import pytest

from tests.cli.terminal import ok, recapito
from tests.kit.standard_webhooks import verify
from tests.system.machine import receiver, server, until


def test_signed_retries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A signed event that waits two minutes is tried at once: the same id, a valid signature; a restart keeps both."""
    with receiver() as hook, server(tmp_path / "data") as it:
        monkeypatch.setenv("RECAPITO_SERVER", it.url)
        hook.answer = lambda events: 408
        it.subscribe("signed", hook.url)
        secret = ok("sign", "signed")["secret"]
        it.publish("one")
        hook.wait_for_requests(1)
        assert until(lambda: ok("retry-now", "signed", "--query", "parked") == 1)
        hook.wait_for_requests(2)
        second = ok("sign", "signed", "--rotate")["secret"]
        hook.answer = lambda events: 200
        it.kill("dispatch")
        ok("retry-now", "signed")
        assert until(lambda: it.counts("signed").get("delivered") == 1)
        ids = {
            verify(secret, {name.lower(): value for name, value in headers.items()}, body)
            for (headers, _), body in zip(hook.requests, hook.bodies, strict=True)
        }
        assert len(ids) == 1
        last = {name.lower(): value for name, value in hook.requests[-1][0].items()}
        assert verify(second, last, hook.bodies[-1]) in ids
        stored = b"".join(file.read_bytes() for file in (tmp_path / "data").rglob("*") if file.is_file())
    for text in (secret, second):
        assert text.removeprefix("whsec_").encode() not in stored


def test_replay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A subscription made later gets the kept events, as new deliveries that its books count and `explain` traces."""
    with (
        receiver() as first,
        receiver() as later,
        server(tmp_path / "data", environment={"RECAPITO_HISTORY_REPLAY": "true"}) as it,
    ):
        monkeypatch.setenv("RECAPITO_SERVER", it.url)
        it.subscribe("first", first.url)
        it.publish("one", "two")
        it.publish("three")
        first.wait_for({"one", "two", "three"})
        it.subscribe("later", later.url)
        replayed = ok("replay", "later", "--since", "2020-01-01")
        assert (replayed["selected"], replayed["done"]) == (3, 3)
        later.wait_for({"one", "two", "three"})
        assert until(lambda: it.counts("later").get("delivered") == 3)
        assert len(first.ids) == 3
        told = recapito("explain", "two").out
        assert "replayed for this subscription from position 3 of the log" in told
    with server(tmp_path / "data") as it:
        refused = recapito("replay", "later", "--position", "1", "--server", it.url)
        assert (refused.code, "history.replay" in refused.err) == (1, True)
