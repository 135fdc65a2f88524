"""Checks of what is settled: nothing delivered that was not answered, parked too early, or given up without cause."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from recapito.contracts.ledger import DueDeliveries
from recapito.dispatch.dead_letter_writer import CONTAINER_MISSING, UNAVAILABLE
from recapito.domain import limits
from recapito.domain.delivery.delivery import CORRUPT, NEVER_RETRIED, Delivery, Parked, delay_ns
from recapito.domain.delivery.outcome import Outcome, Result
from recapito.domain.instant import SECOND, stamp
from tests.sim import cloud, liveness
from tests.sim.books import Owed, State, Touched
from tests.sim.endpoints import ArrivedCloudEvent, ArrivedEvent
from tests.sim.faults import HANGS_S

if TYPE_CHECKING:
    from tests.sim.facts import Watched
    from tests.sim.oracle import Oracle

SLACK_NS = 10 * SECOND
PROMPT_S = 30.0  # so soon after its time a dead letter is written to a vault that works
PAUSE_S = 310.0 + HANGS_S  # the longest pause after a vault did not work, or hung


class Buried(ArrivedEvent):
    """A dead-letter record: an event with the reasons of its death."""

    deadLetterReason: str = ""
    deliveryAttempts: int = -1
    lastDeliveryOutcome: str = ""
    publishTime: str = ""
    lastDeliveryAttemptTime: str = ""


class BuriedCloudEvent(ArrivedCloudEvent):
    """The same in the other schema, which does not say when the last attempt was."""

    deadletterreason: str = ""
    deliveryattempts: int = -1
    lastdeliveryoutcome: str = ""
    publishtime: str = ""


_decode_buried = msgspec.json.Decoder(Buried).decode
_decode_buried_cloud_event = msgspec.json.Decoder(BuriedCloudEvent).decode
_decode_raw = msgspec.json.Decoder(list[msgspec.Raw]).decode


def decode_record(text: bytes | msgspec.Raw) -> Buried:
    """A dead-letter record in whichever schema it is; our conversion has the version of a CloudEvent in front."""
    if not bytes(text).startswith(b'{"specversion"'):
        return _decode_buried(text)
    record = _decode_buried_cloud_event(text)
    reasons = (record.deadletterreason, record.deliveryattempts, record.lastdeliveryoutcome, record.publishtime)
    return Buried(*msgspec.structs.astuple(record.plain()), *reasons)


def decode_records(content: bytes) -> list[Buried]:
    """The records of a dead-letter file."""
    return [decode_record(text) for text in _decode_raw(content)]


def check(oracle: Oracle, lane: Watched, touched: list[Touched]) -> None:
    """A settlement took effect: is each of its parts true?"""
    for each in touched:
        owed = each.owed
        if owed.state is State.DELIVERED and each.state is not State.DELIVERED:
            if not owed.successes:
                oracle.fail("I2", "is counted as delivered, and was never answered so", lane=lane.id, owed=owed)
            continue
        if each.state in (State.UNREAD, State.PARKED):
            _check_failure(oracle, lane, each)


def check_due(oracle: Oracle, lane: Watched, due: DueDeliveries, now: int, limit: int) -> None:
    """The store returns the rows that were parked, all that are due and no others, earliest first."""
    parked = lane.books.parked
    for row in due.parked:
        identity = row.delivery.identity
        if row.due_at > now or parked.get(identity) != row:
            oracle.fail("I9", f"the store returns {identity}, which is not due so", lane=lane.id)
    waiting = sorted((row.due_at, identity) for identity, row in parked.items())
    expected = [identity for due_at, identity in waiting if due_at <= now][:limit]
    count = len(due.parked)
    size = sum(len(parked[identity].delivery.body) for identity in expected[: count + 1])
    left_out = count < len(expected) and size <= limits.PARKED_SLICE_BYTES
    if left_out or [row.delivery.identity for row in due.parked] != expected[:count]:
        oracle.fail("I2", f"the store returns {count} rows of {len(expected)} that are due", lane=lane.id)
    next_at = waiting[count][0] if count < len(waiting) else None
    if due.next_at != next_at:
        oracle.fail("I2", f"the store says that more is due at {due.next_at}, not at {next_at}", lane=lane.id)


def check_named(oracle: Oracle, lane: Watched, members: list[Owed]) -> None:
    """A dead letter whose delivery was answered late with a success must not be written."""
    for owed in members:
        answered = owed.success_epoch == lane.epoch
        if answered and oracle.clock.now() > owed.success_at + SLACK_NS and oracle.calm(10.0):
            oracle.fail("late", f"is written though it succeeded at {owed.success_at}", lane=lane.id, owed=owed)
        if owed.burial is None:
            continue
        late_s = (oracle.clock.now() - owed.burial.write_at) / SECOND
        if late_s < 0:
            oracle.fail("I11", "is written before its time", lane=lane.id, owed=owed)
        worked = oracle.container_up(owed.burial.container, late_s + PAUSE_S)  # whatever the lane's other ones did
        if late_s > PROMPT_S and oracle.calm(late_s + 10) and worked:
            oracle.fail("I17", f"is written {late_s:.0f} s late to a healthy vault", lane=lane.id, owed=owed)


def check_written(oracle: Oracle, lane: Watched, path: str, members: list[Owed]) -> None:
    """An event that is counted as dead-lettered is in the vault (I11), unchanged."""
    if not members:
        return
    records = [owed.burial.record for owed in members if owed.burial is not None]
    container = members[0].burial.container if members[0].burial else ""
    content = oracle.vault_files.get((container, path))
    if content is None or sorted(map(bytes, _decode_raw(content))) != sorted(records):
        oracle.fail("I11", f"{path} in the vault is not what was counted", lane=lane.id, owed=members[0])


def check_abandoned(oracle: Oracle, lane: Watched, members: list[Owed], reason: str) -> None:
    """Dead letters are given up only when the vault failed for as long as the profile says."""
    rules = oracle.profile_of(lane.topic).dead_letter
    for owed in members:
        tried = owed.named_at if owed.named_at is not None else oracle.clock.now()
        long_enough = oracle.clock.now() - tried >= rules.unavailable_s * SECOND or lane.halted
        fine = long_enough if reason == UNAVAILABLE else reason == CONTAINER_MISSING
        if oracle.keep_for_ever or not fine:
            oracle.fail("I11", f"is abandoned: {reason}", lane=lane.id, owed=owed)


def _check_failure(oracle: Oracle, lane: Watched, touched: Touched) -> None:
    owed = touched.owed
    if owed.reason == CORRUPT:  # the books have seen that it was damaged
        return
    success = owed.success_epoch == lane.epoch and owed.success_at < lane.settling_since
    if success and lane.deleted_at is None:
        oracle.fail("I8", f"is {owed.state} after a success at {owed.success_at}", lane=lane.id, owed=owed)
    if owed.state is State.PARKED and owed.parked is not None:
        _check_row(oracle, lane, touched, owed.parked)
    elif owed.state is State.BURIED and owed.burial is not None:
        _check_burial(oracle, lane, touched)
    elif owed.state is State.DROPPED:
        _check_reason(oracle, lane, touched, owed.reason or "")
        if lane.deleted_at is None and all(version.dead_letter for version in lane.versions):
            oracle.fail("I10", "is dropped, and should be a dead letter", lane=lane.id, owed=owed)


def _check_row(oracle: Oracle, lane: Watched, touched: Touched, row: Parked) -> None:
    """A parked row counts its attempts, and waits as long as schedule, status and endpoint demand (I9)."""
    owed, delivery = touched.owed, row.delivery
    if delivery.last_attempt_at is None:
        if delivery.attempts or touched.state is not State.UNREAD:
            oracle.fail("I9", f"is parked without an attempt: {row}", lane=lane.id, owed=owed)
        return
    learned = _learned(oracle, lane, owed, delivery)
    if learned is None:
        return
    at, outcome = learned
    counts = not oracle.profile_of(lane.topic).is_pressure(outcome)
    if delivery.attempts != touched.attempts + counts:
        said = f"has {delivery.attempts} attempts after {touched.attempts}"
        oracle.fail("I9", said, lane=lane.id, owed=owed)
    if not counts or cloud.was_cut(oracle, lane, owed):
        cloud.check_row(oracle, lane, owed, row, at, outcome)
        return
    profile, kind = oracle.profile_of(lane.topic), lane.now.destination.endpoint_kind
    other = max(profile.minimum_ns(outcome.status, kind), min(outcome.retry_after_ns, limits.RETRY_AFTER_NS))
    earliest = at + max(delay_ns(profile.schedule, delivery.attempts), other)
    longest = int(delay_ns(profile.schedule, delivery.attempts + delivery.skipped) * (1 + profile.schedule.jitter))
    latest = lane.settling_since + max(longest, other) + 1
    if not earliest <= row.due_at <= latest:
        said = f"after {outcome.status or outcome.result} is due at {row.due_at}, not in {earliest}–{latest}"
        oracle.fail("I9", said, lane=lane.id, owed=owed)
    if delivery.skipped and not any(version.retry_policy.is_default for version in lane.versions):
        oracle.fail("I9", "skips attempts under a policy of its own", lane=lane.id, owed=owed)


def _learned(oracle: Oracle, lane: Watched, owed: Owed, delivery: Delivery) -> tuple[int, Outcome] | None:
    """When the lane learned of the outcome of the last attempt, and what it was."""
    sent_at = delivery.last_attempt_at or 0
    arrival = lane.attempts.get((owed.identity, sent_at))
    if arrival is None:
        oracle.fail("I9", f"counts an attempt at {sent_at} that never was", lane=lane.id, owed=owed)
        return None
    if delivery.last_result is Result.TIMED_OUT and delivery.last_status is None:
        return sent_at + limits.ANSWER_WAIT_NS, Outcome(Result.TIMED_OUT)
    outcome = arrival.outcome
    said = (delivery.last_result, delivery.last_status)
    if arrival.heard_at is None or outcome is None or (outcome.failure, outcome.status) != said:
        oracle.fail("I9", f"says {said}, but {arrival}", lane=lane.id, owed=owed)
        return None
    return arrival.heard_at, outcome


def _check_burial(oracle: Oracle, lane: Watched, touched: Touched) -> None:
    """A dead letter has the event's bytes, a true reason, and waits its five minutes."""
    owed = touched.owed
    assert owed.burial is not None
    record = decode_record(owed.burial.record)
    if (record.id, bytes(record.data)) != (owed.event.id, owed.event.data):
        oracle.fail("I7", "the dead letter is not the event", lane=lane.id, owed=owed)
    if not any(v.dead_letter and v.dead_letter.container == owed.burial.container for v in lane.versions):
        oracle.fail("I11", f"is buried in {owed.burial.container}", lane=lane.id, owed=owed)
    expired = record.deadLetterReason == "TimeToLiveExceeded"
    if record.deliveryAttempts != touched.attempts + (0 if expired else 1):
        said = f"the dead letter counts {record.deliveryAttempts} attempts after {touched.attempts}"
        oracle.fail("I9", said, lane=lane.id, owed=owed)
    delay = oracle.profile_of(lane.topic).dead_letter.delay_s * SECOND
    last = _last_settled(touched, expired)
    if record.lastDeliveryAttemptTime not in ("", "" if last is None else stamp(last)):
        said = f"the dead letter says {record.lastDeliveryAttemptTime}, the last attempt was at {last}"
        oracle.fail("I9", said, lane=lane.id, owed=owed)
    if last is not None and owed.burial.write_at < last + delay:
        oracle.fail("I11", "will be written too early", lane=lane.id, owed=owed)
    _check_reason(oracle, lane, touched, record.deadLetterReason)


