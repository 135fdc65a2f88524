"""Words in the wrong place, and waits: each says what to do instead, or what it waits for."""

import io
import threading
from contextlib import redirect_stderr
from pathlib import Path

import pytest
from rich.console import Console

from recapito.cli import COMMON_SWITCHES, COMMON_VALUED
from recapito.cli.commands import doctor
from recapito.cli.commands.event_subscription import asking
from recapito.cli.text.welcome import print_development
from recapito.cli.toolkit.client import ApiClient
from recapito.cli.toolkit.elsewhere import ELSEWHERE, put_flags_last
from recapito.cli.toolkit.session import CommandSession
from recapito.cli.toolkit.verb import COMMON
from recapito.identity.server_identity import Development
from recapito.settings import settings
from tests.cli.observed import observed
from tests.cli.terminal import ok, recapito
from tests.system.machine import Server


@pytest.mark.parametrize(
    ("words", "moved"),
    [
        (["--server", "u", "topic", "list"], ["topic", "list", "--server", "u"]),
        (["--server=u", "--only-show-errors", "top"], ["top", "--server=u", "--only-show-errors"]),
        (["--output", "tsv", "publish", "t", "--", "-f"], ["publish", "t", "--output", "tsv", "--", "-f"]),
        (["topic", "list", "--server", "u"], ["topic", "list", "--server", "u"]),
        (["--version"], ["--version"]),
        (["--server"], ["--server"]),
        ([], []),
    ],
)
def test_flags_before_the_command(words: list[str], moved: list[str]) -> None:
    """Common flags in front of a command are moved behind it; nothing else is."""
    assert put_flags_last(words, COMMON_VALUED, COMMON_SWITCHES) == moved


def test_the_flags_before_the_command_are_all_common_flags() -> None:
    """The table of flags that may stand first is that of the flags that all commands have."""
    names = {f"--{name.replace('_', '-')}" for name in COMMON}
    assert names == COMMON_VALUED | COMMON_SWITCHES


def test_the_server_before_the_command(running: Server) -> None:
    """`recapito --server URL topic list` asks that server."""
    assert "demo" in [topic["name"] for topic in ok("--server", running.url, "topic", "list")]


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        (["redrive"], "Run `recapito deadletter redrive`."),
        (["eventgrid", "topic", "list"], "Leave out `az eventgrid`"),
        (["az", "eventgrid", "topic", "list"], "Leave out `az eventgrid`"),
        (["topic", "publish", "orders"], "Run `recapito publish`."),
        (["deadletter", "explain", "e-1"], "Run `recapito explain`."),
        (["tpic", "list"], "topic"),
    ],
)
def test_commands_in_the_wrong_place(words: list[str], remedy: str) -> None:
    """A command that is elsewhere is refused with its place, a misspelt one with the nearest."""
    said = recapito(*words)
    assert said.code == 2 and remedy in " ".join(said.err.split())


@pytest.mark.parametrize("command", sorted(set(ELSEWHERE.values())))
def test_the_places_exist(command: str) -> None:
    """Every command that an error names is there."""
    assert recapito(*command.split(), "--help").code == 0


def test_the_portal_is_not_the_server() -> None:
    """A command that asks the portal says so, and that the server has another port."""
    with observed(lambda path, query, body: (404, b"<html>Recapito"), headers={"X-Recapito": "portal"}) as it:
        said = recapito("topic", "list", "--server", it.url)
    assert said.code == 1 and f"{it.url} is the portal. Name the server with --server" in said.err


@pytest.mark.parametrize("verb", [["redrive"], ["purge", "--yes"]])
def test_dead_letters_of_an_unknown_subscription(live: Server, verb: list[str]) -> None:
    """Redrive and purge of a subscription or topic that does not exist are errors."""
    said = recapito("deadletter", *verb, "--topic", "demo", "--event-subscription", "nowhere")
    assert said.code == 3 and "There is no event subscription 'nowhere' of topic 'demo'." in said.err
    said = recapito("deadletter", *verb, "--topic", "nowhere")
    assert said.code == 3 and "There is no topic 'nowhere'." in said.err
    assert recapito("deadletter", *verb, "--topic", "demo").code == 0


def test_the_wait_for_an_endpoint_is_announced() -> None:
    """A command whose endpoint does not answer says that it is being asked, how often and how long."""
    text, said = asking("https://billing.example/hook?code=secret"), io.StringIO()
    assert "secret" not in text
    assert "https://billing.example/hook to consent: it is asked 3 times, 5 s apart" in text and "100 s" in text
    noted = threading.Event()

    class Noting(CommandSession):
        def note(self, text: str) -> None:
            super().note(text)
            noted.set()

    session = Noting(ApiClient("http://127.0.0.1:1"), "s")
    with redirect_stderr(said), session.announcing(text, after_s=0.0):
        assert noted.wait(30)
    assert said.getvalue() == f"recapito: {text}\n"
    with redirect_stderr(said), session.announcing("never said", after_s=60.0):
        pass
    assert "never" not in said.getvalue()


def test_the_doctor_asks_the_server_for_its_directory(tmp_path: Path) -> None:
    """The doctor looks at the directory that the server names, unless it is told another or it is not here."""

    def found(data: object, given: Path | None = None, status: int = 200) -> tuple[str, str]:
        answer = {"data": data} if status == 200 else {"error": {"code": "Forbidden", "message": "You may not."}}
        with observed(lambda path, query, body: (status, answer)) as it:
            first = next(doctor.check_data(ApiClient(it.url), given, True))
        return first.state, first.found

    assert found(str(tmp_path)) == ("ok", str(tmp_path))
    assert found("/nowhere", tmp_path) == ("ok", str(tmp_path))
    assert found("/nowhere") == ("note", "/nowhere of the server is not on this machine")
    assert found(None) == ("note", "none: the server keeps everything in memory")
    state, text = found(None, status=403)
    assert state == "note" and "You may not." in text
    assert next(doctor.check_data(ApiClient("http://127.0.0.1:1"), None, False)).found == "recapito-data does not exist"


@pytest.mark.parametrize(("tls", "shown"), [(False, False), (True, True)])
def test_a_secret_is_printed_only_where_it_can_be_used(tls: bool, shown: bool) -> None:
    """Azure's clients need HTTPS: without it no client secret is printed."""
    console = Console(file=io.StringIO(), width=200)
    chosen = settings.load(environment={}, flags={"tls.enabled": tls})
    print_development(chosen, Development("tenant", "client", "the-secret"), console)
    assert isinstance(console.file, io.StringIO)
    printed = console.file.getvalue()
    assert ("the-secret" in printed) is shown and ("--tls" in printed) is not shown
