"""The timetable of a dead endpoint: the attempt times that the schedules amount to."""

import pytest

from recapito.domain.delivery.delivery import ATTEMPTS_EXCEEDED, TTL_EXCEEDED, Timetable, timetable
from recapito.domain.delivery.outcome import Outcome, Result, answered
from recapito.domain.instant import HOUR, MINUTE, SECOND
from recapito.domain.profiles.profile import EndpointKind, load
from recapito.domain.resources.subscription import RetryPolicy

DEFAULT_POLICY = RetryPolicy()
DEAD = Outcome(Result.SOCKET_ERROR)


def at(hours: int = 0, minutes: int = 0, seconds: int = 0) -> int:
    return hours * HOUR + minutes * MINUTE + seconds * SECOND


DOCUMENTED = [
    at(),
    at(seconds=10),
    at(seconds=40),
    at(minutes=1, seconds=40),
    at(minutes=6, seconds=40),
    at(minutes=16, seconds=40),
    at(minutes=46, seconds=40),
    at(1, 46, 40),
    at(4, 46, 40),
    at(10, 46, 40),
    at(22, 46, 40),
]


def dead_webhook(profile: str, policy: RetryPolicy = DEFAULT_POLICY, outcome: Outcome = DEAD) -> Timetable:
    return timetable(load(profile), EndpointKind.WEBHOOK, policy, outcome)


@pytest.mark.parametrize("profile", ["2020-10", "2021-03", "2023-03", "2026-02"])
def test_eleven_attempts_since_2020(profile: str) -> None:
    """A dead endpoint is tried eleven times in 24 hours, then the event expires when the twelfth is due."""
    assert dead_webhook(profile) == (DOCUMENTED, at(34, 46, 40), TTL_EXCEEDED)


@pytest.mark.parametrize("profile", ["2019-05", "2019-07"])
def test_thirty_attempts_in_2019(profile: str) -> None:
    """With hourly retries the default of 30 attempts is exactly what fits into 24 hours."""
    times = dead_webhook(profile)
    assert times.attempts == DOCUMENTED[:8] + [at(1 + n, 46, 40) for n in range(1, 23)]
    assert len(times.attempts) == 30
    assert times.end == at(23, 46, 40)
    assert times.reason == ATTEMPTS_EXCEEDED


def test_six_attempts_in_half_an_hour() -> None:
    """Event Grid's own example: 30 minutes to live allow at most six attempts."""
    times = dead_webhook("2021-03", RetryPolicy(ttl_minutes=30))
    assert times == (DOCUMENTED[:6], at(minutes=46, seconds=40), TTL_EXCEEDED)


def test_attempts_run_out() -> None:
    """With three attempts allowed the third failure is the end."""
    times = dead_webhook("2021-03", RetryPolicy(max_attempts=3))
    assert times == (DOCUMENTED[:3], at(seconds=40), ATTEMPTS_EXCEEDED)


def test_least_delays_show() -> None:
    """A status with a least delay stretches the first steps of the schedule."""
    times = dead_webhook("2021-03", RetryPolicy(max_attempts=5), answered(408))
    assert times.attempts == [0, at(minutes=2), at(minutes=4), at(minutes=6), at(minutes=11)]


def test_never_retried() -> None:
    """A code that is never retried ends it with the first attempt."""
    assert dead_webhook("2021-03", outcome=answered(404)) == ([0], 0, "UndeliverableDueToHttpNotFound")


@pytest.mark.parametrize(("dead_letters", "attempts"), [(True, 1), (False, 30)])
def test_dead_letters_matter_in_2019(dead_letters: bool, attempts: int) -> None:
    """In 2019 a 413 ends delivery only where dead letters are set up."""
    times = timetable(load("2019-07"), EndpointKind.WEBHOOK, RetryPolicy(), answered(413), dead_letters)
    assert len(times.attempts) == attempts


def test_delivered() -> None:
    """A success is one attempt and no reason."""
    assert dead_webhook("2021-03", outcome=answered(200)) == ([0], 0, None)