def _last_settled(touched: Touched, expired: bool) -> int | None:
    """When the last attempt was sent that dispatch can know of: one that was under way in a crash is forgotten.

    A delivery that expired was parked by its last attempt, if it had any; any other is given up by the newest.
    """
    if expired:
        return touched.parked.delivery.last_attempt_at if touched.parked else None
    return touched.owed.arrivals[-1].sent_at if touched.owed.arrivals else None


def _check_reason(oracle: Oracle, lane: Watched, touched: Touched, reason: str) -> None:
    cloud.check_given_up(oracle, lane, touched, reason)
    liveness.check_end(oracle, lane, touched, reason)
    owed, now = touched.owed, oracle.clock.now()
    policies = oracle.policies_of(lane)
    last = owed.arrivals[-1].outcome if owed.arrivals else None
    match reason:
        case "Canceled":
            true = lane.deleted_at is not None
        case "TimeToLiveExceeded":
            due = touched.state is State.UNREAD or (touched.parked is not None and lane.is_due(touched.parked, now))
            true = due and now >= owed.event.sent_at + min(policy.ttl_ns for policy in policies)
        case "MaxDeliveryAttemptsExceeded":
            true = touched.attempts + 1 >= min(policy.max_attempts for policy in policies)
        case _:
            true = last is not None and last.status is not None and reason == NEVER_RETRIED.get(last.status)
    said = f"is given up: {reason} after {touched.attempts} attempts, {last}"
    if not true and reason == "TimeToLiveExceeded":
        oracle.fail("I14", said, lane=lane.id, owed=owed)
    elif not true:
        oracle.fail("I10", said, lane=lane.id, owed=owed)
