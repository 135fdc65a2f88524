"""`recapito publish`, `listen` and `clock` together: what is published arrives, well or after some tries."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from errno import EADDRINUSE
from pathlib import Path
from typing import Any

import pytest

from recapito.cli.commands.listen import open_receiver
from recapito.cli.toolkit.session import connect
from recapito.errors import CallerError
from tests.cli.terminal import lines, ok, recapito
from tests.system.machine import Server

GOOD = {"id": "1", "subject": "s", "eventType": "t", "eventTime": "2026-01-01T00:00:00Z", "data": 1.10}


@pytest.fixture
def topic(live: Server) -> Iterator[str]:
    ok("topic", "create", "orders")
    yield "orders"
    ok("topic", "delete", "orders")


class Listener:
    """A `recapito listen` process, and the lines that it prints."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def until(self, start: str) -> str:
        """The next line that starts so."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(start):
                return line.rstrip()
        raise AssertionError(f"it ended without '{start}'")

    def rest(self) -> list[str]:
        """The output until it ends."""
        out, _ = self._process.communicate(timeout=30)
        assert self._process.returncode == 0
        return lines(out)

    def end(self) -> None:
        self._process.terminate()


@contextmanager
def listening(*words: str) -> Iterator[Listener]:
    command = [sys.executable, "-u", "-m", "recapito", "listen", "--port", "0", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            yield Listener(process)
        finally:
            process.terminate()


def events(count: int) -> list[dict[str, Any]]:
    return [{**GOOD, "id": f"e{n}"} for n in range(count)]


def test_a_one_liner_arrives(topic: str) -> None:
    """An event made from flags arrives at a listener that subscribed itself and goes without a trace."""
    with listening("--subscribe", topic, "--count", "2") as listener:
        listener.until("Subscribed to orders")
        words = ["--type", "Created", "--subject", "/1", "--data", '{"n": 1}', "--count", "2"]
        assert ok("publish", topic, *words) == {"topic": "orders", "published": 2}
        arrived = listener.rest()
    assert arrived[:2] == ['attempt 1: Created /1 {"n": 1} -> 200'] * 2
    assert all(line.endswith("was deleted") for line in arrived[2:])  # it may end before it is told so
    assert ok("event-subscription", "list", "--topic-name", topic) == []


def test_a_listener_that_fails(topic: str) -> None:
    """`--fail 503 --times 1` fails once; the clock is moved, and the second attempt is taken."""
    with listening("--subscribe", topic, "--fail", "503", "--times", "1") as listener:
        listener.until("Subscribed")
        ok("publish", topic, "--type", "Created", "--data", '"plain text"')
        assert listener.until("attempt 1") == 'attempt 1: Created  "plain text" -> 503'
        moved = ok("clock", "advance", "10 min")
        assert (moved["delivered"], moved["pending"]) == (1, 0)
        assert listener.until("attempt 2") == 'attempt 2: Created  "plain text" -> 200'


def test_a_listener_with_a_script(topic: str, tmp_path: Path) -> None:
    """A script answers request by request: a drop, a status with Retry-After, then all is well."""
    script = tmp_path / "script"
    script.write_text("drop # hang up\n\n503 retry-after=60 times=2\n", "utf-8")
    with listening("--subscribe", topic, "--script", str(script), "--count", "4", "--json-lines") as listener:
        listener.until("Subscribed")
        ok("publish", topic, "--type", "Created")
        first = json.loads(listener.until('{"kind": "events"'))
        ok("clock", "until-idle")
        told = [json.loads(line) for line in listener.rest() if line.startswith('{"kind": "events"')]
    assert [one["status"] for one in (first, *told)] == [0, 503, 503, 200]
    assert [one["attempt"] for one in (first, *told)] == [1, 2, 3, 4]


def test_cloud_events(live: Server) -> None:
    """To a topic that takes CloudEvents an event is made in that schema; the listener does the other handshake."""
    ok("topic", "create", "clouds", "--input-schema", "cloudeventschemav1_0")
    with listening("--subscribe", "clouds", "--count", "1", "--event-delivery-schema", "CloudEventSchemaV1_0") as it:
        assert it.until("handshake") == "handshake of a CloudEvents subscription -> 200"
        it.until("Subscribed")
        ok("publish", "clouds", "--type", "Created", "--data", "7", "--source", "/shop")
        assert it.until("attempt") == "attempt 1: Created  7 -> 200"
    ok("topic", "delete", "clouds")


def test_a_subscription_ends_with_its_listener(topic: str) -> None:
    """A listener that is told to end takes its subscription with it."""
    with listening("--subscribe", topic) as listener:
        listener.until("Subscribed")
        assert len(ok("event-subscription", "list", "--topic-name", topic)) == 1
        listener.end()
        listener.rest()
    assert ok("event-subscription", "list", "--topic-name", topic) == []


@pytest.mark.parametrize("form", ["array", "lines", "one", "stdin"])
def test_files(topic: str, tmp_path: Path, form: str) -> None:
    """A file holds an array, an event on each line, or one event on many lines; - and nothing are stdin."""
    whole = {
        "array": json.dumps(events(3), indent=1),
        "lines": "\n".join(json.dumps(event) for event in events(3)) + "\n",
        "one": json.dumps(GOOD, indent=2),
        "stdin": json.dumps(events(2)),
    }[form]
    count = {"one": 1, "stdin": 2}.get(form, 3)
    file = tmp_path / "events.json"
    file.write_text(whole, "utf-8")
    if form == "stdin":
        assert ok("publish", topic, stdin=whole.encode())["published"] == count
        assert ok("publish", topic, "-", stdin=whole.encode())["published"] == count
    else:
        assert ok("publish", topic, str(file), "--count", "2")["published"] == 2 * count


def test_many_events_are_sent_in_parts(topic: str, tmp_path: Path) -> None:
    """More than one request may hold goes in several, and a rate is kept."""
    file = tmp_path / "events.json"
    file.write_text(json.dumps(events(3000)), "utf-8")
    assert ok("publish", topic, str(file), "--count", "2")["published"] == 6000
    large = json.dumps([{**GOOD, "id": str(n), "data": "x" * 600_000} for n in range(2)])
    assert ok("publish", topic, stdin=large.encode())["published"] == 2
    assert ok("publish", topic, "--type", "t", "--count", "20", "--rate", "1000")["published"] == 20


def test_one_bad_line(topic: str, live: Server) -> None:
    """A file with a bad line says which, and nothing is published; with --partial the good ones are."""
    bad = {**GOOD, "eventTime": "yesterday"}
    content = "\n".join([json.dumps(GOOD), "{oops", "", json.dumps(bad), json.dumps(GOOD)]).encode()
    before = _published(live)
    said = recapito("publish", topic, stdin=content)
    assert said.code == 1 and not said.out
    assert lines(said.err) == [
        "recapito: stdin, line 2: JSON is malformed: object keys must be strings (byte 2).",
        "recapito: stdin, line 4: 'eventTime' is not a date and time in ISO 8601 form.",
        "recapito: Nothing was published: 2 of 4 events are wrong.",
    ]
    assert _published(live) == before
    said = recapito("publish", topic, "--partial", stdin=content)
    assert said.code == 1
    assert lines(said.err)[-1] == "recapito: Published 2 events; 2 were left out."
    assert _published(live) == before + 2


def _published(live: Server) -> float:
    return sum(float(one["published"]) for one in live.call("GET", "/counts")["value"])


@pytest.mark.parametrize(
    ("words", "stdin", "code", "said"),
    [
        ([], b"", 2, "TOPIC: a topic is required"),
        (["nope", "--type", "t"], b"", 3, "'Microsoft.EventGrid/topics/nope'"),
        (["demo"], b" \n", 2, "stdin holds no event"),
        (["demo"], b"[]", 2, "stdin holds no event"),
        (["demo"], b"[{]", 2, "stdin is not JSON"),
        (["demo"], b"\xff\xfe", 1, "stdin, line 1"),
        (["demo"], b"[1, 2]", 1, "stdin, event 1 of the array"),
        (["demo", "/nowhere/x.json"], b"", 2, "/nowhere/x.json: No such file"),
        (["demo", "-", "--type", "t"], b"[]", 2, "made from flags, or read from a file"),
        (["demo", "--subject", "s"], b"", 2, "--type: give --type with the other flags of an event"),
        (["demo", "--type", "t", "--count", "0"], b"", 2, "--count"),
        (["demo", "--type", "t", "--key", "wrong"], b"", 1, "Give a key of this topic with --key."),
        (["demo", "--type", ""], b"", 1, "eventType"),
    ],
)
def test_wrong_publishes(live: Server, words: list[str], stdin: bytes, code: int, said: str) -> None:
    """A wrong event is reported in a line, and nothing of it is published."""
    done = recapito("publish", *words, stdin=stdin)
    assert done.code == code, done
    assert said in done.err
    assert not done.out and "Traceback" not in done.err


def test_the_key_may_be_given(live: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key comes from a flag or from the environment; it is never shown."""
    key = ok("topic", "key", "list", "demo")["key2"]
    published = ok("publish", "demo", "--type", "t", "--key", key)
    assert published["published"] == 1
    assert ok("explain", published["id"], "-o", "json")["event"]["id"] == published["id"]
    monkeypatch.setenv("RECAPITO_KEY", "wrong")
    said = recapito("publish", "demo", "--type", "t")
    assert said.code == 1 and "wrong" not in said.err


