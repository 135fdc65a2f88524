"""A delivery: one event for one subscription, and its disposition after each attempt.

`decide` is the whole rule: a pure function from the outcome of an attempt to Done, RetryAt or Dead. `timetable` runs it
for an event that keeps failing, so the timetable that people see is the one that lanes follow.
"""

from typing import NamedTuple

import msgspec

from recapito.domain import limits
from recapito.domain.delivery.outcome import Outcome, Result
from recapito.domain.delivery.vocabulary import Rule
from recapito.domain.instant import SECOND
from recapito.domain.profiles.profile import EndpointKind, Profile, Schedule
from recapito.domain.resources.subscription import RetryPolicy


class DeliveryId(NamedTuple):
    """The id of a delivery in its lane: the position of its segment, and the index of its event in it. Never reused."""

    position: int
    offset: int


class Delivery(msgspec.Struct, frozen=True):
    """One delivery with its history. `attempts` counts requests; `skipped` counts schedule steps that were passed over.

    `body` is the event as it is sent. A delivery that was never tried has no last attempt and no last result. `trace`
    is the traceparent of a traced delivery, `passed` the waymarks of the topics that a forwarded event came by.
    """

    identity: DeliveryId
    published_at: int
    body: bytes
    attempts: int = 0
    skipped: int = 0
    last_attempt_at: int | None = None
    last_result: Result | None = None
    last_status: int | None = None
    trace: str = ""
    passed: str = ""


class Parked(msgspec.Struct, frozen=True):
    """A delivery that waits for its next attempt."""

    due_at: int
    delivery: Delivery


class Done(NamedTuple):
    """Delivered."""


class RetryAt(NamedTuple):
    """To be tried again, not before this instant (a hold may delay it further), which `rule` set."""

    due_at: int
    rule: Rule


class Dead(NamedTuple):
    """Given up: dead-lettered if the subscription has a dead-letter destination, else dropped and counted."""

    reason: str


Disposition = Done | RetryAt | Dead

ATTEMPTS_EXCEEDED = "MaxDeliveryAttemptsExceeded"
TTL_EXCEEDED = "TimeToLiveExceeded"
KEPT = "Kept"  # not given up: the reason of a timetable without an end
CORRUPT = "CorruptRecord"  # the stored event is damaged: nothing is left to deliver
NEVER_RETRIED = {
    400: "UndeliverableDueToHttpBadRequest",
    401: "UndeliverableDueToHttpUnauthorized",
    403: "UndeliverableDueToHttpForbidden",
    404: "UndeliverableDueToHttpNotFound",
    413: "UndeliverableDueToHttpRequestEntityTooLarge",
    508: "UndeliverableDueToForwardingLoop",
}


def succeeded(profile: Profile, outcome: Outcome) -> bool:
    """Whether the profile counts this outcome as a delivery."""
    return outcome.status in profile.status.success


def in_force(profile: Profile, policy: RetryPolicy) -> RetryPolicy:
    """The limits of a delivery. Where events are kept, a default is no limit: each limit counts that a client set."""
    if not profile.keeps:
        return policy
    attempts, minutes = policy.max_attempts, policy.ttl_minutes
    return RetryPolicy(
        limits.UNLIMITED if attempts == limits.ATTEMPTS_DEFAULT else attempts,
        limits.UNLIMITED if minutes == limits.TTL_MINUTES_DEFAULT else minutes,
    )


def attempted(delivery: Delivery, outcome: Outcome, sent_at: int, counts: bool = True) -> Delivery:
    """The delivery after one more attempt; the fields of the outcome are read only if it failed.

    An attempt that met only pressure does not count (`Profile.is_pressure`).
    """
    return msgspec.structs.replace(
        delivery,
        attempts=delivery.attempts + counts,
        last_attempt_at=sent_at,
        last_result=outcome.failure,
        last_status=outcome.status,
    )


