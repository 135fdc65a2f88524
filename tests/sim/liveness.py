"""The laws of liveness: whatever an endpoint would accept at any time arrives, and in bounded time.

They speak of endpoints that refuse some events for good and accept all others (`Oracle.picky`): whatever the refused
ones do, an accepted event waits no longer than the longest hold, plus a step of its schedule for each time that it
failed in the company of a refused one (L1). While fewer events fail than start a hold, each is retried on its schedule
(L2). A policy of one's own gives exactly the attempts that its schedule has (L3).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from recapito.domain import limits
from recapito.domain.delivery.delivery import (
    ATTEMPTS_EXCEEDED,
    CORRUPT,
    TTL_EXCEEDED,
    Delivery,
    DeliveryId,
    Parked,
    delay_ns,
    skip,
)
from recapito.domain.delivery.outcome import answered
from recapito.domain.instant import MINUTE, SECOND
from recapito.domain.profiles.profile import Profile
from recapito.domain.resources.subscription import RetryPolicy
from tests.sim.books import Owed, State, Touched

if TYPE_CHECKING:
    from tests.sim.facts import Watched
    from tests.sim.oracle import Oracle

TURN_NS = SECOND  # an answer and a commit: each event that waits before it may take so long
SLACK_NS = 2 * MINUTE
LATE_S = 10.0
HOLDS_AT_ONCE = (401, 403, 404)  # as the probation table has them


def check_in_time(oracle: Oracle, lane: Watched, owed: Owed) -> None:
    """An accepted event has arrived: it did not wait longer than it may."""
    if not _accepted(oracle, lane, owed) or owed.event.appended_s is None:
        return
    waited_s = oracle.time_s() - owed.event.appended_s
    longest_s = longest_wait_ns(oracle, lane) / SECOND
    if waited_s > longest_s and oracle.calm(waited_s) and not oracle.slots_limited:
        said = f"waited {waited_s:.0f} s for an endpoint that accepts it, {longest_s:.0f} s are enough"
        oracle.fail("L1", said, lane=lane.id, owed=owed)


def check_on_schedule(oracle: Oracle, lane: Watched, owed: Owed, now: int) -> None:
    """A delivery is tried again: at its time, if it is one of few that fail."""
    refusal, rules = oracle.picky.get(lane.id), oracle.rules_of(lane)
    if refusal is None or owed.parked is None or oracle.slots_limited:
        return
    if rules is not None:
        failing = sum(each.event.subject in refusal.subjects for each in lane.books.owed.values())
        at_once = rules.at_once_from_s is not None and refusal.status in HOLDS_AT_ONCE
        at_once = at_once or rules.blames_endpoint(answered(refusal.status).result)
        if lane.now.batching.event_limit > 1 or failing >= rules.failures or at_once:
            return
    late_s = (now - owed.parked.due_at) / SECOND
    if late_s > LATE_S + len(lane.books.owed) * TURN_NS / SECOND and oracle.calm(late_s + LATE_S):
        oracle.fail("L2", f"is retried {late_s:.0f} s after its time", lane=lane.id, owed=owed)


def check_end(oracle: Oracle, lane: Watched, touched: Touched, reason: str) -> None:
    """An event is given up: it was one that the endpoint refuses, and has had the attempts that it is due."""
    owed = touched.owed
    if lane.id not in oracle.picky or lane.deleted_at is not None or reason == CORRUPT:
        return
    policy = lane.now.retry_policy
    if _must_arrive(oracle, lane, owed):
        oracle.fail("L1", f"is given up ({reason}), and would have been accepted", lane=lane.id, owed=owed)
    held = policy.is_default or oracle.profile_of(lane.topic).keeps
    if held or len(lane.versions) > 1 or reason not in (TTL_EXCEEDED, ATTEMPTS_EXCEEDED):
        return
    expires_at = owed.event.sent_at + policy.ttl_ns
    was_due = expires_at if touched.parked is None else touched.parked.due_at
    late_s = (oracle.clock.now() - was_due) / SECOND
    if reason == TTL_EXCEEDED and was_due < expires_at - SLACK_NS and oracle.calm(late_s + 60):
        said = f"expires after {touched.attempts} attempts, though one was due {late_s:.0f} s ago"
        oracle.fail("L3", said, lane=lane.id, owed=owed)
    if reason == ATTEMPTS_EXCEEDED and touched.attempts + 1 != policy.max_attempts:
        oracle.fail("L3", f"is given up after {touched.attempts + 1} attempts", lane=lane.id, owed=owed)


def check_accepted(oracle: Oracle) -> None:
    """In the end every accepted event has arrived."""
    for id in oracle.picky:
        lane = oracle.lanes[id]
        for owed in lane.books.owed.values():
            if _must_arrive(oracle, lane, owed) and owed.state is not State.DELIVERED and owed.reason != CORRUPT:
                oracle.fail("L1", f"is {owed.state}, and would have been accepted", lane=lane.id, owed=owed)


def longest_wait_ns(oracle: Oracle, lane: Watched) -> int:
    """How long an accepted event may wait for its success."""
    profile, rules = oracle.profile_of(lane.topic), oracle.rules_of(lane)
    tries = limits.ATTEMPTS_IN_COMPANY + 1 if lane.now.batching.event_limit > 1 else 1
    held = rules is not None and not oracle.picky[lane.id].blames_event
    hold = rules.sweep_ns if rules is not None and held else 0
    steps = sum(_step_ns(profile, n, hold) for n in range(1, tries))
    return tries * hold + steps + len(lane.books.owed) * TURN_NS + SLACK_NS


def _step_ns(profile: Profile, n: int, late_ns: int) -> int:
    """The delay after the n-th failure, when the attempt itself was so late that steps were skipped."""
    taken = Parked(0, Delivery(DeliveryId(1, 0), 0, b"", attempts=max(n - 1, 0)))
    step = n + skip(profile.schedule, RetryPolicy(), taken, late_ns).skipped
    least = max(profile.status.minimum_s, *profile.status.webhook.minimum_s.values(), 0) * SECOND
    return max(int(delay_ns(profile.schedule, step) * (1 + profile.schedule.jitter)), least)


def _must_arrive(oracle: Oracle, lane: Watched, owed: Owed) -> bool:
    """Whether an event can have no other end: it has a whole day, in which the machine did not sleep.

    A code that is never retried ends a whole batch, as Event Grid has it, unless the profile cuts the batch.
    """
    if not _accepted(oracle, lane, owed) or lane.deleted_at is not None or not lane.now.retry_policy.is_default:
        return False
    if owed.again or lane.halted:  # it had arrived before, or waited for a backup
        return False
    profile, kind = oracle.profile_of(lane.topic), lane.now.destination.endpoint_kind
    fatal = profile.never_retried(oracle.picky[lane.id].status, kind, lane.now.dead_letter is not None)
    slept = (oracle.clock.suspended_at or 0) >= owed.event.sent_at
    whole = fatal and oracle.picky[lane.id].status not in profile.status.cut
    return not slept and not (whole and lane.now.batching.event_limit > 1)


def _accepted(oracle: Oracle, lane: Watched, owed: Owed) -> bool:
    return lane.id in oracle.picky and owed.event.subject not in oracle.picky[lane.id].subjects
