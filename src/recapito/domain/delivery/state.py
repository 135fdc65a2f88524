"""The state of one delivery: where it is now, what comes next and when, or how it ended.

The law: the ledger is believed before history. A delivery that waits in the ledger waits, whatever history recorded;
history shows how a delivery ended that the ledger no longer has.
"""

from collections.abc import Sequence
from typing import NamedTuple

from recapito.domain import limits
from recapito.domain.delivery.cursor import Cursor
from recapito.domain.delivery.delivery import Delivery, DeliveryId, Parked, delay_ns, in_force
from recapito.domain.delivery.hold import Hold
from recapito.domain.delivery.vocabulary import (
    DEAD_LETTER_DELAY,
    HOLD,
    DispositionKind,
    NonRequestOutcome,
    Rule,
    State,
)
from recapito.domain.history.attempt import Attempt, EventDisposition
from recapito.domain.instant import DAY, HOUR, MINUTE, SECOND, stamp
from recapito.domain.profiles.profile import Profile
from recapito.domain.resources.subscription import Subscription

_GAP = "not yet, for it is written a moment later, or no longer"


class NextStep(NamedTuple):
    """The next step of a delivery: when, by which rule, and the rule in words."""

    at: int
    rule: str | None
    text: str


class DeliveryEnd(NamedTuple):
    """The end of a delivery: when, the reason if it was given up, and the path of its dead letter."""

    at: int | None
    reason: str | None = None
    where: str | None = None


class DeliveryState(NamedTuple):
    """A state, with a sentence that explains it, the next step, and the limits that still apply."""

    state: State
    text: str
    next: NextStep | None = None
    expires_at: int | None = None
    attempts_left: int | None = None
    end: DeliveryEnd | None = None


class DeliveryAttempt(NamedTuple):
    """One attempt of one delivery, and its disposition after it."""

    attempt: Attempt
    number: int
    disposition: EventDisposition

    @property
    def ended_at(self) -> int:
        return self.attempt.at + self.attempt.took


class Buried(NamedTuple):
    """A dead letter that waits to be written into `where`, not before `write_at`; `reason` is why it was given up."""

    reason: str
    write_at: int
    where: str


class DeliveryFacts(NamedTuple):
    """Everything known of one delivery. Without a cursor its subscription has no lane yet."""

    subscription: Subscription
    profile: Profile
    delivery: DeliveryId
    published_at: int | None
    cursor: Cursor | None
    hold: Hold
    waiting: Parked | Buried | None
    tries: Sequence[DeliveryAttempt]
    now: int


def state_of(case: DeliveryFacts) -> DeliveryState:
    """The state of a delivery that its subscription matches."""
    match case.waiting:
        case Parked() as parked:
            return _parked(case, parked)
        case Buried() as buried:
            return _buried(case, buried)
    ended = how_it_ended(case.tries)
    if ended is not None and ended.state is State.DELIVERED:
        return ended
    if case.cursor is not None and _passed(case.cursor, case.delivery):
        over = "It was delivered, dead-lettered or dropped: the subscription is past it, and history does not have it"
        return ended or DeliveryState(State.UNKNOWN, f"{over}: {_GAP}.")
    return _unread(case)


def how_it_ended(tries: Sequence[DeliveryAttempt]) -> DeliveryState | None:
    """The end that history shows, None if it shows none. A success is the end, whatever came after it.

    Only a dropped delivery stays dropped when a late success follows, because it is already counted.
    """
    dropped = next(
        (n for n, attempted in enumerate(tries) if attempted.disposition.kind is DispositionKind.DROP), len(tries)
    )
    counted = [attempted for n, attempted in enumerate(tries) if n <= dropped or not attempted.attempt.late]
    for attempted in counted:
        if attempted.disposition.kind is DispositionKind.DELIVERED:
            text = f"Delivered at {stamp(attempted.ended_at)}."
            return DeliveryState(State.DELIVERED, text, end=DeliveryEnd(attempted.ended_at))
    if not counted:
        return None
    last, disposition = counted[-1], counted[-1].disposition
    if last.attempt.outcome == NonRequestOutcome.DEAD_LETTERED:
        reason = next(
            (attempted.disposition.reason for attempted in reversed(tries) if attempted.disposition.reason), None
        )
        text = f"Dead-lettered at {stamp(last.ended_at)}: {disposition.where}."
        return DeliveryState(State.DEAD_LETTERED, text, end=DeliveryEnd(last.ended_at, reason, disposition.where))
    if disposition.kind is DispositionKind.DROP:
        text = f"Dropped at {stamp(last.ended_at)}: {disposition.reason}."
        if len(counted) < len(tries):
            text += f" The endpoint took it after all, at {stamp(tries[-1].ended_at)}: too late to count."
        return DeliveryState(State.DROPPED, text, end=DeliveryEnd(last.ended_at, disposition.reason))
    if disposition.kind is DispositionKind.DEAD_LETTER:
        text = f"Given up at {stamp(last.ended_at)}: {disposition.reason}. Its dead letter is written."
        return DeliveryState(State.DEAD_LETTERED, text, end=DeliveryEnd(last.ended_at, disposition.reason))
    return None


