"""Delayed delivery and probation: when a subscription is held, for how long, and which retries that skips."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from recapito.domain.delivery.delivery import Delivery, DeliveryId, Parked, delay_ns, skip
from recapito.domain.delivery.hold import (
    CLEAR,
    REFUSED_EVENT,
    Hold,
    after_failure,
    after_success,
    after_sweep,
    explain,
    rules_for,
)
from recapito.domain.delivery.outcome import Outcome, Result, answered
from recapito.domain.instant import HOUR, MINUTE, SECOND
from recapito.domain.profiles.profile import DelayedDelivery, load, names
from recapito.domain.resources.subscription import RetryPolicy

HOLDING = ["2019-07", "2020-10", "2021-03", "2023-03", "2026-02"]
WITH_TABLE = ["2023-03", "2026-02"]


def rules(profile: str) -> DelayedDelivery:
    found = load(profile).delayed_delivery
    assert found is not None
    return found


def failed(hold: Hold, profile: str, result: Result, events: int, now: int = 0) -> Hold:
    """The first attempts of N events fail, one after the other."""
    for _ in range(events):
        hold = after_failure(hold, rules(profile), Outcome(result), now, first_attempts=1, probe=False)
    return hold


def probed(hold: Hold, profile: str, result: Result) -> Hold:
    """A probe goes at the end of the hold, and fails at once."""
    return after_failure(hold, rules(profile), Outcome(result), hold.until, first_attempts=1, probe=True)


@pytest.mark.parametrize("profile", HOLDING)
@pytest.mark.parametrize("result", [Result.BUSY, Result.TIMED_OUT, Result.SOCKET_ERROR, Result.GENERIC_ERROR])
def test_ten_events_in_a_row(profile: str, result: Result) -> None:
    """Nine events that fail hold nothing back; the tenth does."""
    nine = failed(CLEAR, profile, result, 9)
    ten = failed(nine, profile, result, 1, now=MINUTE)
    assert not nine.on
    assert not nine.holds(0)
    assert nine.failures == 9
    assert ten.on
    assert ten.failures == 10
    assert ten.cause == result
    assert ten.until == MINUTE + ten.period
    assert ten.holds(MINUTE) and ten.holds(ten.until - 1) and not ten.holds(ten.until)


@pytest.mark.parametrize("profile", HOLDING)
def test_a_failed_batch_counts_its_events(profile: str) -> None:
    """One request with ten events that were never tried counts ten, one with nine counts nine."""
    outcome = Outcome(Result.BUSY, 503)
    assert after_failure(CLEAR, rules(profile), outcome, 0, first_attempts=10, probe=False).on
    assert after_failure(CLEAR, rules(profile), outcome, 0, first_attempts=9, probe=False) == Hold(9)


@pytest.mark.parametrize("profile", HOLDING)
@pytest.mark.parametrize("result", list(Result))
def test_a_retry_counts_nothing(profile: str, result: Result) -> None:
    """However often retries fail, they neither count nor start a hold, not even by a row of the table."""
    nine = failed(CLEAR, profile, Result.BUSY, 9)
    for before in (CLEAR, nine):
        hold = before
        for _ in range(100):
            hold = after_failure(hold, rules(profile), Outcome(result), 0, first_attempts=0, probe=False)
        assert hold == before


@pytest.mark.parametrize("profile", HOLDING)
@pytest.mark.parametrize("result", sorted(REFUSED_EVENT))
def test_a_refused_event_is_no_illness(profile: str, result: Result) -> None:
    """BadRequest and PayloadTooLarge neither count nor lengthen a hold, and a probe that is answered so ends it."""
    assert failed(CLEAR, profile, result, 100) == CLEAR
    nine, held = failed(CLEAR, profile, Result.BUSY, 9), failed(CLEAR, profile, Result.BUSY, 10)
    assert failed(nine, profile, result, 1) == nine
    assert failed(held, profile, result, 1) == held
    assert probed(held, profile, result) == after_success(held)


@pytest.mark.parametrize("profile", ["2019-07", "2020-10", "2021-03"])
@pytest.mark.parametrize("result", [Result.BUSY, Result.NOT_FOUND, Result.RESOLUTION_ERROR, Result.GENERIC_ERROR])
def test_one_minute_without_a_table(profile: str, result: Result) -> None:
    """Without the probation table every outcome holds for one minute, and none at its first failure."""
    assert not failed(CLEAR, profile, result, 1).on
    assert failed(CLEAR, profile, result, 10).period == MINUTE


@pytest.mark.parametrize("profile", WITH_TABLE)
@pytest.mark.parametrize(
    ("result", "events", "period"),
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
        (Result.GENERIC_ERROR, 10, 10 * SECOND),
        (Result.ABORTED, 10, 10 * SECOND),
    ],
)
def test_probation_by_outcome(profile: str, result: Result, events: int, period: int) -> None:
    """The table gives the period; five minutes or more hold at once, everything else at the tenth event."""
    assert not failed(CLEAR, profile, result, events - 1).on
    assert failed(CLEAR, profile, result, events) == Hold(events, period, period, result, sweep_at=2 * HOUR)


@pytest.mark.parametrize(("profile", "longest"), [("2021-03", 4 * HOUR), ("2026-02", 2 * HOUR)])
def test_only_a_failed_probe_doubles(profile: str, longest: int) -> None:
    """Each failed probe doubles the period; requests under way do not. The sweep comes when the longest is over."""
    hold = failed(CLEAR, profile, Result.SOCKET_ERROR, 10)
    period, sweep_at = hold.period, longest
    while not hold.sweeps:
        late = failed(hold, profile, Result.SOCKET_ERROR, 5, now=hold.until)
        assert late.until == hold.until
        assert late.period == hold.period
        assert late.cause == hold.cause
        hold = probed(late, profile, Result.SOCKET_ERROR)
        period = min(2 * period, longest)
        assert hold.period == period
        assert hold.until == min(late.until + period, sweep_at)
    assert hold.until == hold.sweep_at == sweep_at


@pytest.mark.parametrize(("profile", "longest"), [("2021-03", 4 * HOUR), ("2026-02", 2 * HOUR)])
def test_after_a_sweep_comes_the_next_one(profile: str, longest: int) -> None:
    """A failure in a sweep does not lengthen the hold; the sweep's end doubles it, as a failed probe does."""
    hold = Hold(12, HOUR, MINUTE, Result.BUSY, 503, HOUR)
    assert hold.sweeps
    assert probed(hold, profile, Result.NOT_FOUND) == replace(hold, failures=13)
    end = 2 * HOUR + longest
    assert after_sweep(hold, rules(profile), 2 * HOUR) == Hold(
        12, 2 * HOUR + 2 * MINUTE, 2 * MINUTE, Result.BUSY, 503, end
    )
    long = after_sweep(replace(hold, period=longest // 2 + 1), rules(profile), 2 * HOUR)
    assert long == Hold(12, end, longest, Result.BUSY, 503, end)
    assert long.sweeps and long.holds(end - 1)


@pytest.mark.parametrize("profile", HOLDING)
def test_the_time_of_the_sweep_outlives_a_success(profile: str) -> None:
    """An endpoint that accepts some events and refuses others is held again and again, and swept in time."""
    held = failed(CLEAR, profile, Result.BUSY, 10)
    cleared = after_success(held)
    assert not cleared.on
    assert cleared.failures == 0
    assert cleared.sweep_at == held.sweep_at
    again = failed(cleared, profile, Result.BUSY, 10, now=held.sweep_at - SECOND)
    assert again.until == again.sweep_at == held.sweep_at and again.sweeps
    overdue = failed(cleared, profile, Result.BUSY, 10, now=held.sweep_at + HOUR)
    assert overdue.sweeps and not overdue.holds(held.sweep_at + HOUR)
    assert after_success(CLEAR) is CLEAR


def test_a_hold_of_before_sweeps_had_their_time_ends_in_one() -> None:
    """A hold stored by an older version has no time for a sweep: everything is tried when it ends."""
    assert msgspec.json.decode(b'[10,60000000000,60000000000,"Busy",503]', type=Hold).sweeps


def test_the_newest_outcome_counts() -> None:
    """A probe that fails for a reason with a longer row holds at least as long as that row."""
    busy = failed(CLEAR, "2026-02", Result.BUSY, 10)
    gone = probed(busy, "2026-02", Result.NOT_FOUND)
    assert gone.period == 5 * MINUTE
    assert gone.cause == Result.NOT_FOUND
    assert probed(gone, "2026-02", Result.BUSY).period == 10 * MINUTE


def test_a_profile_without_delayed_delivery() -> None:
    """In 2019-05 failures are counted but hold nothing back; a hold from another profile is dropped."""
    hold = Hold(40, HOUR, HOUR, Result.BUSY)
    nothing = load("2019-05").delayed_delivery
    for _ in range(100):
        hold = after_failure(hold, nothing, Outcome(Result.NOT_FOUND), 0, first_attempts=1, probe=False)
        assert not hold.on
    assert hold == Hold(140)


@pytest.mark.parametrize("profile", names())
def test_a_policy_of_ones_own_is_not_held(profile: str) -> None:
    """Only the default retry policy is held; any other asks for determined behaviour."""
    assert rules_for(load(profile), RetryPolicy()) == load(profile).delayed_delivery
    for policy in (RetryPolicy(29, 1440), RetryPolicy(30, 1439), RetryPolicy(1, 1)):
        assert rules_for(load(profile), policy) is None


def test_success_clears() -> None:
    """The hold after a success is neither on nor holding, and counts from zero."""
    assert not CLEAR.on
    assert not CLEAR.holds(0)
    assert CLEAR.failures == 0
    assert not CLEAR.sweeps


@given(
    profile=st.sampled_from(HOLDING),
    history=st.lists(
        st.tuples(st.sampled_from(Result), st.integers(0, 12), st.booleans(), st.integers(0, HOUR)), max_size=40
    ),
)
def test_hold_invariants(profile: str, history: list[tuple[Result, int, bool, int]]) -> None:
    """However failures come, each event counts once, and nothing waits longer than the longest period."""
    hold, now, count = CLEAR, 0, 0
    longest = rules(profile).longest_s * SECOND
    for result, events, probe, passed in history:
        now += passed
        before, hold = hold, after_failure(hold, rules(profile), Outcome(result), now, events, probe)
        ended = before.on and not hold.on
        count = 0 if ended else count + (0 if result in REFUSED_EVENT else events)
        assert hold.failures == count
        assert not ended or (probe and result in REFUSED_EVENT)
        assert hold.period <= longest
        assert hold.until <= hold.sweep_at
        assert not hold.on or hold.sweep_at <= max(before.sweep_at, now + longest)


def parked(attempts: int, due_at: int, skipped: int = 0) -> Parked:
    return Parked(due_at, Delivery(DeliveryId(1, 0), 0, b"{}", attempts=attempts, skipped=skipped))


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
    assert delivery.attempts == 1
    assert delivery.skipped == skipped


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
    """It says how many events failed, what the last failure was, until when nothing goes, and what comes then."""
    held = Hold(10, 90 * SECOND, 10 * SECOND, Result.BUSY, 503, 4 * HOUR)
    why = "10 events in a row failed at the first attempt, the last: Busy (503)"
    assert explain(held, 0) == f"{why}; held until 1970-01-01T00:01:30.0000000Z, then one probe goes"
    assert explain(held, 90 * SECOND) == f"{why}; one probe goes now"
    sweep = replace(held, sweep_at=held.until)
    assert explain(sweep, 0) == f"{why}; held until 1970-01-01T00:01:30.0000000Z, then everything that waits is tried"
    unanswered = Hold(1, 90 * SECOND, 10 * SECOND, Result.TIMED_OUT)
    assert explain(unanswered, 0).startswith("1 event failed at the first attempt, the last: TimedOut; held until")


def test_a_hold_remembers_the_status_that_caused_it() -> None:
    """The status of the request that began it, or of the last probe that failed, and of no other."""
    hold, now = after_failure(CLEAR, rules("2021-03"), answered(503), 0, first_attempts=10, probe=False), 0
    hold = after_failure(hold, rules("2021-03"), answered(404), now, first_attempts=1, probe=False)
    assert hold.on
    assert hold.cause == Result.BUSY
    assert hold.status == 503
    hold = after_failure(hold, rules("2021-03"), answered(429), hold.until, first_attempts=1, probe=True)
    assert hold.cause == Result.BUSY
    assert hold.status == 429