def test_a_domain(live: Server) -> None:
    """To a domain an event names its topic."""
    ok("domain", "create", "malls")
    assert ok("publish", "malls", "--domain", "--type", "t", "--domain-topic", "west")["published"] == 1
    assert recapito("publish", "malls", "--domain", "--type", "t").code == 1
    ok("domain", "delete", "malls")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--fail", "99"], "--fail"),
        (["--fail", "503", "--script", "x"], "give --script, or --fail"),
        (["--script", "/nowhere"], "/nowhere"),
        (["--port", "70000"], "--port"),
    ],
)
def test_wrong_listeners(live: Server, words: list[str], said: str) -> None:
    """A listener that cannot be is refused before it listens."""
    done = recapito("listen", *words)
    assert done.code == 2 and said in done.err


@pytest.mark.parametrize("line", ["abc", "700", "503 delay", "503 dlay=1", "503 times=x", "200 delay=-1"])
def test_wrong_scripts(tmp_path: Path, line: str) -> None:
    """A script with a bad line says which."""
    script = tmp_path / "script"
    script.write_text(f"200\n{line}\n", "utf-8")
    done = recapito("listen", "--script", str(script))
    assert done.code == 2
    assert "line 2: a line is `503`" in " ".join(done.err.split())


@pytest.mark.parametrize("data", ["plain text", "{", "{'a': 1}", ""])
def test_data_that_is_no_json(topic: str, data: str) -> None:
    """Data that is not JSON is refused, with the way to publish a text; nothing is sent."""
    said = recapito("publish", topic, "--type", "Created", "--data", data)
    assert said.code == 2 and "this is not JSON" in said.err and "--data '\"text\"'" in " ".join(said.err.split())


