"""The profile `edge`: nothing is given up for lack of time, a refusal of the server holds, one of an event is cut."""

import pytest

from recapito.domain import limits
from recapito.domain.delivery.batch import company_under
from recapito.domain.delivery.delivery import (
    KEPT,
    TTL_EXCEEDED,
    Dead,
    Delivery,
    DeliveryId,
    Disposition,
    RetryAt,
    attempted,
    decide,
    in_force,
    timetable,
)
from recapito.domain.delivery.hold import CLEAR, Hold, after_failure, explain, is_refused, rules_for
from recapito.domain.delivery.outcome import Outcome, Result, answered
from recapito.domain.delivery.vocabulary import Rule
from recapito.domain.instant import DAY, HOUR, MINUTE, SECOND
from recapito.domain.profiles.profile import DEFAULT, EndpointKind, known, load, names
from recapito.domain.resources.subscription import RetryPolicy

EDGE = load("edge")
RULES = EDGE.delayed_delivery
assert RULES is not None
AWAY = Outcome(Result.SOCKET_ERROR)
KINDS = list(EndpointKind)
DEFAULT_POLICY = RetryPolicy()


def decided(outcome: Outcome, attempts: int = 1, events: int = 1, policy: RetryPolicy = DEFAULT_POLICY) -> Disposition:
    """The disposition after the n-th attempt, without jitter."""
    tried = Delivery(DeliveryId(1, 0), 0, b"{}", attempts=attempts)
    return decide(EDGE, EndpointKind.AZURE_RESOURCE, policy, False, tried, outcome, 0, 0.0, events)


def failed(hold: Hold, outcome: Outcome, now: int, probe: bool = False, first: int = 1) -> Hold:
    return after_failure(hold, RULES, outcome, now, first, probe)


def test_it_is_ours() -> None:
    """It is known, and is none of Event Grid's."""
    assert known() == (*names(), "edge")
    assert DEFAULT in names()


@pytest.mark.parametrize("attempts", [1, 5, 30, 10_000])
@pytest.mark.parametrize("outcome", [AWAY, answered(401), answered(403), answered(404), answered(500)])
def test_nothing_is_given_up_for_lack_of_time(outcome: Outcome, attempts: int) -> None:
    """Each attempt is followed by another, at most ten minutes later, its jitter included."""
    disposition = decided(outcome, attempts)
    assert isinstance(disposition, RetryAt)
    assert disposition.due_at * (1 + EDGE.schedule.jitter) <= 10 * MINUTE


@pytest.mark.parametrize("status", [400, 413, 508])
def test_a_refusal_blames_an_event_only_if_it_is_alone(status: int) -> None:
    """In company it goes again at once; alone it is given up, whatever its policy."""
    assert decided(answered(status), events=2) == RetryAt(0, Rule.CUT)
    assert decided(answered(status), attempts=30, events=2, policy=RetryPolicy(1)) == RetryAt(0, Rule.CUT)
    assert isinstance(decided(answered(status)), Dead)


def test_the_company_of_a_refused_event_shrinks() -> None:
    """All, then some, then none; an event that only met an absent cloud keeps its company."""
    company = company_under(EDGE)
    fresh = Delivery(DeliveryId(1, 0), 0, b"{}")
    once = attempted(fresh, answered(400), 0)
    twice = attempted(once, answered(400), 0)
    most = limits.BATCH_EVENTS[1]
    assert [company(delivery) for delivery in (fresh, once, twice)] == [most, limits.CUT_EVENTS, 1]
    for outcome in (AWAY, answered(401), answered(503)):
        assert company(attempted(attempted(attempted(fresh, outcome, 0), outcome, 0), outcome, 0)) == most
    assert company(attempted(attempted(fresh, answered(500), 0), answered(500), 0)) == 1


@pytest.mark.parametrize("status", [429, 503])
def test_pressure_is_waited_out_and_not_counted(status: int) -> None:
    """With Retry-After the attempt is none; without it, it is one like others."""
    pressure, plain = answered(status, 90 * SECOND), answered(status)
    assert EDGE.is_pressure(pressure) and not EDGE.is_pressure(plain)
    assert decided(pressure, attempts=30, policy=RetryPolicy(1)) == RetryAt(90 * SECOND, Rule.RETRY_AFTER)
    hold = failed(CLEAR, pressure, 0)
    assert (hold.failures, hold.until, hold.on) == (0, 90 * SECOND, True)
    again = failed(hold, pressure, hold.until, probe=True)
    assert again.until - hold.until == 90 * SECOND
    assert "Busy" in explain(hold, 0) and "0 events" not in explain(hold, 0)
    assert failed(CLEAR, answered(status, 400 * DAY), 0).until == limits.RETRY_AFTER_NS


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("outcome", [AWAY, answered(401), answered(403), answered(404), Outcome(Result.TIMED_OUT)])
def test_an_endpoint_that_is_away_holds_at_once(outcome: Outcome, first: int) -> None:
    """One request is enough, be it a retry; probes come at most ten minutes apart."""
    hold = failed(CLEAR, outcome, 0, first=first)
    assert hold.on
    assert is_refused(hold) == (outcome.status is not None)
    gaps = []
    for _ in range(12):
        before, hold = hold.until, failed(hold, outcome, hold.until, probe=True)
        gaps.append(hold.until - before)
    assert gaps == sorted(gaps) and gaps[-1] == 10 * MINUTE


def test_a_sweep_ends_at_the_first_answer_about_the_endpoint() -> None:
    """Once a day everything is tried; a cloud that is still away gets the first requests of it only."""
    hold = failed(CLEAR, AWAY, 0)
    while not hold.sweeps:
        hold = failed(hold, AWAY, hold.until, probe=True)
    assert DAY <= hold.until < DAY + HOUR
    assert failed(hold, answered(500), hold.until, probe=True).sweeps
    after = failed(hold, answered(401), hold.until, probe=True)
    assert not after.sweeps and after.status == 401
    assert after.until - hold.until == 10 * MINUTE
    assert after.sweep_at - hold.until == DAY


def test_each_limit_that_a_client_sets_counts() -> None:
    """A default is no limit. A policy of its own is held too: it only ends earlier."""
    assert in_force(EDGE, RetryPolicy()) == RetryPolicy(limits.UNLIMITED, limits.UNLIMITED)
    assert in_force(EDGE, RetryPolicy(5)) == RetryPolicy(5, limits.UNLIMITED)
    assert in_force(EDGE, RetryPolicy(ttl_minutes=60)) == RetryPolicy(limits.UNLIMITED, 60)
    assert in_force(load(DEFAULT), RetryPolicy()) == RetryPolicy()
    assert rules_for(EDGE, RetryPolicy(5)) == RULES


@pytest.mark.parametrize("kind", KINDS)
def test_the_timetable_has_no_end(kind: EndpointKind) -> None:
    """It shows the first day; a limit of the subscription ends it."""
    times = timetable(EDGE, kind, RetryPolicy(), AWAY)
    assert times.reason == KEPT and 150 < len(times.attempts) < 170
    assert timetable(EDGE, kind, RetryPolicy(3), AWAY).attempts == [0, 10 * SECOND, 40 * SECOND]
    assert timetable(EDGE, kind, RetryPolicy(ttl_minutes=60), AWAY).reason == TTL_EXCEEDED
