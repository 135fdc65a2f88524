"""`recapito config`: where defaults come from, and in which order."""

import stat
from pathlib import Path

import pytest

from tests.cli.terminal import lines, ok, recapito
from tests.system.machine import Server


def test_the_order(running: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """A flag goes before the environment, that before the file, and that before what is usual."""
    recapito("config", "set", "server", running.url)
    recapito("config", "set", "group", "filed")
    assert ok("topic", "create", "where")["resourceGroup"] == "filed"
    monkeypatch.setenv("RECAPITO_GROUP", "exported")
    assert ok("topic", "create", "elsewhere")["resourceGroup"] == "exported"
    assert ok("topic", "create", "anywhere", "-g", "flagged")["resourceGroup"] == "flagged"
    monkeypatch.delenv("RECAPITO_GROUP")
    assert recapito("config", "unset", "group").code == 0
    assert ok("topic", "create", "usual")["resourceGroup"] == "local"


def test_show(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A default is shown with its source; a key is not shown, and only its owner can read the file."""
    monkeypatch.setenv("RECAPITO_LOCATION", "west")
    recapito("config", "set", "key", "s3cret")
    shown = {one["name"]: one for one in ok("config", "show", "-o", "json")}
    assert (shown["location"]["value"], shown["location"]["source"]) == ("west", "RECAPITO_LOCATION")
    assert (shown["key"]["value"], shown["key"]["source"]) == ("(set)", str(tmp_path / "config.toml"))
    assert shown["server"]["source"] == "default"
    assert stat.S_IMODE((tmp_path / "config.toml").stat().st_mode) == 0o600
    assert recapito("config", "path").out == f"{tmp_path / 'config.toml'}\n"


def test_values_survive(tmp_path: Path) -> None:
    """Whatever may be in a value is in it again when it is read."""
    for value in ('quote " and \\ and \u00e4\U0001f600', "x=y", "#no comment"):
        recapito("config", "set", "group", value)
        assert {one["name"]: one["value"] for one in ok("config", "show", "-o", "json")}["group"] == value


def test_output_is_a_default_too(live: Server) -> None:
    """Who likes tables gets them without asking each time."""
    recapito("config", "set", "output", "tsv")
    assert recapito("topic", "show", "demo", "--query", "name").out == "demo\n"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("colour = 'red'", "unknown key colour; known: server"),
        ("server = 1", "server must be a string"),
        ("server", "config.toml"),
    ],
)
def test_a_broken_file_is_named(tmp_path: Path, content: str, said: str) -> None:
    """The fault in the file is named in one line."""
    (tmp_path / "config.toml").write_text(content, "utf-8")
    done = recapito("topic", "list")
    assert done.code == 78
    assert said in done.err and len(lines(done.err)) == 1


@pytest.mark.parametrize(("key", "wrong"), [("output", "xml"), ("server", "nowhere")])
def test_a_wrong_default_is_named_and_put_right(tmp_path: Path, key: str, wrong: str) -> None:
    """A command that cannot use a default says in which file it stands, and `config` still works to change it."""
    file = tmp_path / "config.toml"
    file.write_text(f'{key} = "{wrong}"\n', "utf-8")
    said = recapito("topic", "list")
    assert said.code == 2 and f"Invalid value for {file}: '{wrong}' is not" in said.err
    assert wrong in recapito("config", "show").out
    assert recapito("config", "unset", key).code == 0
    assert file.read_text("utf-8") == ""


def test_a_wrong_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A URL that is none is blamed on the variable that has it, not on a flag that was not given."""
    monkeypatch.setenv("RECAPITO_SERVER", "nowhere")
    assert "Invalid value for RECAPITO_SERVER: 'nowhere' is not a URL" in recapito("topic", "list").err


def test_an_authority_is_found_from_everywhere(tmp_path: Path) -> None:
    """The file of an authority is kept by its whole path: the next command may run in another directory."""
    recapito("config", "set", "ca_file", "ca.pem")
    assert {one["name"]: one["value"] for one in ok("config", "show", "-o", "json")}["ca_file"] == str(
        tmp_path / "ca.pem"
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["set", "colour", "red"], "'colour' is not one of server"),
        (["set", "group", "a\nb"], "one line of text"),
        (["set", "output", "xml"], "'xml' is not one of json"),
        (["set", "server", "127.0.0.1:8585"], "is not a URL like http://127.0.0.1:8585"),
    ],
)
def test_wrong_values(words: list[str], said: str) -> None:
    """An unknown key or value is refused, and the file stays as it is."""
    done = recapito("config", *words)
    assert done.code == 2 and said in done.err
    assert not Path("config.toml").exists()
