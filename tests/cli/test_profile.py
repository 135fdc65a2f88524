"""`recapito profile`: what people and programs see of the profiles."""

import json

import pytest
from typer.testing import CliRunner, Result

from recapito.cli.commands.profile import app
from recapito.domain.profiles.profile import known, names


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments), env={"COLUMNS": "200"})


def rows(text: str) -> dict[str, str]:
    """The rows of a printed table by their first cell; cells are two or more spaces apart."""
    split = [line.strip().split("  ", 1) for line in text.splitlines()]
    return {cells[0]: cells[1].strip() for cells in split if len(cells) == 2}


def test_list() -> None:
    """All profiles are listed, with what is new and where it comes from; the default is marked."""
    result = run("list")
    assert result.exit_code == 0
    assert [line.split()[0] for line in result.stdout.splitlines() if line.strip().startswith("20")] == list(names())
    assert "2021-03 (default)" in result.stdout
    assert "handed off on 2021-03-27" in result.stdout


def test_list_as_json() -> None:
    """As JSON the list has a record for each profile, and one default."""
    listed = json.loads(run("list", "-o", "json").stdout)
    assert [profile["name"] for profile in listed] == list(known())
    assert [profile["name"] for profile in listed if profile["default"]] == ["2021-03"]
    assert all(profile["title"] and profile["source"] for profile in listed)


def test_show() -> None:
    """A profile is shown in words, with the attempts that a dead endpoint gets."""
    result = run("show", "2021-03")
    shown = rows(result.stdout)
    assert result.exit_code == 0
    assert shown["success codes"] == "200 201 202 203 204"
    assert shown["retries after"] == "10 s, 30 s, 1 min, 5 min, 10 min, 30 min, 1 h, 3 h, 6 h, then every 12 h"
    assert shown["never retried, webhook"] == "400 401 403 404 413"
    assert shown["delayed delivery"].startswith("after 10 events in a row failed at the first attempt; for 1 min,")
    assert shown["dead letter written"] == "5 min after the last attempt"
    assert shown["11"] == "22 h 46 min 40 s   12 h"
    assert shown["end"] == "34 h 46 min 40 s   TimeToLiveExceeded"


@pytest.mark.parametrize("name", known())
def test_show_every_profile(name: str) -> None:
    """Every profile can be shown, for people and as JSON."""
    assert run("show", name).exit_code == 0
    assert json.loads(run("show", name, "--output", "json").stdout)["name"] == name


def test_show_says_what_is_missing() -> None:
    """A profile without a rule says so instead of leaving a gap."""
    shown = rows(run("show", "2019-05").stdout)
    assert shown["never retried, webhook"] == "–"
    assert shown["least delay, webhook"] == "none beyond the schedule"
    assert (shown["batching"], shown["delayed delivery"]) == ("no", "no")


def test_show_as_json() -> None:
    """As JSON a profile is its data, with the timetable in seconds."""
    shown = json.loads(run("show", "2019-07", "-o", "json").stdout)
    assert shown["status"]["webhook"]["minimum_s"]["408"] == 120
    assert shown["dead_endpoint"]["attempts_s"][:5] == [0, 10, 40, 100, 400]
    assert len(shown["dead_endpoint"]["attempts_s"]) == 30
    assert shown["dead_endpoint"]["reason"] == "MaxDeliveryAttemptsExceeded"


def test_diff() -> None:
    """A diff has the rows that differ and no others."""
    result = run("diff", "2021-03", "2023-03")
    assert result.exit_code == 0
    assert rows(result.stdout)["never retried, webhook"].split("  ")[0] == "400 401 403 404 413"
    assert "NotFound: 5 min" in result.stdout
    assert "dropped at once" in result.stdout
    assert "success codes" not in result.stdout
    assert "batching" not in result.stdout


def test_diff_as_json() -> None:
    """As JSON a diff has both values of each key that differs; null where a profile has no such key."""
    found = {
        row["key"]: (row["a"], row["b"]) for row in json.loads(run("diff", "2019-05", "2019-07", "-o", "json").stdout)
    }
    assert found["status.success"] == ([200, 202], [200, 201, 202, 203, 204])
    assert found["delayed_delivery.failures"] == (None, 10)
    assert "schedule.then_every_s" not in found


def test_diff_of_a_profile_with_itself() -> None:
    """When nothing differs, that is what is said."""
    assert "nothing differs" in run("diff", "2026-02", "2026-02").stdout
    assert json.loads(run("diff", "2026-02", "2026-02", "-o", "json").stdout) == []


@pytest.mark.parametrize("arguments", [("show", "2018"), ("diff", "2018", "2021-03"), ("diff", "2021-03", "2018")])
def test_unknown_profile(arguments: tuple[str, ...]) -> None:
    """An unknown name is one line on standard error that names the known ones, and exit code 1."""
    result = run(*arguments)
    assert result.exit_code == 1
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1
    assert all(name in result.stderr for name in ("2018", *known()))
