"""Delayed delivery and probation: when a subscription is held, for how long, and which retries that skips."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recapito.domain.delivery import Delivery, Identity, Parked, delay_ns, skip
from recapito.domain.hold import CLEAR, Hold, after_failure, explain
from recapito.domain.instant import HOUR, MINUTE, SECOND
from recapito.domain.outcome import Result
from recapito.domain.profile import DelayedDelivery, load, names
from recapito.domain.subscription import RetryPolicy

HOLDING = ["2019-07", "2020-10", "2021-03", "2023-03", "2026-02"]
WITH_TABLE = ["2023-03", "2026-02"]


def rules(profile: str) -> DelayedDelivery:
    found = load(profile).delayed_delivery
    assert found is not None
    return found


def failed(hold: Hold, profile: str, result: Result, times: int, now: int = 0) -> Hold:
    for _ in range(times):
        hold = after_failure(hold, rules(profile), result, now, probe=False)
    return hold


def probed(hold: Hold, profile: str, result: Result) -> Hold:
    """A probe goes at the end of the hold, and fails at once."""
    return after_failure(hold, rules(profile), result, hold.until, probe=True)


@pytest.mark.parametrize("profile", HOLDING)
@pytest.mark.parametrize("result", [Result.BUSY, Result.TIMED_OUT, Result.SOCKET_ERROR, Result.GENERIC_ERROR])
def test_ten_failures_in_a_row(profile: str, result: Result) -> None:
    """Nine failures hold nothing back; the tenth does."""
    nine = failed(CLEAR, profile, result, 9)
    ten = failed(nine, profile, result, 1, now=MINUTE)
    assert (nine.on, nine.holds(0), nine.failures) == (False, False, 9)
    assert (ten.on, ten.failures, ten.cause) == (True, 10, result)
    assert ten.until == MINUTE + ten.period
    assert ten.holds(MINUTE) and ten.holds(ten.until - 1) and not ten.holds(ten.until)


@pytest.mark.parametrize("profile", ["2019-07", "2020-10", "2021-03"])
@pytest.mark.parametrize("result", [Result.BUSY, Result.NOT_FOUND, Result.RESOLUTION_ERROR, Result.GENERIC_ERROR])
def test_one_minute_without_a_table(profile: str, result: Result) -> None:
    """Without the probation table every outcome holds for one minute, and none at its first failure."""
    assert not failed(CLEAR, profile, result, 1).on
    assert failed(CLEAR, profile, result, 10).period == MINUTE


@pytest.mark.parametrize("profile", WITH_TABLE)
@pytest.mark.parametrize(
    ("result", "failures", "period"),
    [
        (Result.BUSY, 10, 10 * SECOND),
        (Result.TIMED_OUT, 10, 10 * SECOND),
        (Result.SOCKET_ERROR, 10, 30 * SECOND),
        (Result.NOT_FOUND, 1, 5 * MINUTE),
        (Result.RESOLUTION_ERROR, 1, 5 * MINUTE),
        (Result.DISABLED, 1, 5 * MINUTE),
        (Result.FULL, 1, 5 * MINUTE),
        (Result.UNAUTHORIZED, 1, 5 * MINUTE),
        (Result.FORBIDDEN, 1, 5 * MINUTE),
        (Result.INVALID_AZURE_FUNCTION_DESTINATION, 1, 10 * MINUTE),
        (Result.BAD_REQUEST, 10, 10 * SECOND),
        (Result.PAYLOAD_TOO_LARGE, 10, 10 * SECOND),
        (Result.GENERIC_ERROR, 10, 10 * SECOND),
        (Result.ABORTED, 10, 10 * SECOND),
    ],
)
def test_probation_by_outcome(profile: str, result: Result, failures: int, period: int) -> None:
    """The table gives the period; five minutes or more hold at once, everything else at the tenth failure."""
    assert not failed(CLEAR, profile, result, failures - 1).on
    assert failed(CLEAR, profile, result, failures) == Hold(failures, period, period, result)


@pytest.mark.parametrize(("profile", "longest"), [("2021-03", 4 * HOUR), ("2026-02", 2 * HOUR)])
def test_only_a_failed_probe_doubles(profile: str, longest: int) -> None:
    """Each failed probe doubles the period up to the profile's longest; requests under way do not."""
    hold = failed(CLEAR, profile, Result.SOCKET_ERROR, 10)
    period = hold.period
    for _ in range(12):
        late = failed(hold, profile, Result.SOCKET_ERROR, 5, now=hold.until)
        assert (late.until, late.period, late.cause) == (hold.until, hold.period, hold.cause)
        hold = probed(late, profile, Result.SOCKET_ERROR)
        period = min(2 * period, longest)
        assert (hold.period, hold.until) == (period, late.until + period)
    assert hold.period == longest


def test_the_newest_outcome_counts() -> None:
    """A probe that fails for a reason with a longer row holds at least as long as that row."""
    busy = failed(CLEAR, "2026-02", Result.BUSY, 10)
    gone = probed(busy, "2026-02", Result.NOT_FOUND)
    assert (gone.period, gone.cause) == (5 * MINUTE, Result.NOT_FOUND)
    assert probed(gone, "2026-02", Result.BUSY).period == 10 * MINUTE


