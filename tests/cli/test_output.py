"""How answers are printed: every `-o`, `--query`, and nothing that others put into names gets power over a terminal."""

import json

import pytest

from recapito.cli.toolkit.output import Output, print_answer, read_query, show
from tests.cli.terminal import lines, ok, recapito
from tests.system.machine import Server

LISTED = [{"name": "a", "n": 1, "on": True, "none": None, "tags": {"x": "1"}}, {"name": "b\tc", "n": 2.5, "on": False}]


def printed(capsys: pytest.CaptureFixture[str], output: Output, query: str | None = None) -> str:
    print_answer(LISTED, output, read_query(query))
    return capsys.readouterr().out


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    """JSON is what programs read."""
    assert json.loads(printed(capsys, Output.JSON)) == LISTED
    assert json.loads(printed(capsys, Output.JSONC)) == LISTED


def test_yaml(capsys: pytest.CaptureFixture[str]) -> None:
    """YAML has the same, in its own words."""
    assert printed(capsys, Output.YAML).splitlines()[:4] == ["- name: a", "  n: 1", "  'on': true", "  none: null"]


def test_tsv(capsys: pytest.CaptureFixture[str]) -> None:
    """TSV has a row on each line, whatever is in the cells."""
    assert printed(capsys, Output.TSV) == "a\t1\ttrue\t\t1\nb\\tc\t2.5\tfalse\n"
    assert printed(capsys, Output.TSV, "[].name") == "a\nb\\tc\n"
    assert printed(capsys, Output.TSV, "[0].[name, n]") == "a\n1\n"


def test_table(capsys: pytest.CaptureFixture[str]) -> None:
    """A table has the plain values, a column each."""
    assert lines(printed(capsys, Output.TABLE, "[].{Name: name, Count: n}")) == [
        "  Name   Count",
        " ──────────────",
        "  a      1",
        "  b?c    2.5",
    ]
    assert printed(capsys, Output.TABLE, "[?n > `9`]") == ""
    assert printed(capsys, Output.NONE) == ""


def test_markup_is_text(capsys: pytest.CaptureFixture[str]) -> None:
    """A text that looks like markup or like a terminal's own words is only text."""
    print_answer([{"name": "[red]x[/red] \x1b[31mred \x9b31m"}], Output.TABLE)
    assert "  [red]x[/red] ?[31mred ?31m" in capsys.readouterr().out
    for output in Output:
        print_answer([{"name": "\x1b[31mred \x9b31m"}], output)
        assert not {"\x1b", "\x9b"} & set(capsys.readouterr().out)


def test_as_az_shows_it() -> None:
    """Properties are part of what they belong to, names are sorted, and the group has a name of its own."""
    id = "/subscriptions/s/resourceGroups/g/providers/P/topics/t"
    resource = {"name": "t", "id": id, "properties": {"destination": {"endpointType": "W", "properties": {"u": 1}}}}
    assert show([resource]) == [
        {"destination": {"endpointType": "W", "u": 1}, "id": id, "name": "t", "resourceGroup": "g"}
    ]
    assert show({"key2": "b", "key1": "a"}) == {"key2": "b", "key1": "a"}


def test_a_table_of_topics(live: Server) -> None:
    """`topic list -o table` is a table that fits a terminal."""
    ok("topic", "create", "tabled", "-g", "tables", "-l", "west", "--tags", "a=b")
    said = recapito("topic", "list", "-g", "tables", "-o", "table", "--query", "[].{Name: name, Where: location}")
    assert lines(said.out) == ["  Name     Where", " ────────────────", "  tabled   west"]
    whole = recapito("topic", "list", "-g", "tables", "-o", "table").out
    assert "Name" in whole and "tabled" in whole and max(map(len, whole.splitlines())) <= 100


def test_a_wrong_query_changes_nothing(live: Server) -> None:
    """A query that cannot be read is refused before any request to the server."""
    said = recapito("topic", "create", "unasked", "--query", "[?")
    assert said.code == 2 and "this is not a JMESPath expression" in said.err
    assert recapito("topic", "show", "unasked").code == 3
    said = recapito("topic", "show", "demo", "--query", "sum(name)")
    assert said.code == 2 and not said.out
