"""Holding a subscription back: delayed delivery and probation.

A failure is a request, not an event. So many failures in a row, or one of a kind that the profile's table holds at
once, start a hold; when it ends one probe goes, and only a failed probe doubles the period, which is never shorter
than what the table says for the newest outcome; any success clears it.
"""

import msgspec

from recapito.domain.instant import SECOND, stamp
from recapito.domain.outcome import Result
from recapito.domain.profile import DelayedDelivery


class Hold(msgspec.Struct, frozen=True, array_like=True):
    """The failures in a row; and, while they hold the lane back, until when, for how long, and what caused it.

    `status` is the HTTP status of that, if there was one.
    """

    failures: int = 0
    until: int = 0
    period: int = 0
    cause: Result | None = None
    status: int | None = None

    @property
    def on(self) -> bool:
        """True from the first failure that held the lane until a success, probes included."""
        return self.period > 0

    def holds(self, now: int) -> bool:
        """True while nothing may be sent at all."""
        return now < self.until


CLEAR = Hold()


def explain(hold: Hold, now: int) -> str:
    """Why a hold that is on is there, and what comes next, for people."""
    failures = "1 failure" if hold.failures == 1 else f"{hold.failures} failures in a row"
    status = "" if hold.status is None else f" ({hold.status})"
    last = "" if hold.cause is None else f", the last: {hold.cause}{status}"
    end = f"held until {stamp(hold.until)}, then one probe" if hold.holds(now) else "one probe goes now"
    return f"{failures}{last}; {end}"


def after_failure(
    hold: Hold, rules: DelayedDelivery | None, result: Result, now: int, probe: bool, status: int | None = None
) -> Hold:
    """The hold after a failed request. Requests that were under way when the hold began do not lengthen it."""
    failures = hold.failures + 1
    if rules is None:
        return Hold(failures)
    if hold.on:
        if not probe:
            return Hold(failures, hold.until, hold.period, hold.cause, hold.status)
        period = min(max(hold.period * 2, rules.table_s.get(result, 0) * SECOND), rules.longest_s * SECOND)
        return Hold(failures, now + period, period, result, status)
    row_s = rules.table_s.get(result)
    at_once = row_s is not None and rules.at_once_from_s is not None and row_s >= rules.at_once_from_s
    if failures < rules.failures and not at_once:
        return Hold(failures)
    period = (rules.first_s if row_s is None else row_s) * SECOND
    return Hold(failures, now + period, period, result, status)
