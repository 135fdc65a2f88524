"""Checks of what goes over the wire: I6 to I9, batch limits, holds, and the speed of healthy endpoints (I17)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec.structs import astuple

from recapito.domain import limits
from recapito.domain.delivery.attributes import Header
from recapito.domain.instant import SECOND
from recapito.domain.resources.subscription import DynamicAttribute, StaticAttribute, Subscription
from tests.domain.filters.reference import find
from tests.sim import cloud, liveness, paced
from tests.sim.books import Owed, State
from tests.sim.endpoints import Arrival, ArrivedEvent

if TYPE_CHECKING:
    from tests.sim.facts import Watched
    from tests.sim.oracle import Oracle

NEWS_S = 30.0  # within this time after its answer a change must have reached the lane
PROMPT_S = 5.0
FIRST_HOLD_S = 60.0


def check_arrival(oracle: Oracle, lane: Watched, arrival: Arrival) -> None:
    """A request goes out: may it, and is it right?"""
    arrival.epoch = lane.epoch
    if lane.blocked is not None:
        oracle.fail("I8", "something is sent though the last settlement is not stored", lane=lane.id)
    found = [_check_event(oracle, lane, event) for event in arrival.events]
    owed = arrival.owed = [each for each in found if each is not None]
    oracle.note("sent", lane.id, arrival.behaviour, *(event.id for event in arrival.events))
    for each in owed:
        _check_turn(oracle, lane, each, arrival)
        each.arrivals.append(arrival)
        lane.attempts[each.identity, arrival.sent_at] = arrival
    _check_batch(oracle, lane, arrival, owed)
    _check_destination(oracle, lane, arrival)
    paced.check_limits(oracle, lane, arrival)
    first_attempts = sum(each.parked is None or not each.parked.delivery.attempts for each in owed)
    wrong = lane.hold.sent(oracle.rules_of(lane), arrival, first_attempts)
    if wrong and oracle.watches_holds:
        oracle.fail("hold", f"sent, but {wrong}", lane=lane.id, event=arrival.events[0].id)


def check_answer(oracle: Oracle, lane: Watched, arrival: Arrival) -> None:
    """An answer is heard: a success within 180 seconds of sending settles its deliveries from now on."""
    assert arrival.outcome is not None and arrival.heard_at is not None
    profile = oracle.profile_of(lane.topic)
    lane.hold.heard(profile, oracle.rules_of(lane), arrival, arrival.heard_at)
    cloud.check_answer(oracle, lane, arrival)
    if arrival.outcome.status not in profile.status.success:
        return
    in_time = arrival.heard_at - arrival.sent_at <= limits.LATE_ANSWER_WAIT_NS
    slept = (oracle.clock.suspended_at or 0) >= arrival.sent_at  # then an answer may be younger than it seems
    if not in_time and not slept:
        return
    for owed in arrival.owed:
        if owed.successes:
            oracle.duplicates += 1
        else:
            liveness.check_in_time(oracle, lane, owed)
        owed.successes.append(arrival)
        if in_time and arrival.epoch == lane.epoch and lane.deleted_at is None:
            owed.success_epoch, owed.success_at = lane.epoch, arrival.heard_at


def check_abort(oracle: Oracle, lane: Watched, arrival: Arrival) -> None:
    """An exchange listens for 180 seconds, unless the lane has lost its memory or its subscription."""
    assert arrival.aborted_at is not None
    if lane.deleted_at is not None or arrival.epoch != lane.epoch or oracle.late_limited:
        return
    age = arrival.aborted_at - arrival.sent_at
    if age < limits.LATE_ANSWER_WAIT_NS:
        said = f"an exchange was cut after {age / SECOND:.1f} s"
        oracle.fail("late", said, lane=lane.id, event=arrival.events[0].id)


def _check_event(oracle: Oracle, lane: Watched, event: ArrivedEvent) -> Owed | None:
    """An event that arrives was published, is owed to this subscription, and is unchanged (I6, I7)."""
    if event.id not in oracle.published or event.id not in oracle.appended:
        oracle.fail("I6", "was delivered and never stored", lane=lane.id, event=event.id)
        return None
    owed = oracle.owed(lane, event.id)
    if owed is None:
        oracle.fail("I6", "was delivered where it does not match", lane=lane.id, event=event.id)
        return None
    sent = owed.event
    topic = oracle.topics[sent.topic]
    version = None if event.dataVersion is None else sent.data_version
    got = (event.eventType, event.subject, event.eventTime, event.dataVersion, event.topic, bytes(event.data))
    if got != (sent.type, sent.subject, sent.event_time, version, topic.resource_id, sent.data):
        oracle.fail("I7", f"arrived as {got}", lane=lane.id, event=event.id)
    return owed


def _check_turn(oracle: Oracle, lane: Watched, owed: Owed, arrival: Arrival) -> None:
    """It is this delivery's turn: not settled, not on the wire, due, not expired, not tried too often.

    A row may be found damaged and set aside while its lane has a sound copy in memory, which goes out once.
    """
    now = arrival.sent_at
    if owed.state not in (State.UNREAD, State.PARKED) and owed.identity not in lane.books.lost:
        oracle.fail("I8", f"is sent when it is {owed.state}", lane=lane.id, owed=owed)
    if owed.success_epoch == lane.epoch:
        oracle.fail("I8", f"is sent again after a success at {owed.success_at}", lane=lane.id, owed=owed)
    if owed.state is State.PARKED and owed.parked is not None and not lane.is_due(owed.parked, now):
        oracle.fail("I9", f"is sent {owed.parked.due_at - now} ns early", lane=lane.id, owed=owed)
    if owed.arrivals:
        last = owed.arrivals[-1]
        if owed.parked is None or owed.parked.delivery.last_attempt_at != last.sent_at:
            owed.lost_attempts += 1
            if last.epoch == lane.epoch:
                oracle.fail("I9", "is sent again before its last attempt is settled", lane=lane.id, owed=owed)
    policies = oracle.policies_of(lane)
    most = max(policy.max_attempts for policy in policies)
    if cloud.counted(oracle, lane, owed) - owed.lost_attempts >= most:
        oracle.fail("I9", f"is tried more than {most} times", lane=lane.id, owed=owed)
    longest = max(policy.ttl_ns for policy in policies)
    if now >= owed.event.sent_at + longest + 60 * SECOND:
        oracle.fail("I9", "is sent after its time to live", lane=lane.id, owed=owed)
    _check_prompt(oracle, lane, owed)
    liveness.check_on_schedule(oracle, lane, owed, now)


def _check_batch(oracle: Oracle, lane: Watched, arrival: Arrival, owed: list[Owed]) -> None:
    """A batch keeps its limits, mixes nothing, and is honest about its attempts."""
    batch = arrival.batch
    if batch.events != len(arrival.events):
        oracle.fail("I9", f"a batch of {len(arrival.events)} says {batch.events}", lane=lane.id)
    most = max(version.batching.event_limit for version in lane.versions)
    largest = max(version.batching.byte_limit for version in lane.versions)
    if batch.events > most or (len(batch.body) > largest and batch.events > 1):
        said = f"a batch of {batch.events} events and {len(batch.body)} bytes is over {most} and {largest}"
        oracle.fail("batch", said, lane=lane.id, event=arrival.events[0].id)
    if len({each.state is State.UNREAD for each in owed}) > 1:
        oracle.fail("batch", "fresh and parked events are mixed", lane=lane.id, event=arrival.events[0].id)
    _check_headers(oracle, lane, arrival, owed)
    before = [each.parked.delivery.attempts if each.parked else 0 for each in owed]
    if before and batch.attempts_before != min(before):
        said = f"the batch says {batch.attempts_before} attempts before, it should be {min(before)}"
        oracle.fail("I9", said, lane=lane.id, event=arrival.events[0].id)


def _check_headers(oracle: Oracle, lane: Watched, arrival: Arrival, owed: list[Owed]) -> None:
    """A request has the headers that each of its events asks for, by one of the subscription's versions."""
    asked = [{tuple(_headers(version, each)) for each in owed} for version in lane.versions]
    if owed and {arrival.batch.headers} not in asked:
        oracle.fail("headers", f"goes with {tuple(arrival.batch.headers)}", lane=lane.id, owed=owed[0])


