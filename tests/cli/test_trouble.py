"""When something is in the way: no server, the wrong one, no trust, no token. One line says what to do."""

import json
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from recapito.cli.commands import doctor
from recapito.cli.toolkit.client import ApiClient, Credential, patiently
from recapito.cli.toolkit.session import connect
from tests.cli.observed import NOW, observed
from tests.cli.terminal import lines, ok, recapito
from tests.system.machine import Server, receiver, server


def refused(*words: str) -> str:
    """The one line that a command says when it fails."""
    said = recapito(*words)
    assert said.code == 1, said
    assert not said.out
    [line] = lines(said.err)
    return line


def test_no_server() -> None:
    """When no server listens, the error names the commands that start one or name another."""
    line = refused("topic", "list", "--server", "http://127.0.0.1:1")
    assert line.startswith("recapito: No server listens at http://127.0.0.1:1. Start one with `recapito serve`")
    assert "--server" in line and "config set server" in line


@pytest.mark.parametrize("url", ["", "nonsense", "ftp://x", "http://", "http://x:99999", "http://[::1", "http://x/?a"])
def test_urls_that_are_none(url: str) -> None:
    """A text that is no URL of a server is refused before a request is made."""
    said = recapito("topic", "list", "--server", url)
    assert said.code == 2 and "is not a URL like http://127.0.0.1:8585" in " ".join(said.err.split())


@pytest.mark.parametrize(
    "url", ["http://no-such-host.invalid", "http://x\u00e4\u00f6.invalid", f"http://{'a' * 70}.invalid"]
)
def test_names_that_are_none(url: str) -> None:
    """A name that cannot be found is said as such."""
    assert url in refused("topic", "list", "--server", url)


