"""The disposition after an attempt: the rows of the specification for every profile, and the due times."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recapito.domain import limits
from recapito.domain.delivery.delivery import (
    ATTEMPTS_EXCEEDED,
    TTL_EXCEEDED,
    Dead,
    Delivery,
    DeliveryId,
    Disposition,
    Done,
    RetryAt,
    attempted,
    decide,
    delay_ns,
    expired,
)
from recapito.domain.delivery.outcome import Outcome, Result, answered
from recapito.domain.delivery.vocabulary import Rule
from recapito.domain.instant import HOUR, MINUTE, SECOND
from recapito.domain.profiles.profile import EndpointKind, Profile, StatusRules, load, names
from recapito.domain.resources.subscription import RetryPolicy

WEBHOOK, AZURE = EndpointKind.WEBHOOK, EndpointKind.AZURE_RESOURCE
DEFAULT_POLICY = RetryPolicy()
SILENCE = Outcome(Result.SOCKET_ERROR)
BAD_REQUEST = "UndeliverableDueToHttpBadRequest"
UNAUTHORIZED = "UndeliverableDueToHttpUnauthorized"
FORBIDDEN = "UndeliverableDueToHttpForbidden"
NOT_FOUND = "UndeliverableDueToHttpNotFound"
TOO_LARGE = "UndeliverableDueToHttpRequestEntityTooLarge"


def delivery(attempts: int = 1, skipped: int = 0, published_at: int = 0) -> Delivery:
    return Delivery(DeliveryId(7, 3), published_at, b"{}", attempts=attempts, skipped=skipped)


def decided(
    profile: str,
    outcome: Outcome,
    kind: EndpointKind = WEBHOOK,
    policy: RetryPolicy = DEFAULT_POLICY,
    dead_letters: bool = False,
    attempts: int = 1,
    now: int = 0,
    random: float = 0.0,
) -> Disposition:
    return decide(load(profile), kind, policy, dead_letters, delivery(attempts), outcome, now, random)


# The first retry by status: seconds, or the reason why there is none. The schedule's own first delay is 10 s.
FIRST_RETRY: dict[tuple[str, EndpointKind, bool], dict[int | None, int | str]] = {
    ("2019-05", WEBHOOK, False): {400: 10, 401: 10, 403: 10, 404: 10, 408: 10, 413: 10, 429: 10, 503: 10, None: 10},
    ("2019-05", AZURE, False): {400: 10, 401: 10, 403: 10, 404: 10, 408: 10, 413: 10, 429: 10, 503: 10, None: 10},
    ("2019-05", WEBHOOK, True): {400: BAD_REQUEST, 401: 10, 403: 10, 404: 10, 408: 10, 413: TOO_LARGE, 503: 10},
    ("2019-05", AZURE, True): {400: BAD_REQUEST, 401: 10, 403: 10, 404: 10, 408: 10, 413: TOO_LARGE, 503: 10},
    ("2019-07", WEBHOOK, False): {
        400: 300,
        401: 300,
        403: 300,
        404: 300,
        408: 120,
        413: 10,
        429: 10,
        503: 30,
        None: 10,
    },
    ("2019-07", AZURE, False): {400: 300, 401: 300, 403: 300, 404: 300, 408: 120, 413: 10, 429: 10, 503: 30, None: 10},
    ("2019-07", WEBHOOK, True): {400: BAD_REQUEST, 401: 300, 403: 300, 404: 300, 408: 120, 413: TOO_LARGE, 503: 30},
    ("2019-07", AZURE, True): {400: BAD_REQUEST, 401: 300, 403: 300, 404: 300, 408: 120, 413: TOO_LARGE, 503: 30},
}
NEVER = {400: BAD_REQUEST, 403: FORBIDDEN, 413: TOO_LARGE}
SHORT = {408: 120, 503: 30, None: 10} | dict.fromkeys((205, 299, 302, 402, 405, 409, 410, 414, 429, 500, 502, 504), 10)
for dead_letters in (False, True):
    for year in ("2020-10", "2021-03"):
        FIRST_RETRY[year, WEBHOOK, dead_letters] = NEVER | SHORT | {401: UNAUTHORIZED, 404: NOT_FOUND}
        FIRST_RETRY[year, AZURE, dead_letters] = NEVER | SHORT | {401: 300, 404: 300}
    for year in ("2023-03", "2026-02"):
        FIRST_RETRY[year, WEBHOOK, dead_letters] = NEVER | SHORT | {401: UNAUTHORIZED, 404: 10}
        FIRST_RETRY[year, AZURE, dead_letters] = NEVER | SHORT | {401: 300, 404: 300}


@pytest.mark.parametrize(
    ("profile", "kind", "dead_letters", "status", "expected"),
    [
        pytest.param(*case, status, expected, id=f"{case[0]}-{case[1]}-{'dl' if case[2] else 'no dl'}-{status}")
        for case, rows in FIRST_RETRY.items()
        for status, expected in rows.items()
    ],
)
def test_after_the_first_failure(
    profile: str, kind: EndpointKind, dead_letters: bool, status: int | None, expected: int | str
) -> None:
    """A status is retried no sooner than its row says, or never, with the reason that names it."""
    outcome = SILENCE if status is None else answered(status)
    disposition = decided(profile, outcome, kind, dead_letters=dead_letters, now=5 * SECOND)
    if isinstance(expected, str):
        assert disposition == Dead(expected)
    else:
        rule = Rule.SCHEDULE if expected == 10 else Rule.MINIMUM
        assert disposition == RetryAt((5 + expected) * SECOND, rule)


@pytest.mark.parametrize("profile", names())
@pytest.mark.parametrize("status", [*range(200, 210), 226, 299, *range(300, 309)])
def test_success_codes(profile: str, status: int) -> None:
    """Only the profile's success codes are a delivery; every other 2xx and every redirect is a failure."""
    successes = {200, 202} if profile == "2019-05" else {200, 201, 202, 203, 204}
    assert (decided(profile, answered(status)) == Done()) == (status in successes)