def decide(
    profile: Profile,
    kind: EndpointKind,
    policy: RetryPolicy,
    dead_letters: bool,
    delivery: Delivery,
    outcome: Outcome,
    now: int,
    random: float,
    events: int = 1,
) -> Disposition:
    """The disposition after an attempt with this number of events; `delivery` already counts it, `random` is in [0, 1).

    The last allowed attempt wins over a never-retried status (as in a recorded dead letter: one attempt, 404,
    MaxDeliveryAttemptsExceeded). The time to live is checked when the next attempt comes due, not here. Where a refusal
    is cut, it says nothing of an event that had company: that goes again at once, in a smaller request.
    """
    if succeeded(profile, outcome):
        return Done()
    if events > 1 and outcome.status in profile.status.cut:
        return RetryAt(now, Rule.CUT)
    if profile.is_pressure(outcome):
        return RetryAt(now + min(outcome.retry_after_ns, limits.RETRY_AFTER_NS), Rule.RETRY_AFTER)
    if delivery.attempts >= in_force(profile, policy).max_attempts:
        return Dead(ATTEMPTS_EXCEEDED)
    if profile.never_retried(outcome.status, kind, dead_letters):
        return Dead(NEVER_RETRIED.get(outcome.status or 0, f"UndeliverableDueToHttp{outcome.status}"))
    scheduled = delay_ns(profile.schedule, delivery.attempts + delivery.skipped)
    delays = {
        Rule.SCHEDULE: scheduled + int(scheduled * profile.schedule.jitter * random),
        Rule.MINIMUM: profile.minimum_ns(outcome.status, kind),
        Rule.RETRY_AFTER: min(outcome.retry_after_ns, limits.RETRY_AFTER_NS),
    }
    rule = max(delays, key=delays.__getitem__)  # the longest; of equal ones the first
    return RetryAt(now + delays[rule], rule)


def delay_ns(schedule: Schedule, step: int) -> int:
    """The delay after the `step`-th failed attempt, without jitter; the first is step 1."""
    delays = schedule.delays_s
    return (delays[step - 1] if step <= len(delays) else schedule.then_every_s) * SECOND


def expired(delivery: Delivery, policy: RetryPolicy, now: int) -> bool:
    """Whether the time to live has passed; checked only when an attempt comes due."""
    return now >= delivery.published_at + policy.ttl_ns


def skip(schedule: Schedule, policy: RetryPolicy, parked: Parked, now: int) -> Delivery:
    """The delivery when it is taken late, as after a hold: the schedule steps that came due meanwhile are skipped.

    Skipped steps are not attempts; they only lengthen the delay after the next failure. Under a retry policy of the
    subscriber's own nothing is skipped, so that the number of attempts is determined.
    """
    delivery = parked.delivery
    if not policy.is_default or not delivery.attempts:
        return delivery
    step = delivery.attempts + delivery.skipped
    came_due = parked.due_at + delay_ns(schedule, step + 1)
    while came_due <= now:
        step += 1
        came_due += delay_ns(schedule, step + 1)
    return msgspec.structs.replace(delivery, skipped=step - delivery.attempts)


class Timetable(NamedTuple):
    """The attempts and the end of a delivery, in nanoseconds since publishing, and the reason if it is given up.

    A delivery that expires is not tried at its end; one that is delivered has no reason. One that is kept has the
    attempts of its first day, and the reason KEPT.
    """

    attempts: list[int]
    end: int
    reason: str | None


def timetable(
    profile: Profile, kind: EndpointKind, policy: RetryPolicy, outcome: Outcome, dead_letters: bool = False
) -> Timetable:
    """The timetable of one event whose every attempt ends at once with this outcome, without jitter and holds."""
    delivery = Delivery(DeliveryId(0, 0), published_at=0, body=b"")
    attempts: list[int] = []
    now = 0
    while not expired(delivery, policy, now):
        attempts.append(now)
        delivery = attempted(delivery, outcome, now)
        disposition = decide(profile, kind, policy, dead_letters, delivery, outcome, now, random=0.0)
        if not isinstance(disposition, RetryAt):
            return Timetable(attempts, now, disposition.reason if isinstance(disposition, Dead) else None)
        now = disposition.due_at
    kept = in_force(profile, policy).ttl_minutes == limits.UNLIMITED
    return Timetable(attempts, now, KEPT if kept else TTL_EXCEEDED)