def test_an_id_from_a_flag(topic: str) -> None:
    """`--id` sets the id of an event made from flags, and is refused with a file."""
    assert ok("publish", topic, "--type", "Created", "--id", "order-7")["id"] == "order-7"
    assert recapito("publish", topic, "-", "--id", "order-7", stdin=b"[]").code == 2


def test_a_default_port_that_is_taken() -> None:
    """A listener that was given no port takes a free one; one that was given a port does not."""
    tried: list[int] = []

    def open(port: int) -> Any:
        tried.append(port)
        if port:
            raise OSError(EADDRINUSE, "Address already in use")
        return "receiver"

    with connect(server="http://127.0.0.1:1") as session:
        assert open_receiver(session, "127.0.0.1", None, open) == "receiver" and tried == [9000, 0]
        with pytest.raises(CallerError, match=r"127\.0\.0\.1:9001 cannot be used"):
            open_receiver(session, "127.0.0.1", 9001, open)


def test_a_port_that_is_taken(live: Server) -> None:
    """A listener reports it when another program listens at its port."""
    done = recapito("listen", "--port", str(live.port))
    assert done.code == 1
    assert "cannot be used: Address already in use. Choose another port with --port" in done.err


@pytest.mark.parametrize("text", ["", "soon", "1x", "-5", "1h2y"])
def test_wrong_durations(live: Server, text: str) -> None:
    """A text that is no duration moves nothing."""
    assert recapito("clock", "advance", "--", text).code == 2


def test_the_clock(live: Server) -> None:
    """The clock is shown, and moved as far as is said."""
    before = ok("clock", "show")
    assert before["mode"] == "manual"
    ok("clock", "advance", "1h30m")
    after = ok("clock", "show")["now"]
    assert datetime.fromisoformat(after) - datetime.fromisoformat(before["now"]) == timedelta(hours=1, minutes=30)