@pytest.mark.parametrize("profile", names())
def test_success_wins_over_everything(profile: str) -> None:
    """A success on the last allowed attempt, after the time to live, is a delivery."""
    assert decided(profile, answered(200), attempts=30, now=48 * HOUR) == Done()


@pytest.mark.parametrize("profile", names())
@pytest.mark.parametrize("status", [None, 400, 401, 403, 404, 413, 500])
def test_last_attempt_wins_over_the_code(profile: str, status: int | None) -> None:
    """After the last allowed attempt the reason is MaxDeliveryAttemptsExceeded, whatever the code."""
    outcome = SILENCE if status is None else answered(status)
    policy = RetryPolicy(max_attempts=1)
    assert decided(profile, outcome, policy=policy, dead_letters=True) == Dead(ATTEMPTS_EXCEEDED)


def test_a_never_retried_code_without_a_name() -> None:
    """A profile may stop at a code that Event Grid's reasons do not name; the reason then has its number."""
    profile = load("2026-02")
    status = msgspec.structs.replace(profile.status, webhook=StatusRules(never=(410,)))
    profile = msgspec.structs.replace(profile, status=status)
    disposition = decide(profile, WEBHOOK, RetryPolicy(), False, delivery(), answered(410), 0, 0.0)
    assert disposition == Dead("UndeliverableDueToHttp410")


@pytest.mark.parametrize("profile", names())
def test_timed_out_locally_is_not_a_408(profile: str) -> None:
    """Least delays go by status code: no answer within 30 s has the outcome of a 408 but not its two minutes."""
    assert decided(profile, Outcome(Result.TIMED_OUT)) == RetryAt(10 * SECOND, Rule.SCHEDULE)


@pytest.mark.parametrize(
    ("asked_s", "delay_s"), [(0, 30), (29, 30), (31, 31), (3599, 3599), (3600, 3600), (3601, 3600), (10**9, 3600)]
)
def test_retry_after(asked_s: int, delay_s: int) -> None:
    """Retry-After only ever lengthens the delay, and by no more than one hour."""
    rule = Rule.RETRY_AFTER if asked_s > 30 else Rule.MINIMUM
    assert decided("2021-03", answered(503, asked_s * SECOND)) == RetryAt(delay_s * SECOND, rule)


@pytest.mark.parametrize(
    ("attempts", "status", "delay_s", "rule"),
    [
        (1, 408, 120, Rule.MINIMUM),
        (3, 408, 120, Rule.MINIMUM),
        (4, 408, 300, Rule.SCHEDULE),
        (1, 503, 30, Rule.MINIMUM),
        (2, 503, 30, Rule.SCHEDULE),
        (3, 503, 60, Rule.SCHEDULE),
        (7, 429, 3600, Rule.SCHEDULE),
    ],
)
def test_the_later_of_schedule_and_least_delay(attempts: int, status: int, delay_s: int, rule: Rule) -> None:
    """The least delay counts only where the schedule is shorter, and the disposition says which of them did."""
    assert decided("2021-03", answered(status), attempts=attempts) == RetryAt(delay_s * SECOND, rule)


@pytest.mark.parametrize(
    ("profile", "tail_h"),
    [("2019-05", [1, 1, 1]), ("2019-07", [1, 1, 1]), ("2020-10", [3, 6, 12]), ("2026-02", [3, 6, 12])],
)
def test_schedule_steps(profile: str, tail_h: list[int]) -> None:
    """The n-th failure has the n-th delay; after the last one the profile's period repeats."""
    steps = [delay_ns(load(profile).schedule, n) for n in range(1, 12)]
    assert steps[:7] == [10 * SECOND, 30 * SECOND, MINUTE, 5 * MINUTE, 10 * MINUTE, 30 * MINUTE, HOUR]
    assert steps[7:] == [hours * HOUR for hours in [*tail_h, tail_h[-1]]]


def test_skipped_steps_count_for_the_delay() -> None:
    """Schedule steps that were skipped make the next delay a later one, and are no attempts."""
    policy = RetryPolicy(max_attempts=4)
    profile = load("2021-03")
    disposition = decide(profile, WEBHOOK, policy, False, delivery(attempts=3, skipped=3), SILENCE, 0, 0.0)
    assert disposition == RetryAt(30 * MINUTE, Rule.SCHEDULE)


