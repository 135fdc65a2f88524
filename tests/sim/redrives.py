"""Checks of what is redriven: letters that lie in the vault, each once, for their own subscription and no other."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from recapito.domain.delivery.delivery import DeliveryId
from tests.sim.endpoints import ArrivedEvent
from tests.sim.settlements import decode_records

if TYPE_CHECKING:
    from recapito.domain.events.segment import Segment
    from tests.sim.oracle import Oracle


def check(oracle: Oracle, topic: int, position: int, segment: Segment, events: list[ArrivedEvent]) -> None:
    """A segment of redriven events was appended: it is owed to its subscription and to no other."""
    oracle.note("redriven", segment.only, segment.origin, *(event.id for event in events))
    container, _, path = segment.origin.partition(":")
    letters = {record.id: record for record in decode_records(oracle.vault_files.get((container, path), b"[]"))}
    target = oracle.lanes.get(segment.only)
    if target is None or target.topic != topic or path.partition("/")[0] != target.now.name.upper():
        oracle.fail("I6", f"{segment.origin} is redriven to lane {segment.only} of topic {topic}")
        return
    for offset, event in enumerate(events):
        letter, sent = letters.get(event.id), oracle.published.get(event.id)
        if letter is None or sent is None:
            oracle.fail("I6", f"is redriven and not in {segment.origin}", lane=target.id, event=event.id)
            continue
        if (bytes(event.data), event.subject, event.eventType) != (sent.data, sent.subject, sent.type):
            oracle.fail("I7", f"is redriven as {event}", lane=target.id, event=event.id)
        oracle.redriven[segment.origin, event.id] += 1
        if oracle.redriven[segment.origin, event.id] > 1:
            oracle.fail("I5", f"is redriven twice from {segment.origin}", lane=target.id, event=event.id)
        identity = DeliveryId(position, offset)
        again = replace(
            sent,
            data_version=event.dataVersion or "",
            sent_at=segment.published_at[offset],
            appended_s=oracle.time_s(),
        )
        for lane in oracle.lanes.values():
            if lane.topic == topic and lane.deleted_at is None:
                lane.books.add(identity, again, lane is target)
        target.repeated[event.id] = identity