def _headers(version: Subscription, owed: Owed) -> Iterator[Header]:
    """Static headers first, then those whose values are texts of the event."""
    yield from (Header(*astuple(each)) for each in version.attributes if isinstance(each, StaticAttribute))
    for each in version.attributes:
        if isinstance(each, DynamicAttribute):
            value = find(json.loads(owed.event.wire()), each.source)
            assert isinstance(value, str)
            yield Header(each.name, value)


def _check_destination(oracle: Oracle, lane: Watched, arrival: Arrival) -> None:
    """Destination and policy are those of now, once the change has been answered and had time to arrive."""
    if arrival.url == lane.now.destination.url:
        return
    since = next(v.version for v in lane.versions if v.destination.url == arrival.url)
    answered = [at for version, at in lane.acknowledged.items() if version > since]
    if answered and arrival.sent_at > min(answered) + int(NEWS_S * SECOND) and oracle.calm(NEWS_S):
        oracle.fail("I12", f"is sent to {arrival.url}, which was replaced", lane=lane.id, event=arrival.events[0].id)


def _check_prompt(oracle: Oracle, lane: Watched, owed: Owed) -> None:
    """A healthy endpoint gets a fresh event at once, whatever the others do (I17)."""
    if owed.arrivals or owed.event.appended_s is None or lane.id not in oracle.always_healthy:
        return
    if oracle.slots_limited:  # then a few endpoints that hang after they were quick can take them all for 30 seconds
        return
    waited = oracle.time_s() - owed.event.appended_s
    held_s = FIRST_HOLD_S  # what was under way while the machine was suspended has timed out, and may have held it
    if (
        waited > PROMPT_S + paced.turns_s(lane, owed.event.appended_s)
        and oracle.calm(waited + PROMPT_S + held_s)
        and not lane.hold.hold.on
    ):
        oracle.fail("I17", f"waited {waited:.1f} s for a healthy endpoint", lane=lane.id, owed=owed)
