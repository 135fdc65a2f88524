"""The profiles: every cell of the matrix, which docs/compatibility.md prints for readers."""

from collections.abc import Callable
from operator import attrgetter
from pathlib import Path
from typing import Any

import msgspec
import pytest

from recapito.domain.instant import SECOND
from recapito.domain.profiles.profile import DEFAULT, EndpointKind, Profile, load, names
from recapito.errors import InvalidInput

PROFILES = ("2019-05", "2019-07", "2020-10", "2021-03", "2023-03", "2026-02")
WEBHOOK, AZURE = EndpointKind.WEBHOOK, EndpointKind.AZURE_RESOURCE


def rule(status: int | None, *kinds: EndpointKind, dead_letters: bool = False) -> Callable[[Profile], str]:
    """How the matrix says what happens after a status, at these kinds of endpoint."""

    def read(profile: Profile) -> str:
        verdicts = {verdict(profile, status, kind, dead_letters) for kind in kinds}
        assert len(verdicts) == 1
        return verdicts.pop()

    return read


def verdict(profile: Profile, status: int | None, kind: EndpointKind, dead_letters: bool) -> str:
    if profile.never_retried(status, kind, dead_letters):
        return "never"
    least_s = profile.minimum_ns(status, kind) // SECOND
    return f"≥ {words(least_s)}" if least_s else "schedule"


def words(seconds: int) -> str:
    """A round duration in its largest unit."""
    size, unit = next((size, unit) for size, unit in ((3600, "h"), (60, "min"), (1, "s")) if seconds % size == 0)
    return f"{seconds // size} {unit}"


def codes(statuses: tuple[int, ...]) -> str:
    return " ".join(map(str, statuses)) or "–"


def yes(value: bool) -> str:
    return "yes" if value else "no"


def tail(profile: Profile) -> str:
    """The schedule after 1 h."""
    delays = profile.schedule.delays_s
    after = [words(delay) for delay in delays[delays.index(3600) + 1 :]]
    return ", ".join([*after, f"every {words(profile.schedule.then_every_s)}"])


def delayed(profile: Profile) -> str:
    rules = profile.delayed_delivery
    if rules is None:
        return "no"
    periods = "table" if rules.table_s else words(rules.first_s)
    return f"{rules.failures} events: {periods}, up to {words(rules.longest_s)}"


HOURLY, LONGER = "every 1 h", "3 h, 6 h, every 12 h"
NEVER_2020, NEVER_2023 = "400 401 403 404 413", "400 401 403 413"
HOLD_2019, HOLD_2023 = "10 events: 1 min, up to 4 h", "10 events: table, up to 2 h"

# row: (the cells of the six profiles, how a cell is read from a profile)
MATRIX: dict[str, tuple[tuple[str, ...], Callable[[Profile], str]]] = {
    "success": (("200 202", *["200 201 202 203 204"] * 5), lambda p: codes(p.status.success)),
    "schedule to 1 h": (
        ("10 s, 30 s, 1 min, 5 min, 10 min, 30 min, 1 h",) * 6,
        lambda p: ", ".join(words(delay) for delay in p.schedule.delays_s if delay <= 3600),
    ),
    "schedule after 1 h": ((HOURLY, HOURLY, *[LONGER] * 4), tail),
    "jitter, never early": (("≤ 10 %",) * 6, lambda p: f"≤ {p.schedule.jitter * 100:g} %"),
    "never, webhook": (
        ("–", "–", NEVER_2020, NEVER_2020, NEVER_2023, NEVER_2023),
        lambda p: codes(p.status.webhook.never),
    ),
    "never, Azure resource": (("–", "–", *["400 403 413"] * 4), lambda p: codes(p.status.azure_resource.never)),
    "400 with dead-letter": (("never",) * 6, rule(400, WEBHOOK, AZURE, dead_letters=True)),
    "413 with dead-letter": (("never",) * 6, rule(413, WEBHOOK, AZURE, dead_letters=True)),
    "400 without": (("schedule", "≥ 5 min", *["never"] * 4), rule(400, WEBHOOK, AZURE)),
    "413 without": (("schedule", "≥ 10 s", *["never"] * 4), rule(413, WEBHOOK, AZURE)),
    "401, webhook": (("schedule", "≥ 5 min", *["never"] * 4), rule(401, WEBHOOK)),
    "401, Azure resource": (("schedule", *["≥ 5 min"] * 5), rule(401, AZURE)),
    "404, webhook": (("schedule", "≥ 5 min", "never", "never", "≥ 10 s", "≥ 10 s"), rule(404, WEBHOOK)),
    "404, Azure resource": (("schedule", *["≥ 5 min"] * 5), rule(404, AZURE)),
    "403": (("schedule", "≥ 5 min", *["never"] * 4), rule(403, WEBHOOK, AZURE)),
    "408": (("schedule", *["≥ 2 min"] * 5), rule(408, WEBHOOK, AZURE)),
    "503": (("schedule", *["≥ 30 s"] * 5), rule(503, WEBHOOK, AZURE)),
    "429 and all others": (("schedule", *["≥ 10 s"] * 5), rule(429, WEBHOOK, AZURE)),
    "no answer": (("schedule", *["≥ 10 s"] * 5), rule(None, WEBHOOK, AZURE)),
    "batching": (("no", "no", *["yes"] * 4), lambda p: yes(p.batching)),
    "delayed delivery": (("no", HOLD_2019, HOLD_2019, HOLD_2019, HOLD_2023, HOLD_2023), delayed),
    "custom headers": (("no", "no", "no", "yes", "yes", "yes"), lambda p: yes(p.custom_headers)),
    "dead letter written after": (("5 min",) * 6, lambda p: words(p.dead_letter.delay_s)),
    "dead-letter location unavailable": (
        ("dropped after 4 h",) * 6,
        lambda p: f"dropped after {words(p.dead_letter.unavailable_s)}",
    ),
    "dead-letter container missing": (
        (*["as unavailable"] * 4, "dropped", "dropped"),
        lambda p: "dropped" if p.dead_letter.missing_container == "drop" else "as unavailable",
    ),
}
CELLS = [
    pytest.param(profile, cell, read, id=f"{profile}-{row}")
    for row, (cells, read) in MATRIX.items()
    for profile, cell in zip(PROFILES, cells, strict=True)
]

