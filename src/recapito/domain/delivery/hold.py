"""Holds: delayed delivery and probation, which protect an endpoint that fails.

The law: a hold never starves an endpoint that works. Five rules ensure it (docs/decisions/0026-delayed-delivery.md):

1. Events count, not tries: a first attempt that fails counts one for each event of its request; a retry counts nothing.
2. A refusal of the event itself (BadRequest, PayloadTooLarge) counts nothing, and ends a hold if a probe meets it.
3. When a hold ends, one probe goes, and only a failed probe doubles the period; any success clears the hold. At the
   latest `longest_s` after something began to wait, a sweep tries everything that waits once, and so again and again.
4. A subscription with a retry policy of its own is not held.
5. An outcome whose row of the probation table is long enough starts a hold by itself.

A profile with a time of sweeps of its own (`DelayedDelivery.sweep_s`) reads the table otherwise: a row is about the
endpoint, so it starts a hold at any attempt, and ends a sweep, which would only meet the same answer again.
"""

import msgspec
from msgspec.structs import replace

from recapito.domain import limits
from recapito.domain.delivery.outcome import Outcome, Result
from recapito.domain.instant import SECOND, stamp
from recapito.domain.profiles.profile import DelayedDelivery, Profile
from recapito.domain.resources.subscription import RetryPolicy

# The endpoint works, the event is wrong.
REFUSED_EVENT = frozenset({Result.BAD_REQUEST, Result.PAYLOAD_TOO_LARGE, Result.LOOP_DETECTED})
REFUSED_SERVER = (401, 403, 404)
"""Statuses with which an endpoint refuses us, whatever the event: a person must look."""


class Hold(msgspec.Struct, frozen=True, array_like=True):
    """The failures since the last success; and, while the lane is held, until when, for how long, and the cause.

    `failures` counts events whose first attempt failed. `status` is the HTTP status of the cause, if there was one.
    `sweep_at` is the instant at which everything that waits is tried, whatever the probes met; it outlives a success
    for as long as something waits, because an endpoint that refuses every other event is held again and again.
    """

    failures: int = 0
    until: int = 0
    period: int = 0
    cause: Result | None = None
    status: int | None = None
    sweep_at: int = 0

    @property
    def on(self) -> bool:
        """True from the failure that began the hold until a success, also while a probe is under way."""
        return self.period > 0

    @property
    def sweeps(self) -> bool:
        """True when the end of this hold is a sweep, not a probe."""
        return self.on and self.until >= self.sweep_at

    def holds(self, now: int) -> bool:
        """True while nothing may be sent at all."""
        return now < self.until


CLEAR = Hold()


def rules_for(profile: Profile, policy: RetryPolicy) -> DelayedDelivery | None:
    """The rules under which a subscription is held; None if it never is: a policy of its own asks for determinism.

    Where events are kept, a policy of its own only limits that.
    """
    return profile.delayed_delivery if policy.is_default or profile.keeps else None


def after_failure(
    hold: Hold, rules: DelayedDelivery | None, outcome: Outcome, now: int, first_attempts: int, probe: bool
) -> Hold:
    """The hold after a failed request with this number of first attempts.

    Neither requests that were under way when the hold began nor those of a sweep lengthen it.
    """
    result = outcome.failure
    if result in REFUSED_EVENT:
        return after_success(hold) if hold.on and probe else hold
    failures = hold.failures + first_attempts
    if rules is None:
        return Hold(failures)
    if rules.is_pressure(outcome):
        return _under_pressure(hold, rules, outcome, now)
    row_s = rules.table_s.get(result)
    longest = rules.longest_s * SECOND
    blamed = rules.blames_endpoint(result)
    if hold.on:
        if probe and blamed and hold.sweeps and not hold.holds(now):
            return replace(after_sweep(hold, rules, now), failures=failures, cause=result, status=outcome.status)
        if not probe or hold.sweeps:
            return replace(hold, failures=failures)
        period = min(max(hold.period * 2, (row_s or 0) * SECOND), longest)
        return Hold(failures, min(now + period, hold.sweep_at), period, result, outcome.status, hold.sweep_at)
    at_once = row_s is not None and rules.at_once_from_s is not None and row_s >= rules.at_once_from_s
    if not blamed and (not first_attempts or (failures < rules.failures and not at_once)):
        return Hold(failures, sweep_at=hold.sweep_at)
    period = (rules.first_s if row_s is None else row_s) * SECOND
    sweep_at = hold.sweep_at or now + rules.sweep_ns
    return Hold(failures, min(now + period, sweep_at), period, result, outcome.status, sweep_at)


def _under_pressure(hold: Hold, rules: DelayedDelivery, outcome: Outcome, now: int) -> Hold:
    """The hold for the time that an endpoint asks for: nothing is counted, and nothing doubles. It ends a sweep."""
    wait = min(outcome.retry_after_ns, limits.RETRY_AFTER_NS)
    swept = hold.sweeps and not hold.holds(now)
    sweep_at = now + rules.sweep_ns if swept or not hold.sweep_at else hold.sweep_at
    until = max(hold.until, now + wait)
    return Hold(hold.failures, until, max(until - now, 1), outcome.failure, outcome.status, sweep_at)


def after_success(hold: Hold) -> Hold:
    """The hold after a success, which clears all but the time of the sweep."""
    return Hold(sweep_at=hold.sweep_at) if hold.sweep_at else CLEAR


def after_sweep(hold: Hold, rules: DelayedDelivery, now: int) -> Hold:
    """The hold after a sweep whose last requests failed: it doubles the period as a failed probe does."""
    period = min(2 * hold.period, rules.longest_s * SECOND)
    return replace(hold, until=now + period, period=period, sweep_at=now + rules.sweep_ns)


def is_refused(hold: Hold) -> bool:
    """Whether the endpoint refuses this server, its key or its address: waiting does not mend that."""
    return hold.on and hold.status in REFUSED_SERVER


def explain(hold: Hold, now: int) -> str:
    """The cause of a hold that is on, and the next step, in words."""
    trial = "everything that waits is tried" if hold.sweeps else "one probe goes"
    end = f"held until {stamp(hold.until)}, then {trial}" if hold.holds(now) else f"{trial} now"
    return f"{_cause(hold)}; {end}"


def _cause(hold: Hold) -> str:
    status = "" if hold.status is None else f" ({hold.status})"
    if not hold.failures:  # a retry failed, or the endpoint asked for time
        return f"the last attempt: {hold.cause}{status}"
    events = "1 event" if hold.failures == 1 else f"{hold.failures} events in a row"
    last = "" if hold.cause is None else f", the last: {hold.cause}{status}"
    return f"{events} failed at the first attempt{last}"
