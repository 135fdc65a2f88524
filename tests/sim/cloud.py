"""The laws of a profile that keeps events, for a cloud that may be away for days.

Nothing is given up but an event that the cloud refuses alone, or one whose subscription sets a limit (kept). However
long the cloud is away, it gets few requests: a probe at each end of a hold, and now and then a sweep that ends at its
first answer (away).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from recapito.domain import limits
from recapito.domain.delivery.delivery import CORRUPT, Parked
from recapito.domain.delivery.outcome import Outcome
from recapito.domain.instant import DAY, SECOND
from recapito.domain.resources.subscription import RetryPolicy
from tests.sim.books import Owed, Touched
from tests.sim.endpoints import Arrival

if TYPE_CHECKING:
    from tests.sim.facts import Watched
    from tests.sim.oracle import Oracle

LIMITS_REACHED = ("TimeToLiveExceeded", "MaxDeliveryAttemptsExceeded")
UNDER_WAY = 2 * limits.WINDOW_REQUESTS  # may fail at once when the cloud goes away, or in a sweep
STEPS = 12  # of a hold, until its periods are the longest; each life of dispatch may begin them anew


def counted(oracle: Oracle, lane: Watched, owed: Owed) -> int:
    """The attempts of a delivery that count: those that met only pressure do not, nor those that were cut."""
    profile = oracle.profile_of(lane.topic)
    return sum(
        arrival.outcome is None
        or not (profile.is_pressure(arrival.outcome) or _cuts(oracle, lane, arrival, arrival.outcome))
        for arrival in owed.arrivals
    )


def was_cut(oracle: Oracle, lane: Watched, owed: Owed) -> bool:
    """Whether the last request with this event was refused, and had others."""
    last = owed.arrivals[-1]
    return last.outcome is not None and _cuts(oracle, lane, last, last.outcome)


def check_row(oracle: Oracle, lane: Watched, owed: Owed, row: Parked, at: int, outcome: Outcome) -> None:
    """After a cut an event is due at once; under pressure when the cloud asked for it."""
    wait = 0 if was_cut(oracle, lane, owed) else min(outcome.retry_after_ns, limits.RETRY_AFTER_NS)
    if not at + wait <= row.due_at <= lane.settling_since + wait + 1:
        oracle.fail(
            "I9", f"after {outcome.status} is due at {row.due_at}, not {wait} ns later", lane=lane.id, owed=owed
        )


def check_given_up(oracle: Oracle, lane: Watched, touched: Touched, reason: str) -> None:
    """An event is given up only for a limit that its subscription set, or because it was refused alone."""
    profile = oracle.profile_of(lane.topic)
    if not profile.keeps or lane.deleted_at is not None or reason == CORRUPT:
        return
    set_here = any(version.retry_policy != RetryPolicy() for version in lane.versions)
    last = touched.owed.arrivals[-1] if touched.owed.arrivals else None
    alone = last is not None and len(last.events) == 1
    fine = set_here if reason in LIMITS_REACHED else alone
    if not fine:
        oracle.fail("kept", f"is given up: {reason}", lane=lane.id, owed=touched.owed)


def check_answer(oracle: Oracle, lane: Watched, arrival: Arrival) -> None:
    """A cloud that is away gets no more requests than probes and sweeps make."""
    profile, rules, outcome = oracle.profile_of(lane.topic), oracle.rules_of(lane), arrival.outcome
    assert outcome is not None and arrival.heard_at is not None
    if not profile.keeps or rules is None:
        return
    if not rules.blames_endpoint(outcome.failure) or outcome.status in profile.status.success:
        lane.away_since, lane.away_requests = None, 0
        return
    if lane.away_since is None:
        lane.away_since, lane.away_life = arrival.heard_at, oracle.life
    lane.away_requests += 1
    away = arrival.heard_at - lane.away_since
    lives = 1 + oracle.life - lane.away_life
    probes = away // (rules.longest_s * SECOND // 2) + STEPS * lives
    most = probes + UNDER_WAY * (lives + away // DAY + 1)
    if lane.away_requests > most:
        oracle.fail("away", f"gets {lane.away_requests} requests in {away / SECOND:.0f} s", lane=lane.id)


def _cuts(oracle: Oracle, lane: Watched, arrival: Arrival, outcome: Outcome) -> bool:
    return len(arrival.events) > 1 and outcome.status in oracle.profile_of(lane.topic).status.cut