def test_a_profile_without_delayed_delivery() -> None:
    """In 2019-05 failures are counted but hold nothing back; a hold from another profile is dropped."""
    hold = Hold(40, HOUR, HOUR, Result.BUSY)
    for _ in range(100):
        hold = after_failure(hold, load("2019-05").delayed_delivery, Result.NOT_FOUND, 0, probe=False)
        assert not hold.on
    assert hold == Hold(140)


def test_success_clears() -> None:
    """What a success leaves is neither on nor holding, and counts from zero."""
    assert (CLEAR.on, CLEAR.holds(0), CLEAR.failures) == (False, False, 0)
    assert failed(CLEAR, "2021-03", Result.BUSY, 9).on is False


@given(
    profile=st.sampled_from(HOLDING),
    history=st.lists(st.tuples(st.sampled_from(Result), st.booleans(), st.integers(0, HOUR)), max_size=40),
)
def test_hold_invariants(profile: str, history: list[tuple[Result, bool, int]]) -> None:
    """However failures come, each counts once, a hold never ends by one, and no period exceeds the longest."""
    hold, now = CLEAR, 0
    for n, (result, probe, passed) in enumerate(history, 1):
        now += passed
        before, hold = hold, after_failure(hold, rules(profile), result, now, probe)
        assert hold.failures == n
        assert hold.on or not before.on
        assert hold.period >= before.period
        assert hold.period <= rules(profile).longest_s * SECOND
        assert hold.until <= max(before.until, now + hold.period)


def parked(attempts: int, due_at: int, skipped: int = 0) -> Parked:
    return Parked(due_at, Delivery(Identity(1, 0), 0, b"{}", attempts=attempts, skipped=skipped))


@pytest.mark.parametrize(
    ("late", "skipped"),
    [
        (0, 0),
        (30 * SECOND - 1, 0),
        (30 * SECOND, 1),
        (90 * SECOND - 1, 1),
        (90 * SECOND, 2),
        (6 * MINUTE + 30 * SECOND, 3),
        (2 * HOUR, 6),
    ],
)
def test_steps_that_came_due_are_skipped(late: int, skipped: int) -> None:
    """A retry due at 10 s that goes late skips the steps of 30 s, 1 min, 5 min, … that came due meanwhile."""
    schedule = load("2021-03").schedule
    delivery = skip(schedule, RetryPolicy(), parked(1, 10 * SECOND), 10 * SECOND + late)
    assert (delivery.attempts, delivery.skipped) == (1, skipped)


@pytest.mark.parametrize("policy", [RetryPolicy(max_attempts=29), RetryPolicy(ttl_minutes=1439), RetryPolicy(5, 10)])
def test_nothing_is_skipped_under_another_policy(policy: RetryPolicy) -> None:
    """A retry policy of the subscriber's own makes the attempts determined: no step is skipped."""
    waiting = parked(2, 40 * SECOND)
    assert skip(load("2021-03").schedule, policy, waiting, 5 * HOUR) == waiting.delivery


def test_a_first_attempt_is_never_skipped() -> None:
    """A delivery that was parked before its first attempt has no steps behind it."""
    waiting = parked(0, 0)
    assert skip(load("2021-03").schedule, RetryPolicy(), waiting, 5 * HOUR) == waiting.delivery


@given(
    profile=st.sampled_from(names()),
    attempts=st.integers(1, 30),
    before=st.integers(0, 10),
    late=st.integers(-HOUR, 48 * HOUR),
)
def test_skip_invariants(profile: str, attempts: int, before: int, late: int) -> None:
    """Skipping never touches attempts, and stops at the first step that is not yet due."""
    schedule, due_at = load(profile).schedule, 100 * HOUR
    delivery = skip(schedule, RetryPolicy(), parked(attempts, due_at, before), due_at + late)
    assert delivery.attempts == attempts
    assert delivery.skipped >= before
    passed = sum(delay_ns(schedule, attempts + n + 1) for n in range(before, delivery.skipped))
    assert passed <= max(late, 0)
    assert passed + delay_ns(schedule, attempts + delivery.skipped + 1) > late


def test_a_hold_is_explained() -> None:
    """It says how many failures there were, what the last one was, until when nothing goes, and what comes then."""
    held = Hold(10, 90 * SECOND, 10 * SECOND, Result.BUSY, 503)
    assert explain(held, 0) == (
        "10 failures in a row, the last: Busy (503); held until 1970-01-01T00:01:30.0000000Z, then one probe"
    )
    assert explain(held, 90 * SECOND) == "10 failures in a row, the last: Busy (503); one probe goes now"
    unanswered = Hold(1, 90 * SECOND, 10 * SECOND, Result.TIMED_OUT)
    assert explain(unanswered, 0).startswith("1 failure, the last: TimedOut; held until")


def test_a_hold_remembers_the_status_that_caused_it() -> None:
    """The status of the request that began it, or of the last probe that failed, and of no other."""
    hold = CLEAR
    for _ in range(10):
        hold = after_failure(hold, rules("2021-03"), Result.BUSY, 0, probe=False, status=503)
    hold = after_failure(hold, rules("2021-03"), Result.NOT_FOUND, 0, probe=False, status=404)
    assert (hold.on, hold.cause, hold.status) == (True, Result.BUSY, 503)
    hold = after_failure(hold, rules("2021-03"), Result.BUSY, hold.until, probe=True, status=429)
    assert (hold.cause, hold.status) == (Result.BUSY, 429)