# Every failing status without a row of its own.
OTHERS = sorted({*range(300, 600)} - {400, 401, 403, 404, 408, 413, 503})

PROBATION = {
    "Busy": 10,
    "TimedOut": 10,
    "SocketError": 30,
    "NotFound": 300,
    "ResolutionError": 300,
    "Disabled": 300,
    "Full": 300,
    "Unauthorized": 300,
    "Forbidden": 300,
    "InvalidAzureFunctionDestination": 600,
}


@pytest.mark.parametrize(("name", "cell", "read"), CELLS)
def test_cell(name: str, cell: str, read: Callable[[Profile], str]) -> None:
    """The profile says what the matrix says."""
    assert read(load(name)) == cell


def test_matrix_for_readers() -> None:
    """The matrix in docs/compatibility.md has these rows, with these cells, and no others."""
    page = (Path(__file__).parents[3] / "docs" / "compatibility.md").read_text("utf-8")
    table = page[page.index("| rule |") :].split("\n\n")[0].splitlines()
    head, _, *rows = [[cell.strip().strip("`") for cell in line.strip("|").split("|")] for line in table]
    assert tuple(head[1:]) == PROFILES
    assert {row[0]: tuple(row[1:]) for row in rows} == {row: cells for row, (cells, _) in MATRIX.items()}


@pytest.mark.parametrize("name", PROFILES)
@pytest.mark.parametrize("kind", EndpointKind)
def test_all_other_statuses(name: str, kind: EndpointKind) -> None:
    """A status without a row of its own is retried like no answer at all, dead letters or not."""
    profile = load(name)
    for status in OTHERS:
        assert not profile.never_retried(status, kind, dead_letters=True)
        assert profile.minimum_ns(status, kind) == profile.minimum_ns(None, kind)


@pytest.mark.parametrize("name", ["2023-03", "2026-02"])
def test_probation_table(name: str) -> None:
    """The probation table has Event Grid's ten rows, and five minutes or more hold at once."""
    rules = load(name).delayed_delivery
    assert rules is not None
    assert rules.table_s == PROBATION
    assert rules.at_once_from_s == 300


@pytest.mark.parametrize("name", ["2019-07", "2020-10", "2021-03"])
def test_no_probation_table(name: str) -> None:
    """Before the table existed no outcome holds a subscription at its first failure."""
    rules = load(name).delayed_delivery
    assert rules is not None
    assert rules.table_s == {}
    assert rules.at_once_from_s is None


@pytest.mark.parametrize(
    ("name", "dates"),
    [
        ("2019-05", ("2019-05-15", "2019-05-20")),
        ("2019-07", ("2019-05-15", "2019-07-11")),
        ("2020-10", ("2020-10-29", "2021-01-15")),
        ("2021-03", ("2020-10-29", "2021-03-27")),
        ("2023-03", ("2023-03-01",)),
        ("2026-02", ("2026-02-09",)),
    ],
)
def test_source(name: str, dates: tuple[str, ...]) -> None:
    """Each profile names the page that it comes from, by date and hand-off."""
    profile = load(name)
    assert profile.name == name
    assert profile.title
    assert all(date in profile.source for date in dates)


def test_names() -> None:
    """There are six profiles, oldest first, and the default is one of them."""
    assert names() == PROFILES
    assert DEFAULT == "2021-03"


def test_neighbours_that_differ_in_one_thing() -> None:
    """2021-03 is 2020-10 with custom headers, and 2026-02 has the rules of 2023-03."""
    described = {"name": "", "title": "", "source": ""}
    with_headers = msgspec.structs.replace(load("2020-10"), custom_headers=True, **described)
    assert with_headers == msgspec.structs.replace(load("2021-03"), **described)
    newest = msgspec.structs.replace(load("2026-02"), **described)
    assert newest == msgspec.structs.replace(load("2023-03"), **described)


@pytest.mark.parametrize("name", ["", "2018-01", "../2021-03", "2021-03.toml"])
def test_unknown_profile(name: str) -> None:
    """An unknown name is the caller's error, and the message names the known ones."""
    with pytest.raises(InvalidInput) as caught:
        load(name)
    assert caught.value.target == "profile"
    assert all(known in caught.value.message for known in PROFILES)


@pytest.mark.parametrize(
    "part", ["", "schedule", "status", "status.webhook", "status.azure_resource", "dead_letter", "delayed_delivery"]
)
def test_every_part_of_a_profile_is_closed(part: str) -> None:
    """A field that no rule reads is refused wherever it is written, and a rule that was loaded cannot be changed."""
    profile = load(DEFAULT)
    assert profile.rules(WEBHOOK) is profile.status.webhook
    rules: Any = attrgetter(part)(profile) if part else profile
    fields = msgspec.to_builtins(rules)
    assert msgspec.convert(fields, type(rules)) == rules
    with pytest.raises(msgspec.ValidationError, match="unknown field `colour`"):
        msgspec.convert({**fields, "colour": "red"}, type(rules))
    with pytest.raises(AttributeError):
        setattr(rules, next(iter(fields)), None)