def before_publishing(subscription: Subscription, profile: Profile, hold: Hold, now: int) -> DeliveryState:
    """The state that a matched event would have if it were published now."""
    expires_at, left = _expires_at(subscription, profile, now), _attempts_left(subscription, profile, 0)
    if hold.holds(now):
        text = f"It would wait: {held_because(hold)}"
        return DeliveryState(State.HELD, text, _end_of(hold), expires_at, left)
    first = NextStep(now, Rule.SCHEDULE, "the first attempt")
    return DeliveryState(State.UNREAD, "It would be sent at once.", first, expires_at, left)


def held_because(hold: Hold) -> str:
    """A clause with the reason and the end of a hold."""
    if hold.failures:
        failed = "1 event" if hold.failures == 1 else f"{hold.failures} events in a row"
        cause = f"{failed} failed at the first attempt" + (f", the last with {hold.cause}" if hold.cause else "")
    else:
        cause = f"the last attempt ended with {hold.cause}"
    return f"the subscription is held until {stamp(hold.until)}, because {cause}."


def _expires_at(subscription: Subscription, profile: Profile, published_at: int | None) -> int | None:
    """The end of an event's time to live; None if it is not known, or if the event is kept."""
    policy = in_force(profile, subscription.retry_policy)
    if published_at is None or policy.ttl_minutes == limits.UNLIMITED:
        return None
    return published_at + policy.ttl_ns


def _attempts_left(subscription: Subscription, profile: Profile, made: int) -> int | None:
    """The attempts that remain after some; None without a limit."""
    most = in_force(profile, subscription.retry_policy).max_attempts
    return None if most == limits.UNLIMITED else most - made


_PROBE = "the hold ends, and one event is sent as a probe"
_SWEEP = "the hold ends, and everything that waits is tried"


def _parked(case: DeliveryFacts, parked: Parked) -> DeliveryState:
    delivery, hold, now = parked.delivery, case.hold, case.now
    following = NextStep(parked.due_at, *_rule(case, parked))
    which = f"Its {_ordinal(delivery.attempts + 1)} attempt"
    if hold.holds(now):
        if hold.until >= parked.due_at:
            following = _end_of(hold)
        state, text = State.HELD, f"{which} waits: {held_because(hold)}"
    elif parked.due_at <= now:
        state, text = State.UNDER_WAY, f"{which} is due: it is on its way, or waits for a free slot."
    else:
        state, text = State.PARKED, f"{which} waits until {stamp(parked.due_at)}."
    expires_at = _expires_at(case.subscription, case.profile, delivery.published_at)
    if state is not State.UNDER_WAY:
        text += _expiry(case, expires_at, following)
    left = _attempts_left(case.subscription, case.profile, delivery.attempts)
    left = None if left is None else max(left, 1)  # the one that waits goes, though the policy was shortened
    return DeliveryState(state, text, following, expires_at, left)


def _expiry(case: DeliveryFacts, expires_at: int | None, following: NextStep) -> str:
    """A sentence if the time to live ends before the next attempt: it is checked only when that is due."""
    if expires_at is None or expires_at > following.at:
        return ""
    end = "dropped" if case.subscription.dead_letter is None else "dead-lettered"
    return f" Its time to live ends before that, at {stamp(expires_at)}: when the attempt is due, it is {end} instead."


