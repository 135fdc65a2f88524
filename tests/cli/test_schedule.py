"""`recapito schedule`: the timetable of attempts, by profile, policy and answer."""

import pytest

from recapito.domain.profiles.profile import names
from tests.cli.terminal import lines, ok, recapito


def test_a_busy_endpoint() -> None:
    """An endpoint that answers 503 is tried again after half a minute at the least, until its attempts are used up."""
    said = recapito("schedule", "--profile", "2021-03", "--status", "503", "--policy", "4,1440")
    assert lines(said.out) == [
        "  Attempt   After   Wait    Seconds   End",
        " ─────────────────────────────────────────────────────────────────",
        "  1         0 s     0 s     0",
        "  2         30 s    30 s    30",
        "  3         1 min   30 s    60",
        "  4         2 min   1 min   120       MaxDeliveryAttemptsExceeded",
    ]


def test_how_it_ends() -> None:
    """A status that is never retried ends at once, success is delivered, and a short life ends without an attempt."""
    assert ok("schedule", "--status", "413", "-o", "json")[-1]["end"] is not None
    [only] = ok("schedule", "--status", "200", "-o", "json")
    assert only["end"] == "Delivered"
    *_, last = ok("schedule", "--policy", "30,5", "-o", "json")
    assert (last["attempt"], last["end"]) == (None, "TimeToLiveExceeded")


@pytest.mark.parametrize("profile", names())
def test_every_profile(profile: str) -> None:
    """Every profile has a timetable, for webhooks and for Azure resources."""
    assert ok("schedule", "--profile", profile, "-o", "json")
    assert ok("schedule", "--profile", profile, "--azure-resource", "--dead-letters", "--status", "400", "-o", "json")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--profile", "1999-01"], 1, "Profile '1999-01' is unknown"),
        (["--policy", "31,1440"], 2, "attempts are 1 to 30"),
        (["--policy", "1,0"], 2, "minutes are 1 to 1440"),
        (["--policy", "many"], 2, "is not like 30,1440"),
        (["--status", "42"], 2, "42 is not an HTTP status"),
    ],
)
def test_wrong_words(words: list[str], code: int, said: str) -> None:
    """An impossible schedule is reported in a line."""
    done = recapito("schedule", *words)
    assert done.code == code and said in done.err
