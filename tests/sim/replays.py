"""Checks of what is replayed: a new delivery of a kept event, to one subscription, that names the position of the old.

Endpoints cannot tell two deliveries of one event apart, so the people replay only what has come to an end.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from recapito.domain.delivery.delivery import DeliveryId
from recapito.domain.events.segment import REPLAYED
from recapito.domain.filters.matcher import matches
from recapito.intake.publish.replayer import Replayed
from tests.sim.endpoints import ArrivedEvent
from tests.sim.publication import Published

if TYPE_CHECKING:
    from recapito.domain.events.segment import Segment
    from tests.sim.facts import Watched
    from tests.sim.oracle import Oracle


@dataclass
class ReplayAsked:
    """A request to replay, until its answer: its range, the versions of the subscription before it, what it brought."""

    start: int
    until: int
    versions: int
    replayed: dict[str, int] = field(default_factory=dict)  # event -> the position that it comes from


def last_settled(oracle: Oracle, lane: Watched, start: int) -> int:
    """The last position from `start` on up to which a lane has ended all that it has had of the log."""
    passed = lane.books.cursor.low[0] - 1
    for id, identity in oracle.appended.items():
        if oracle.published[id].topic == lane.topic and start <= identity.position <= passed:
            owed = oracle.owed(lane, id)
            if owed is not None and not owed.terminal:
                passed = identity.position - 1
    return passed


def check(oracle: Oracle, topic: int, position: int, segment: Segment, events: list[ArrivedEvent]) -> None:
    """A replayed segment was appended: it repeats, for one subscription, events that its lane has passed."""
    origin = int(segment.origin.removeprefix(REPLAYED))
    oracle.note("replayed", segment.only, origin, *(event.id for event in events))
    target = oracle.lanes.get(segment.only)
    asked = None if target is None else target.replay
    if target is None or target.topic != topic or asked is None:
        oracle.fail("replay", f"position {origin} is replayed to lane {segment.only}, and nobody asked for it")
        return
    if not asked.start <= origin <= asked.until or origin >= target.books.cursor.low[0]:
        oracle.fail("replay", f"position {origin} is replayed, and the lane has not passed it", lane=target.id)
    for offset, event in enumerate(events):
        first, sent = oracle.appended.get(event.id), oracle.published.get(event.id)
        if first is None or sent is None or (sent.topic, first.position) != (topic, origin):
            oracle.fail("replay", f"is replayed from {origin}, where it is not", lane=target.id, event=event.id)
            continue
        if (bytes(event.data), event.subject, event.eventType) != (sent.data, sent.subject, sent.type):
            oracle.fail("replay", f"is replayed as {event}", lane=target.id, event=event.id)
        if event.id in asked.replayed:
            oracle.fail("replay", "is replayed twice by one request", lane=target.id, event=event.id)
        if not _takes(target, asked, sent):
            oracle.fail("replay", "is replayed where it does not match", lane=target.id, event=event.id)
        asked.replayed[event.id] = origin
        _owe(oracle, target, DeliveryId(position, offset), sent, segment.published_at[offset])


def check_answer(oracle: Oracle, lane: Watched, result: Replayed) -> None:
    """A call was answered: of the entries that it read, each sound event that the filter takes is replayed."""
    asked = lane.replay
    assert asked is not None
    done = sum(origin >= result.start for origin in asked.replayed.values())
    if result.done != done:
        oracle.fail("replay", f"says that {result.done} events are replayed, there are {done}", lane=lane.id)
    if result.damaged or len(lane.versions) > asked.versions:
        return
    end = result.until + 1 if result.next is None else result.next
    for id, identity in oracle.appended.items():
        sent = oracle.published[id]
        read = sent.topic == lane.topic and result.start <= identity.position < end
        if read and id not in asked.replayed and _takes(lane, asked, sent):
            oracle.fail("replay", f"is left out of a replay of {identity.position}", lane=lane.id, event=id)


def _takes(lane: Watched, asked: ReplayAsked, sent: Published) -> bool:
    """Whether a filter that the subscription had since the request takes an event."""
    since = lane.versions[asked.versions - 1 :]
    return any(matches(version.filter, sent.type, sent.subject, sent.wire()) for version in since)


def _owe(oracle: Oracle, target: Watched, identity: DeliveryId, sent: Published, published_at: int) -> None:
    """The event is owed once more to its subscription, and passed by all others."""
    again = replace(sent, sent_at=published_at, appended_s=oracle.time_s())
    for lane in oracle.lanes.values():
        if lane.topic == target.topic and lane.deleted_at is None:
            lane.books.add(identity, again, lane is target)
    target.repeated[sent.id] = identity