@contextmanager
def stranger(status: int, body: bytes) -> Iterator[str]:
    """Some other HTTP server."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Silence."""

    with HTTPServer(("127.0.0.1", 0), Handler) as it:
        thread = threading.Thread(target=it.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield f"http://127.0.0.1:{it.server_port}"
        finally:
            it.shutdown()
            thread.join()


@pytest.mark.parametrize(("status", "body"), [(200, b"<html>"), (404, b"<html>"), (500, b""), (403, b'{"error": 1}')])
def test_another_server(status: int, body: bytes) -> None:
    """Another program's server is told from ours, and is not blamed for our errors."""
    with stranger(status, body) as url:
        assert "not as Recapito does. Is it the server?" in refused("topic", "list", "--server", url)
        said = recapito("doctor", "--server", url)
        assert said.code == 1 and "not Recapito" in said.out


def test_tls_where_there_is_none(live: Server) -> None:
    """https:// to a server without TLS says so."""
    assert "Is it http:// there?" in refused("topic", "list", "--server", live.url.replace("http", "https"))


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that others can reach: with TLS, and with principals."""
    principals = [
        {"client_id": "boss", "secret": "boss-secret", "roles": ["Contributor", "EventGrid Data Sender"]},
        {"client_id": "guest", "secret": "guest-secret", "roles": ["Reader"]},
    ]
    environment = {"RECAPITO_IDENTITY_PRINCIPALS": json.dumps(principals), "RECAPITO_IDENTITY_TENANT": "acme"}
    data = tmp_path_factory.mktemp("guarded")
    with server(data, "--host", "0.0.0.0", "--tls", environment=environment) as it:
        yield it


def flags(guarded: Server, client: str = "", trust: bool = True) -> list[str]:
    """The flags that name the server, trust it, and sign in."""
    found = ["--server", f"https://localhost:{guarded.port}"]
    found += ["--ca-file", str(guarded.authority)] if trust else []
    return found + (
        ["--tenant", "acme", "--client-id", client, "--client-secret", f"{client}-secret"] if client else []
    )


def test_no_trust(guarded: Server) -> None:
    """A certificate that is not trusted is said as such, with where its authority is found."""
    line = refused("topic", "list", *flags(guarded, trust=False))
    assert "is not trusted" in line and "--ca-file" in line and "ca.pem" in line
    line = refused("topic", "list", *flags(guarded, trust=False), "--ca-file", "/nowhere.pem")
    assert "/nowhere.pem" in line


def test_no_tls_to_a_server_that_has_it(guarded: Server) -> None:
    """http:// to a server with TLS says to use https://."""
    assert "use https://" in refused("topic", "list", "--server", f"http://localhost:{guarded.port}")


def test_no_token(guarded: Server) -> None:
    """Without a token it says how to sign in; secrets of the environment are not sent on loopback."""
    line = refused("topic", "list", *flags(guarded))
    assert "(AuthenticationFailed)" in line and "AZURE_CLIENT_SECRET" in line and "--client-secret" in line


def test_sign_in(guarded: Server) -> None:
    """With flags a principal signs in, manages and publishes."""
    boss = flags(guarded, "boss")
    assert ok("topic", "create", "guarded", *boss)["name"] == "guarded"
    assert ok("publish", "guarded", "--type", "t", *boss)["published"] == 1
    assert recapito("doctor", *boss, "--data", str(guarded.data)).code == 0


def test_secrets_of_the_environment_stay_on_this_side_of_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    """AZURE_CLIENT_SECRET signs in at a server elsewhere, and is not shown to one on this machine."""
    for name in ("TENANT_ID", "CLIENT_ID", "CLIENT_SECRET"):
        monkeypatch.setenv(f"AZURE_{name}", "x")
    for url, signs_in in (("https://events.example", True), ("https://localhost:1", False), ("http://[::1]:1", False)):
        with connect(server=url) as session:
            assert session.client.signs_in is signs_in


def test_a_key_that_can_not_be_sent_is_not_shown(live: Server) -> None:
    """A key with a line end, or with letters that no header holds, is refused without a word of it."""
    for key in ("s3cret\nX: y", "s3cret\u20ac"):
        line = refused("publish", "demo", "--type", "t", "--key", key)
        assert "characters" in line and "s3cret" not in line and "\u20ac" not in line


def test_who_may_not(guarded: Server) -> None:
    """A principal that may only read is told so; a wrong secret is not shown."""
    assert ok("topic", "list", *flags(guarded, "guest")) is not None
    assert "(AuthorizationFailed)" in refused("topic", "create", "mine", *flags(guarded, "guest"))
    wrong = [*flags(guarded, "boss")[:-1], "not-the-secret"]
    line = refused("topic", "list", *wrong)
    assert re.search("Signing in as boss failed: AADSTS7000215", line) and "not-the-secret" not in line
    said = recapito("topic", "list", *flags(guarded), "--client-id", "boss")
    assert said.code == 2 and "belong together" in said.err


def test_a_token_that_grew_old() -> None:
    """Who looks on for longer than a token lives is signed in again."""
    old = {"error": {"code": "AuthenticationFailed", "message": "The token is too old."}}
    answers = iter([(200, {"access_token": "one"}), (401, old), (200, {"access_token": "two"}), (200, {"fine": True})])
    with observed(lambda path, query, body: next(answers)) as it:
        assert ApiClient(it.url, credential=Credential("t", "boss", "s")).call("GET", "/clock") == {"fine": True}
    assert [path for path, _, _ in it.asked] == ["/t/oauth2/v2.0/token", "/clock"] * 2


def test_a_server_that_is_not_ready() -> None:
    """A server that answers 503 while it starts is one that does not answer yet, to who looks on."""
    busy = {"error": {"code": "ServiceUnavailable", "message": "Not yet."}}
    answers = iter([(503, busy), (200, {"fine": True})])
    notes: list[str] = []
    with observed(lambda path, query, body: next(answers)) as it:
        client = ApiClient(it.url)
        assert patiently(lambda: client.call("GET", "/clock"), notes.append) == {"fine": True}
    assert [note.partition(":")[0] for note in notes] == ["the connection is lost, trying again", "connected again"]


def test_the_doctor_sees_who_did_not_consent(live: Server, tmp_path: Path) -> None:
    """The doctor looks at all that is there, and names a subscription whose endpoint must still consent."""
    ok("topic", "create", "ailing")
    with receiver() as silent:
        ok("event-subscription", "create", "shy", "--topic-name", "ailing", "--endpoint", silent.url)
        said = recapito("doctor", "--data", str(tmp_path), "-o", "json")
    ok("topic", "delete", "ailing")
    assert said.code == 1
    found = {one["check"]: one for one in said.json}
    assert (found["subscription shy"]["state"], found["endpoint of shy"]["state"]) == ("wrong", "ok")
    assert found["subscription shy"]["found"] == "AwaitingManualAction" and found["subscription shy"]["remedy"]
    assert found["data directory"]["state"] == "ok"
    assert found["server"]["found"].endswith(live.url)
    assert found["time"]["state"] == "note" and "manual" in found["time"]["found"]


def test_the_doctor_dials_endpoints(tmp_path: Path) -> None:
    """An endpoint where nothing listens is named with its subscription, and the doctor ends with 1 instead of 0."""
    with server(tmp_path, "--memory") as it:
        assert recapito("doctor", "--server", it.url, "--no-endpoints").code == 0
        it.subscribe("deaf", "http://127.0.0.1:8099/hook")
        said = recapito("doctor", "--server", it.url, "-o", "json")
    assert said.code == 1
    [wrong] = [one for one in said.json if one["state"] == "wrong"]
    assert wrong["check"] == "endpoint of deaf"
    assert wrong["found"] == "127.0.0.1:8099 cannot be reached: Connection refused"
    assert "--endpoint" in wrong["remedy"]


def test_the_doctor_has_connections_tried(tmp_path: Path) -> None:
    """A connection that leads nowhere is named with the reason and the remedy; so does `connection check`."""
    account = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Storage/storageAccounts/pictures"
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    text = f"AccountName=pictures;AccountKey=c2VjcmV0;QueueEndpoint=http://127.0.0.1:{port}/pictures"
    with server(tmp_path / "data", "--memory") as it:
        ok("connection", "set", account, "--connection-string", text, "--server", it.url)
        said = recapito("doctor", "--server", it.url, "-o", "json")
        [wrong] = [one for one in said.json if one["state"] == "wrong"]
        assert (said.code, wrong["check"], wrong["found"]) == (1, f"connection {account}", "SocketError")
        assert f"127.0.0.1:{port}" in wrong["remedy"] and "c2VjcmV0" not in said.out
        checked = recapito("connection", "check", account, "--server", it.url)
        assert (checked.code, checked.json[0]["found"]) == (1, "SocketError")
        assert recapito("doctor", "--server", it.url, "--no-connections").code == 0
        assert recapito("connection", "check", f"{account}2", "--server", it.url).code == 3


def test_the_doctor_names_the_command_for_what_is_not_connected() -> None:
    """It is the command that the refusal of such a subscription names, for the account, not for a part of it."""
    account = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Storage/storageAccounts/pictures"
    app = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Web/sites/app"
    missing = [f"{account}/blobServices/default/containers/dead", f"{app}/functions/OnOrder"]
    with observed(lambda path, query, body: (200, {"value": [], "unconnected": missing})) as it:
        found = list(doctor.check_connections(ApiClient(it.url)))
    assert [one.remedy for one in found] == [
        f"recapito connection set {account} --connection-string -",
        f"recapito connection set {app} --host-url -",
    ]


def test_the_doctor_without_a_server(tmp_path: Path) -> None:
    """Without a server the doctor still looks at what is here, and says how to start one."""
    said = recapito("doctor", "--server", "http://127.0.0.1:1", "-o", "json", "--data", str(tmp_path / "none"))
    assert said.code == 1
    assert [(one["check"], one["state"]) for one in said.json] == [("data directory", "note"), ("server", "wrong")]
    assert said.json[1]["remedy"].startswith("Start one with `recapito serve`")


@pytest.mark.parametrize(
    ("kept", "state", "found"),
    [
        ({"since": NOW, "attempts": 7, "notKept": 0}, "ok", f"7 attempts since {NOW}"),
        ({"since": NOW, "attempts": 7, "notKept": 2}, "ok", "2 were not kept"),
        ({"since": None, "attempts": 0, "notKept": 0}, "note", "no attempt is kept"),
    ],
)
def test_the_doctor_asks_for_history(kept: dict[str, object], state: str, found: str) -> None:
    """The doctor says whether attempts are kept, since when, and how many were not."""
    with observed(lambda path, query, body: (200, {"kept": kept})) as it:
        finding = doctor.check_history(ApiClient(it.url))
    assert finding.state == state and found in finding.found and bool(finding.remedy) is (state == "note")


def test_the_doctor_names_stopped_subscriptions() -> None:
    """It pages through failing ones and reports those that send nothing more, with a remedy."""
    pages = {
        "": {"value": [{"topic": "orders", "subscription": "held", "stopped": None}], "next": "7"},
        "7": {"value": [{"topic": "orders", "subscription": "mine", "stopped": "a gap"}], "next": None},
    }
    with observed(lambda path, query, body: (200, pages[query.get("after", "")])) as it:
        (found,) = doctor.check_lanes(ApiClient(it.url))
    assert (found.state, found.check, found.found) == ("wrong", "subscription orders/mine", "a gap")
    assert "restore a backup" in found.remedy


@pytest.mark.parametrize(
    ("check", "state", "remedy"),
    [
        ("store", "log.db may be damaged", "recapito doctor --data DIRECTORY"),
        ("disk", "The disk is nearly full: 7 MB are free.", "make room"),
        ("disk", "log.db was removed from the data directory: put it back", ""),
        ("damage", "1 damaged record was set aside: see `recapito damaged list`", "recapito damaged export"),
        ("damage", "log.db: database disk image is malformed", "recapito doctor --data DIRECTORY"),
        ("other", "odd", "look at the server's log"),
    ],
)
def test_the_doctor_has_a_remedy_for_each_check(check: str, state: str, remedy: str) -> None:
    """The remedy belongs to the reason, not only to the name of the check."""
    with observed(lambda path, query, body: (503, {"status": "not ready", "checks": {check: state}})) as it:
        (found,) = doctor.check_readiness(ApiClient(it.url))
    assert (found.state, found.found) == ("wrong", state)
    assert remedy in found.remedy and bool(remedy) is bool(found.remedy)


def test_the_doctor_misses_the_log(tmp_path: Path) -> None:
    """A server does not start without it, so no other line would tell."""
    (tmp_path / "dispatch.db").touch()
    (found,) = doctor.check_damage(tmp_path)
    assert (found.state, found.check) == ("wrong", "log.db") and "restore a backup" in found.remedy


def test_the_doctor_asks_a_server_without_history() -> None:
    """A server that knows no history is no reason to fail."""
    with observed(lambda path, query, body: (404, {"error": {"code": "NotFound", "message": "No such page."}})) as it:
        assert doctor.check_history(ApiClient(it.url)).state == "note"


@pytest.mark.parametrize(
    ("status", "body", "named", "unnamed"),
    [(200, "Recapito", "ok", "ok"), (200, "Other", "wrong", "note"), (404, "Recapito", "wrong", "note")],
)
def test_the_doctor_looks_for_the_portal(status: int, body: str, named: str, unnamed: str) -> None:
    """A portal that was named must answer; at its usual port it may be off."""
    with observed(lambda path, query, asked: (status, body)) as it:
        assert doctor.check_portal(ApiClient("http://127.0.0.1:1"), it.url).state == named
        assert doctor.check_portal(ApiClient(it.url), None, it.port).state == unnamed
    assert doctor.check_portal(ApiClient(it.url), it.url).state == "wrong"
    assert doctor.check_portal(ApiClient(it.url), None, it.port).state == "note"
