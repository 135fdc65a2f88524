"""How one delivery stands: what is known of it now, what comes next and when, or how it ended. Pure.

The ledger is believed before history: what waits there waits, whatever was recorded; history tells how what is
no longer there has ended.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from recapito.contracts.ledger import LaneRow, WaitingDeadLetter
from recapito.domain import limits
from recapito.domain.dead_letter.parser import read_dead_letters
from recapito.domain.delivery.delivery import Delivery, DeliveryId, Parked, Rule, delay_ns
from recapito.domain.delivery.hold import Hold
from recapito.domain.history.attempt import Attempt, Ending, Fate, Then
from recapito.domain.instant import DAY, HOUR, MINUTE, SECOND, stamp
from recapito.domain.profiles.profile import Profile
from recapito.domain.resources.subscription import Subscription
from recapito.errors import InvalidInput

HOLD, DEAD_LETTER_DELAY = "hold", "deadLetterDelay"
_GAP = "either not yet, for it is written a moment later, or not any more"


class State(StrEnum):
    """In a word, where a delivery is."""

    UNREAD = "unread"
    UNDER_WAY = "underWay"
    PARKED = "parked"
    HELD = "held"
    DEAD_LETTER_WAITING = "deadLetterWaiting"
    DEAD_LETTERED = "deadLettered"
    DROPPED = "dropped"
    DELIVERED = "delivered"
    NOT_MATCHED = "notMatched"
    UNKNOWN = "unknown"


class Next(NamedTuple):
    """What happens next: when, by which rule, and the rule in words."""

    at: int
    rule: str | None
    text: str


class End(NamedTuple):
    """How a delivery ended: when, why if it was given up, and where its dead letter lies."""

    at: int | None
    reason: str | None = None
    where: str | None = None


class DeliveryState(NamedTuple):
    """A state, in a word and in a sentence, and what follows from it."""

    state: State
    text: str
    next: Next | None = None
    expires_at: int | None = None
    attempts_left: int | None = None
    end: End | None = None


class Try(NamedTuple):
    """One attempt of one delivery, and what became of it then."""

    attempt: Attempt
    number: int
    fate: Fate

    @property
    def ended_at(self) -> int:
        """When it was over."""
        return self.attempt.at + self.attempt.took


class Case(NamedTuple):
    """All that is known of one delivery. Without a lane nothing of its subscription was read yet."""

    subscription: Subscription
    profile: Profile
    identity: DeliveryId
    published_at: int | None
    lane: LaneRow | None
    waiting: Parked | WaitingDeadLetter | None
    tries: Sequence[Try]
    now: int


def state_of(case: Case) -> DeliveryState:
    """How a delivery that its subscription matches stands."""
    match case.waiting:
        case Parked() as parked:
            return _parked(case, parked)
        case WaitingDeadLetter() as buried:
            return _buried(case, buried)
    ended = how_it_ended(case.tries)
    if ended is not None and ended.state is State.DELIVERED:
        return ended
    if case.lane is not None and _passed(case.lane, case.identity):
        over = "It was delivered, dead-lettered or dropped: the subscription is past it, and history has nothing of it"
        return ended or DeliveryState(State.UNKNOWN, f"{over}: {_GAP}.")
    return _unread(case)


def how_it_ended(tries: Sequence[Try]) -> DeliveryState | None:
    """The end that history tells of, if it does: a success is one whatever came after it.

    Only what was dropped stays so when a late success follows: it is counted already.
    """
    dropped = next((n for n, one in enumerate(tries) if one.fate.then is Then.DROP), len(tries))
    counted = [one for n, one in enumerate(tries) if n <= dropped or not one.attempt.late]
    for one in counted:
        if one.fate.then is Then.DELIVERED:
            return DeliveryState(State.DELIVERED, f"Delivered at {stamp(one.ended_at)}.", end=End(one.ended_at))
    if not counted:
        return None
    last, fate = counted[-1], counted[-1].fate
    if last.attempt.outcome == Ending.DEAD_LETTERED:
        reason = next((one.fate.reason for one in reversed(tries) if one.fate.reason), None)
        text = f"Dead-lettered at {stamp(last.ended_at)}: {fate.where}."
        return DeliveryState(State.DEAD_LETTERED, text, end=End(last.ended_at, reason, fate.where))
    if fate.then is Then.DROP:
        text = f"Dropped at {stamp(last.ended_at)}: {fate.reason}."
        if len(counted) < len(tries):
            text += f" The endpoint took it after all, at {stamp(tries[-1].ended_at)}: too late to count."
        return DeliveryState(State.DROPPED, text, end=End(last.ended_at, fate.reason))
    if fate.then is Then.DEAD_LETTER:
        text = f"Given up at {stamp(last.ended_at)}: {fate.reason}. Its dead letter is written."
        return DeliveryState(State.DEAD_LETTERED, text, end=End(last.ended_at, fate.reason))
    return None


def before_publishing(subscription: Subscription, lane: LaneRow | None, now: int) -> DeliveryState:
    """How an event would stand that is matched when it is published now."""
    policy = subscription.retry_policy
    expires_at, left = now + policy.ttl_ns, policy.max_attempts
    if lane is not None and lane.hold.holds(now):
        text = f"It would wait: {held_because(lane.hold)}"
        return DeliveryState(State.HELD, text, _end_of(lane.hold), expires_at, left)
    first = Next(now, Rule.SCHEDULE, "the first attempt")
    return DeliveryState(State.UNREAD, "It would be sent at once.", first, expires_at, left)


def held_because(hold: Hold) -> str:
    """Why a subscription is held, and until when."""
    failed = "1 event" if hold.failures == 1 else f"{hold.failures} events in a row"
    cause = f", the last with {hold.cause}" if hold.cause else ""
    return f"the subscription is held until {stamp(hold.until)}, because {failed} failed at the first attempt{cause}."


_PROBE = "the hold ends, and one event goes as a probe"
_SWEEP = "the hold ends, and everything that waits is tried"


def _parked(case: Case, parked: Parked) -> DeliveryState:
    delivery, hold = parked.delivery, _hold(case.lane)
    policy, now = case.subscription.retry_policy, case.now
    following = Next(parked.due_at, *_rule(case, parked))
    which = f"Its {_ordinal(delivery.attempts + 1)} attempt"
    if hold.holds(now):
        if hold.until >= parked.due_at:
            following = _end_of(hold)
        state, text = State.HELD, f"{which} waits: {held_because(hold)}"
    elif parked.due_at <= now:
        state, text = State.UNDER_WAY, f"{which} is due: it is on its way, or waits for a free slot."
    else:
        state, text = State.PARKED, f"{which} waits until {stamp(parked.due_at)}."
    expires_at = delivery.published_at + policy.ttl_ns
    if state is not State.UNDER_WAY:
        text += _expiry(case, expires_at, following)
    left = max(policy.max_attempts - delivery.attempts, 1)  # the one that waits goes, though the policy was shortened
    return DeliveryState(state, text, following, expires_at, left)


def _expiry(case: Case, expires_at: int | None, following: Next) -> str:
    """That it will not live to see its next attempt: the time to live is looked at only then."""
    if expires_at is None or expires_at > following.at:
        return ""
    end = "dropped" if case.subscription.dead_letter is None else "dead-lettered"
    return f" Its time to live ends before that, at {stamp(expires_at)}: when the attempt is due, it is {end} instead."


def _rule(case: Case, parked: Parked) -> tuple[str | None, str]:
    """Which rule set the due time, as history has it, and the rule in words."""
    delivery = parked.delivery
    if not delivery.attempts:
        return HOLD, "it was set aside untried while the subscription was held"
    last = case.tries[-1].fate if case.tries else None
    if last is None or last.due_at != parked.due_at or last.rule is None:
        return None, f"history does not have the attempt that set this time: {_GAP}"
    if last.rule is Rule.SCHEDULE:
        return last.rule, _step(case.profile, delivery)
    if last.rule is Rule.RETRY_AFTER:
        return last.rule, f"the endpoint asked for it by Retry-After (at most {_span(limits.RETRY_AFTER_NS)})"
    least = case.profile.minimum_ns(delivery.last_status, case.subscription.destination.endpoint_kind)
    return last.rule, f"the least delay after {delivery.last_status or 'no answer'}, {_span(least)}"


def _step(profile: Profile, delivery: Delivery) -> str:
    step = delivery.attempts + delivery.skipped
    delay = _span(delay_ns(profile.schedule, step))
    jitter = f" (+ up to {profile.schedule.jitter * 100:g} %)" if profile.schedule.jitter else ""
    return f"the {_ordinal(step)} step of the schedule, {delay}{jitter}"


def _buried(case: Case, buried: WaitingDeadLetter) -> DeliveryState:
    burial = buried.burial
    reason = _reason(burial.record)
    place = burial.container if buried.path is None else f"{burial.container}/{buried.path}"
    if case.now - burial.write_at >= MINUTE:  # a write takes no minute: it fails, and is tried again
        why = "`recapito doctor` and the server's log say why"
        text = f"Given up: {reason}. Its dead letter could not be written to {place} yet, and is tried again; {why}."
        return DeliveryState(State.DEAD_LETTER_WAITING, text, attempts_left=0)
    due = burial.write_at > case.now
    wait = f"is written to {place} at {stamp(burial.write_at)}" if due else f"is being written to {place}"
    text = f"Given up: {reason}. Its dead letter {wait}."
    delay = _span(case.profile.dead_letter.delay_s * SECOND)
    rule = Next(burial.write_at, DEAD_LETTER_DELAY, f"{delay} after the last attempt")
    return DeliveryState(State.DEAD_LETTER_WAITING, text, rule, attempts_left=0)


def _unread(case: Case) -> DeliveryState:
    policy = case.subscription.retry_policy
    expires_at = None if case.published_at is None else case.published_at + policy.ttl_ns
    left = max([policy.max_attempts, *(policy.max_attempts - one.number for one in case.tries[-1:])][-1], 0)
    hold = _hold(case.lane)
    if case.subscription.deleted_position is not None:
        return DeliveryState(State.DROPPED, "The subscription is deleted, and drops what it has not delivered.")
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


def _end_of(hold: Hold) -> Next:
    return Next(hold.until, HOLD, _SWEEP if hold.sweeps else _PROBE)


def _hold(lane: LaneRow | None) -> Hold:
    return Hold() if lane is None else lane.hold


def _passed(lane: LaneRow, identity: DeliveryId) -> bool:
    return identity < lane.cursor.low or any(start <= identity < end for start, end in lane.cursor.finished)


def _reason(record: bytes) -> str:
    try:
        return read_dead_letters(record)[0].reason
    except InvalidInput:
        return "unknown"


def _ordinal(number: int) -> str:
    ending = "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def _span(duration: int) -> str:
    """A duration of whole units in words."""
    for unit, name in ((DAY, "d"), (HOUR, "h"), (MINUTE, "min")):
        if duration >= unit and duration % unit == 0:
            return f"{duration // unit} {name}"
    return f"{duration / SECOND:g} s"