def test_time_to_live_is_checked_only_when_due() -> None:
    """With 60 minutes to live an event that fails at 46m40 is parked to 1h46m40 and found expired then."""
    policy = RetryPolicy(ttl_minutes=60)
    failed_at = 46 * MINUTE + 40 * SECOND
    disposition = decided("2021-03", SILENCE, policy=policy, attempts=7, now=failed_at)
    assert disposition == RetryAt(failed_at + HOUR, Rule.SCHEDULE)
    assert expired(delivery(), policy, failed_at + HOUR)


@pytest.mark.parametrize(("now", "gone"), [(0, False), (MINUTE - 1, False), (MINUTE, True), (HOUR, True)])
def test_expired(now: int, gone: bool) -> None:
    """The time to live runs from publishing and is over when all of it has passed."""
    published_at = 10**18
    assert expired(delivery(published_at=published_at), RetryPolicy(ttl_minutes=1), published_at + now) is gone


def test_attempted_keeps_the_last_answer() -> None:
    """An attempt is counted with when it was sent and how it failed; what it answered before is forgotten."""
    first = attempted(delivery(attempts=0), answered(503), 100)
    second = attempted(first, Outcome(Result.RESOLUTION_ERROR), 200)
    assert first.attempts == 1
    assert first.last_attempt_at == 100
    assert first.last_result == "Busy"
    assert first.last_status == 503
    assert second.attempts == 2
    assert second.last_attempt_at == 200
    assert second.last_result == "ResolutionError"
    assert second.last_status is None


def test_a_delivery_cannot_be_changed() -> None:
    """An attempt makes a new delivery: the ledger and a lane may hold the same one at the same time."""
    before = delivery(attempts=0)
    assert attempted(before, SILENCE, 5).attempts == 1
    with pytest.raises(AttributeError):
        before.attempts = 1  # type: ignore[misc]
    assert before.attempts == 0


def test_a_failed_2xx_is_not_called_success() -> None:
    """A 201 fails in 2019-05; what is kept of it is GenericError, as Event Grid has no outcome `Success`."""
    assert attempted(delivery(0), answered(201), 0).last_result is Result.GENERIC_ERROR


outcomes = st.one_of(
    st.sampled_from([Outcome(r) for r in (Result.SOCKET_ERROR, Result.RESOLUTION_ERROR, Result.TIMED_OUT)]),
    st.builds(answered, st.integers(100, 599), st.integers(0, 5 * HOUR)),
)
policies = st.builds(RetryPolicy, st.integers(*limits.ATTEMPTS), st.integers(*limits.TTL_MINUTES))
fractions = st.floats(0, 1, exclude_max=True)


@given(
    profile=st.sampled_from(names()).map(load),
    kind=st.sampled_from(EndpointKind),
    policy=policies,
    dead_letters=st.booleans(),
    attempts=st.integers(1, 30),
    skipped=st.integers(0, 30),
    outcome=outcomes,
    now=st.integers(0, 2**62),
    random=fractions,
)
def test_never_early(
    profile: Profile,
    kind: EndpointKind,
    policy: RetryPolicy,
    dead_letters: bool,
    attempts: int,
    skipped: int,
    outcome: Outcome,
    now: int,
    random: float,
) -> None:
    """A retry is due no sooner than schedule, least delay and capped Retry-After, and no later than 10 % after them."""
    tried = delivery(attempts, skipped)
    disposition = decide(profile, kind, policy, dead_letters, tried, outcome, now, random)
    if not isinstance(disposition, RetryAt):
        return
    scheduled = delay_ns(profile.schedule, attempts + skipped)
    floors = (profile.minimum_ns(outcome.status, kind), min(outcome.retry_after_ns, HOUR))
    assert attempts < policy.max_attempts
    assert disposition.due_at - now >= max(scheduled, *floors)
    assert disposition.due_at - now <= max(scheduled + scheduled // 10, *floors)


@given(
    profile=st.sampled_from(names()).map(load),
    kind=st.sampled_from(EndpointKind),
    policy=policies,
    dead_letters=st.booleans(),
    answers=st.lists(st.tuples(outcomes, fractions), min_size=31, max_size=31),
)
def test_a_whole_life(
    profile: Profile,
    kind: EndpointKind,
    policy: RetryPolicy,
    dead_letters: bool,
    answers: list[tuple[Outcome, float]],
) -> None:
    """Attempts never exceed the policy's, none is made after the time to live, and every life ends."""
    tried, now = delivery(attempts=0), 0
    for outcome, random in answers:
        if expired(tried, policy, now):
            break
        assert now < policy.ttl_ns
        tried = attempted(tried, outcome, now)
        disposition = decide(profile, kind, policy, dead_letters, tried, outcome, now, random)
        if not isinstance(disposition, RetryAt):
            assert disposition != Dead(TTL_EXCEEDED)
            break
        now = disposition.due_at
    else:
        pytest.fail("still alive after 31 attempts")
    assert tried.attempts <= policy.max_attempts