def _rule(case: DeliveryFacts, parked: Parked) -> tuple[str | None, str]:
    """The rule that set the due time, if history has it, and the rule in words."""
    delivery = parked.delivery
    if delivery.last_attempt_at is None:
        return HOLD, "it was set aside untried while the subscription was held"
    last = case.tries[-1].disposition if case.tries else None
    if last is None or last.due_at != parked.due_at or last.rule is None:
        return None, f"history does not have the attempt that set this time: {_GAP}"
    if last.rule is Rule.SCHEDULE:
        return last.rule, _step(case.profile, delivery)
    if last.rule is Rule.CUT:
        return last.rule, "a request of several events was refused, so a smaller one goes at once"
    if last.rule is Rule.RETRY_AFTER:
        return last.rule, f"the endpoint asked for it by Retry-After (at most {_span(limits.RETRY_AFTER_NS)})"
    least = case.profile.minimum_ns(delivery.last_status, case.subscription.destination.endpoint_kind)
    return last.rule, f"the least delay after {delivery.last_status or 'no answer'}, {_span(least)}"


def _step(profile: Profile, delivery: Delivery) -> str:
    step = delivery.attempts + delivery.skipped
    delay = _span(delay_ns(profile.schedule, step))
    jitter = f" (+ up to {profile.schedule.jitter * 100:g} %)" if profile.schedule.jitter else ""
    return f"the {_ordinal(step)} step of the schedule, {delay}{jitter}"


def _buried(case: DeliveryFacts, buried: Buried) -> DeliveryState:
    reason, where = buried.reason, buried.where
    if case.now - buried.write_at >= MINUTE:  # no write takes a minute, so this one failed and is tried again
        cause = "`recapito doctor` and the server's log show the cause"
        text = f"Given up: {reason}. Its dead letter could not be written to {where} yet, and is tried again; {cause}."
        return DeliveryState(State.DEAD_LETTER_WAITING, text, attempts_left=0)
    due = buried.write_at > case.now
    wait = f"is written to {where} at {stamp(buried.write_at)}" if due else f"is being written to {where}"
    text = f"Given up: {reason}. Its dead letter {wait}."
    delay = _span(case.profile.dead_letter.delay_s * SECOND)
    rule = NextStep(buried.write_at, DEAD_LETTER_DELAY, f"{delay} after the last attempt")
    return DeliveryState(State.DEAD_LETTER_WAITING, text, rule, attempts_left=0)


def _unread(case: DeliveryFacts) -> DeliveryState:
    expires_at = _expires_at(case.subscription, case.profile, case.published_at)
    left = _attempts_left(case.subscription, case.profile, case.tries[-1].number if case.tries else 0)
    left = None if left is None else max(left, 0)
    hold = case.hold
    if case.subscription.deleted_position is not None:
        return DeliveryState(State.DROPPED, "The subscription is deleted, and drops its undelivered events.")
    if hold.holds(case.now):
        following = _end_of(hold)
        text = f"It waits in the log: {held_because(hold)}{_expiry(case, expires_at, following)}"
        return DeliveryState(State.HELD, text, following, expires_at, left)
    if case.tries:
        return DeliveryState(
            State.UNDER_WAY, "It was attempted just now, and is being settled.", None, expires_at, left
        )
    text = "The subscription has not taken it from the log yet, or its first attempt is on its way."
    return DeliveryState(State.UNREAD, text, None, expires_at, left)


def _end_of(hold: Hold) -> NextStep:
    return NextStep(hold.until, HOLD, _SWEEP if hold.sweeps else _PROBE)


def _passed(cursor: Cursor, delivery: DeliveryId) -> bool:
    return delivery < cursor.low or any(start <= delivery < end for start, end in cursor.finished)


def _ordinal(number: int) -> str:
    ending = "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def _span(duration: int) -> str:
    """A duration of whole units in words."""
    for unit, name in ((DAY, "d"), (HOUR, "h"), (MINUTE, "min")):
        if duration >= unit and duration % unit == 0:
            return f"{duration // unit} {name}"
    return f"{duration / SECOND:g} s"
